"""Settling one run: end what is over, close what has gone, and say so (6.6, 6.7, S3).

Without a daemon a GPU stays held until somebody with the rights runs any command, so every command that changes
something settles what it sees. Each step is one entry of one run; what the entry says is then rolled forward.
"""

from __future__ import annotations

from collections.abc import Sequence

from kubectl_runs.commit import events
from kubectl_runs.commit.append import Appended, Overtaken, append
from kubectl_runs.commit.base import advance, is_unfinished
from kubectl_runs.commit.closing import Gone, close_draft, first_ends, gone_leases
from kubectl_runs.commit.draft import Draft, ends_of, run_ref
from kubectl_runs.commit.life import Life, Stage, life
from kubectl_runs.commit.promise import conclude, write_promise
from kubectl_runs.commit.roll_forward import Rolled, roll_forward, stop
from kubectl_runs.commit.status import write_status
from kubectl_runs.commit.steps import Means, Steps, try_one
from kubectl_runs.commit.swap import ends_of_plan, may_resolve, rescue_plan, swap
from kubectl_runs.commit.width import too_wide
from kubectl_runs.read import Reading, read
from kubectl_runs.store.protocol import Conflict, NotFound, Object, Patch, StoreError
from kubectl_runs.wire import encode
from kubectl_runs.wire.kinds import RUN
from kubectl_runs.wire.pods import FINALIZER
from planner.fold import open_leases
from planner.model import Closure, Entry, EntryKind, ReservationState, Run, RunRef
from planner.swap import RescuePlan
from planner.values import dataclass

APPENDS_MAX = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What one pass over one run did, and how it stands."""

    reading: Reading
    life: Life
    ended: tuple[str, ...] = ()  # keys of leases whose pods were stopped
    closed: tuple[str, ...] = ()


def settle_run(reading: Reading, run: Run, means: Means) -> Steps[Settled]:
    """One pass over one run: an End where something is over, a Close for what has gone, then its status.

    The reading has to hold all leases of this run.
    """
    ended: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()
    rolled: dict[int, Rolled] = {}
    for _ in range(APPENDS_MAX):
        lived = life(reading.snapshot, run)
        todo = _todo(reading, run, lived)
        if todo.swap is not None and (yield from may_resolve()):
            reading, swapped = yield from swap(reading, run, lived, todo.swap, means)
            if swapped is None:
                break
            rolled[swapped.seq] = swapped
            ended += (f"{run.key}: {todo.swap.message}",)
            continue
        if todo.draft is None:
            break
        outcome = yield from append(todo.draft, reading, means)
        if isinstance(outcome, Overtaken):
            reading = outcome.reading
            continue
        if not isinstance(outcome, Appended):
            raise outcome.error
        reading = outcome.reading
        rolled[outcome.entry.seq] = yield from roll_forward(outcome.entry, reading)
        ended += tuple(f"{end.namespace}/{end.lease}" for end in todo.draft.ends)
        closed += tuple(f"{close.namespace}/{close.lease}" for close in todo.draft.closes)
        yield from _tell(reading, run, outcome.entry, means)
    yield from _stop_again(reading)
    yield from _conclude(reading, run, rolled, bound_since(reading, rolled))
    return Settled(reading=reading, life=life(reading.snapshot, run), ended=ended, closed=closed)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Todo:
    """What a run needs next in the ledger."""

    draft: Draft | None = None
    swap: RescuePlan | None = None


def _todo(reading: Reading, run: Run, lived: Life) -> _Todo:
    """An End where something is over, else a Close for what has gone; a swap where a spare can take over."""
    if lived.stage is not Stage.HOLDS:
        return _Todo()
    ref = run_ref(run, lived.attempt)
    gone = gone_leases(reading, lived)
    already = first_ends(reading)
    if run.canceled or run.deleting:
        closing = {each.lease.key for each in gone}
        running = [lease for lease in lived.held if lease.key not in already and lease.key not in closing]
        if running:
            return _Todo(draft=Draft(kind=EntryKind.END, run=ref, ends=ends_of(running, Closure.CANCELED)))
        return _closes(ref, gone, reading)
    plan = rescue_plan(reading, run, gone)
    if plan is None:
        # E1: a width that was lowered is kept to, also where the command that lowered it died.
        return _closes(ref, gone, reading) if gone else _Todo(draft=too_wide(reading, run))
    if plan.moves:
        # S2: what a spare makes good is not closed before the swap, or nobody would know what to make good.
        kept = {lease.key for move in plan.moves for lease in (*move.lost, *move.spares)}
        left = _closes(ref, [each for each in gone if each.lease.key not in kept], reading)
        return _Todo(draft=left.draft, swap=plan)
    # S3: of a fixed run all others are ended; a malleable one gives up the groups that were hit.
    trace = tuple(encode.trace(plan.trace))
    return _Todo(draft=Draft(kind=EntryKind.END, run=ref, ends=ends_of_plan(plan.ends), trace=trace))


def _closes(ref: RunRef, gone: Sequence[Gone], reading: Reading) -> _Todo:
    return _Todo(draft=close_draft(ref, gone, reading) if gone else None)


def _stop_again(reading: Reading) -> Steps[None]:
    """6.5: pods of leases that somebody ended and could not stop are stopped by whoever comes next."""
    for entry in reading.snapshot.entries:
        if entry.ends and not entry.void and entry.seq <= reading.seen:
            yield from stop(entry, reading)


def bound_since(reading: Reading, rolled: dict[int, Rolled]) -> frozenset[str]:
    """Pods that this command has bound since it read them."""
    done = [entry for entry in reading.snapshot.entries if entry.seq in rolled and not rolled[entry.seq].refused]
    return frozenset(open_.pod.uid for entry in done for open_ in entry.opens if open_.pod is not None)


def _conclude(reading: Reading, run: Run, rolled: dict[int, Rolled], bound: frozenset[str]) -> Steps[None]:
    """Status, the promise of a run that is over, the finalizer of one that is being deleted, and base."""
    run_object = reading.object(RUN, run.key)
    lived = life(reading.snapshot, run)
    if run_object is not None and run_object["metadata"].get("uid") == run.uid:
        yield from write_status(reading, run_object, run, bound)
        if lived.over:
            promise = next((made for made in reading.snapshot.reservations if made.run_uid == run.uid), None)
            if promise is not None and promise.open:
                state = ReservationState.CANCELED if lived.stage is Stage.CANCELED else ReservationState.RELEASED
                yield from conclude(reading, promise.key, state, lived.reason)
        if run.deleting and not lived.held:
            yield from release(run_object)
    yield from advance(reading, rolled)


def release(run_object: Object) -> Steps[None]:
    """6.7: the finalizer is taken off after End, pods gone, Close."""
    metadata = run_object["metadata"]
    left = [name for name in metadata.get("finalizers") or () if name != FINALIZER]
    if left == (metadata.get("finalizers") or []):
        return
    patch = {"metadata": {"finalizers": left, "uid": metadata["uid"]}}
    outcome = yield from try_one(Patch(kind=RUN, name=metadata["name"], namespace=metadata["namespace"], patch=patch))
    if isinstance(outcome, StoreError) and not isinstance(outcome, NotFound | Conflict):
        raise outcome


def _tell(reading: Reading, run: Run, entry: Entry, means: Means) -> Steps[None]:
    """Events on the run, and on pods that are stopped for somebody else's sake."""
    run_object = reading.object(RUN, run.key)
    if run_object is None or entry.kind not in (EntryKind.END, EntryKind.CLOSE):
        return
    parts = entry.ends or entry.closes
    reasons = sorted({part.reason.partition("(")[0] for part in parts})
    verb = "ends" if entry.kind is EntryKind.END else "closes"
    message = f"{verb} {len(parts)} leases: {', '.join(reasons)} (ledger entry {entry.seq})"
    reason = reasons[0] if reasons else Closure.CANCELED.value
    made = events.run_event(run_object, reason, message, now=entry.time, nonce=means.nonce())
    stopped = events.pods_stopped(entry, open_leases(reading.snapshot), message, means.nonce)
    yield from events.record([made, *stopped])


def finish(reading: Reading, run: Run) -> Steps[Reading]:
    """6.5: roll forward what an earlier command left unfinished of this run, and read again if there was anything."""
    unfinished = unfinished_of(reading, run)
    for entry in unfinished:
        yield from roll_entry(entry, reading)
    return (yield from read(runs=(run.key,))) if unfinished else reading


def unfinished_of(reading: Reading, run: Run) -> tuple[Entry, ...]:
    """Entries about this run of which something is still to be written."""
    mine = [entry for entry in reading.snapshot.entries if entry.run is not None and entry.run.uid == run.uid]
    return tuple(entry for entry in mine if is_unfinished(entry, reading, {}))


def roll_entry(entry: Entry, reading: Reading) -> Steps[Rolled]:
    """Everything one entry decided, by whoever finds it unfinished."""
    rolled = yield from roll_forward(entry, reading)
    unwritten = yield from write_promise(entry, reading)
    words = tuple(word for word, _ in unwritten)
    return Rolled(seq=rolled.seq, unfinished=(*rolled.unfinished, *words), refused=rolled.refused)
