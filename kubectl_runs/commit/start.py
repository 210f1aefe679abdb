"""Starting a run: plan, prepare, append, roll forward; or reserve (6.2 to 6.5).

One road for `submit`, for a new attempt, for a due reservation and for growth. It plans again as often as others come
first, keeping its pods; a command that loses deletes its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import replace

from kubectl_runs.commit import events
from kubectl_runs.commit.append import Appended, Overtaken, append
from kubectl_runs.commit.base import base_writes
from kubectl_runs.commit.claims import check_claims
from kubectl_runs.commit.draft import Draft
from kubectl_runs.commit.life import Life, life
from kubectl_runs.commit.prepare import PREPARE_MAX, Prepared, add_finalizer, create_run, delete_pods, prepare, ranks
from kubectl_runs.commit.promise import forecast_status, write_promise
from kubectl_runs.commit.record import draft_of, opens_of, plan_digest, promise_of, run_ref_of
from kubectl_runs.commit.roll_forward import Rolled, roll_forward
from kubectl_runs.commit.status import status_writes
from kubectl_runs.commit.steps import Means, Steps, Wait, all_of
from kubectl_runs.commit.withdraw import withdraw_run
from kubectl_runs.errors import OutcomeUnknown, RunsError
from kubectl_runs.read import Reading, catch_up, read
from kubectl_runs.store.protocol import Object, StoreError
from kubectl_runs.wire import decode, encode
from kubectl_runs.wire.kinds import RUN
from planner.model import Decision, Entry, EntryKind, Opening, Reservation, Run, Verdict
from planner.values import dataclass

PLANS_MAX = 100
STALES_MAX = 3
BACKOFF_FIRST, BACKOFF_MAX = 0.1, 0.4  # seconds
FRESH_SECONDS = 20  # a reading that was caught up with entries is read anew after this long


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """How it ended: the decision, the entry if one was appended, and the run as it then stood."""

    decision: Decision | None
    run: Object
    life: Life
    reading: Reading
    entry: Entry | None = None
    rolled: Rolled | None = None


Planner = Callable[[Reading, Run], Decision]


@dataclasses.dataclass(slots=True, kw_only=True)
class _Progress:
    """What one command carries from plan to plan: the run, its reading, and the pods it has prepared."""

    run: Object
    reading: Reading
    prepared: Prepared
    made_run: bool = False  # the Run was made by this command, and no entry names it
    stales: int = 0


def begin(
    manifest: Object, reading: Reading, means: Means, plan: Planner, *, check_plan: str = "", grows: bool = False
) -> Steps[Begun]:
    """Carry a run from its manifest (or its object) to a start, a promise or a refusal."""
    namespace = manifest["metadata"]["namespace"]
    state = _Progress(run=manifest, reading=reading, prepared=Prepared(namespace=namespace, nonce=means.nonce()))
    try:
        for turn in range(PLANS_MAX):
            begun = yield from _once(state, means, plan, check_plan, grows)
            if begun is not None:
                return begun
            # Those who lost the same number spread out, wider each time, or they would all lose the next one too; what
            # came meanwhile is read after the wait, so that the next plan is as fresh as it can be.
            yield Wait(means.jitter() * min(BACKOFF_FIRST * 2**turn, BACKOFF_MAX))
            yield from _catch_up(state)
    except OutcomeUnknown:
        raise  # the pods may be named by an entry: nobody deletes them now
    except (RunsError, StoreError):
        yield from _take_back(state)
        raise
    yield from _take_back(state)
    raise RunsError(f"run {_key(manifest)} was overtaken {PLANS_MAX} times, nothing is held; try again")


def _once(state: _Progress, means: Means, plan: Planner, check_plan: str, grows: bool) -> Steps[Begun | None]:
    """One plan and, if it says so, one append; None: plan again."""
    known = state.reading.object(RUN, _key(state.run))
    if known is not None and known["metadata"]["uid"] == state.run["metadata"].get("uid", known["metadata"]["uid"]):
        state.run = known
    run = decode.run(state.run, state.reading.snapshot.namespace_owners)
    lived = life(state.reading.snapshot, run)
    if not (grows or lived.may_start):
        # 6.7: somebody else started, ended or cancelled it meanwhile.
        yield from delete_pods(run.namespace, state.prepared.pods)
        return Begun(decision=None, run=state.run, life=lived, reading=state.reading)
    decision = plan(state.reading, run)
    if check_plan and (digest := plan_digest(decision)) != check_plan:
        raise moved(run.key, digest, check_plan)
    if decision.verdict is Verdict.START:
        return (yield from _start(state, run, lived, decision, means, grows))
    yield from delete_pods(run.namespace, state.prepared.pods)
    state.prepared = replace(state.prepared, pods=())
    if decision.verdict is Verdict.RESERVE and not grows:
        return (yield from _reserve(state, run, lived, decision, means))
    yield from _take_back(state)
    return Begun(decision=decision, run=state.run, life=lived, reading=state.reading)


def _take_back(state: _Progress) -> Steps[None]:
    """6.3: a command that loses deletes its own pods; one that is refused leaves no Run either."""
    yield from delete_pods(state.prepared.namespace, state.prepared.pods)
    if state.made_run:
        yield from withdraw_run(state.run, state.prepared.nonce)


def _start(
    state: _Progress, run: Run, lived: Life, decision: Decision, means: Means, grows: bool
) -> Steps[Begun | None]:
    yield from check_claims(state.run)
    yield from _ensure_run(state)
    held = {lease.pod.name for lease in lived.held if lease.pod is not None}
    wanted = ranks(decision, lived.attempt, pods_before=len(held) if grows else 0)
    resource = decode.topology(state.reading.base_object).resource
    state.prepared = yield from prepare(
        state.run, wanted, state.prepared, now=state.reading.read_at, gpu_resource=resource
    )
    if state.prepared.ready_at - state.reading.read_at > PREPARE_MAX:
        # 6.3: if Prepare took more than a minute, read and plan again, keeping the pods.
        state.reading = yield from read(runs=(run.key,))
        return None
    kind, reason = (EntryKind.GROW, Opening.GROW) if grows else (EntryKind.START, Opening.START)
    draft = draft_of(kind, state.run, lived.attempt, state.reading, decision)
    opens = opens_of(run, decision.seats, state.prepared, reason)
    appended = yield from _append(state, replace(draft, opens=opens), means)
    if appended is None:
        return None
    return (yield from _finish(state, run, decision, appended, means))


def _reserve(state: _Progress, run: Run, lived: Life, decision: Decision, means: Means) -> Steps[Begun | None]:
    standing = _standing(state.reading, run)
    if standing is not None and not _better(decision, standing, state.reading.now):
        # F2: re-planning never makes a promised start later; the promise stands as it is.
        return Begun(decision=decision, run=state.run, life=lived, reading=state.reading)
    yield from _ensure_run(state)
    draft = draft_of(EntryKind.RESERVE, state.run, lived.attempt, state.reading, decision)
    reserve = promise_of(run_ref_of(state.run, lived.attempt), run, decision)
    appended = yield from _append(state, replace(draft, reserve=reserve), means)
    if appended is None:
        return None
    return (yield from _finish(state, run, decision, appended, means))


def _ensure_run(state: _Progress) -> Steps[None]:
    """6.3: the Run exists, with our finalizer, before anything is prepared for it."""
    if not state.run["metadata"].get("uid"):
        state.run, state.made_run = yield from create_run(state.run)
    state.run = yield from add_finalizer(state.run)


def _append(state: _Progress, draft: Draft, means: Means) -> Steps[Appended | None]:
    """Append; None where it has to be planned again, from what `state.reading` then holds."""
    outcome = yield from append(draft, state.reading, means)
    if isinstance(outcome, Appended):
        state.reading = outcome.reading
        # The entry names the Run and its pods: from here on nobody takes them back.
        state.made_run, state.prepared = False, replace(state.prepared, pods=())
        return outcome
    if isinstance(outcome, Overtaken):
        yield from _take(state, outcome.reading)
        return None
    state.stales += 1
    if state.stales >= STALES_MAX:
        raise outcome.error
    state.reading = yield from read(runs=(_key(state.run),))
    return None


def _catch_up(state: _Progress) -> Steps[None]:
    """What others have appended meanwhile."""
    reading, _ = yield from catch_up(state.reading)
    yield from _take(state, reading)


def _take(state: _Progress, reading: Reading) -> Steps[None]:
    """Go on from a reading that was caught up, or read anew where entries alone do not tell enough.

    What others opened and closed is in their entries; what was done to this run is in the Run (6.7).
    """
    key = _key(state.run)
    came = [entry for entry in reading.snapshot.entries if entry.seq > state.reading.tip.seq]
    mine = any(entry.run is not None and entry.run.key == key for entry in came)
    old = bool(came) and came[-1].created_at - reading.read_at >= FRESH_SECONDS
    state.reading = (yield from read(runs=(key,))) if mine or old else reading


def _finish(state: _Progress, run: Run, decision: Decision, appended: Appended, means: Means) -> Steps[Begun]:
    """6.5: roll the own entry forward, write the status, move base."""
    reading, entry = appended.reading, appended.entry
    run = replace(run, uid=state.run["metadata"]["uid"])
    rolled = yield from roll_forward(entry, reading)
    status = forecast_status(decision) if entry.kind is EntryKind.RESERVE else None
    unwritten = yield from write_promise(entry, reading, status)
    rolled = replace(rolled, unfinished=(*rolled.unfinished, *(word for word, _ in unwritten)))
    bound = frozenset(open_.pod.uid for open_ in entry.opens if open_.pod) if not rolled.unfinished else frozenset()
    # None of these depends on another, and none is needed: whoever comes next writes what is missing.
    told = events.event_writes([_event(state.run, entry, decision, means)])
    status_and_base = (*status_writes(reading, state.run, run, bound), *base_writes(reading, {entry.seq: rolled}))
    yield from all_of((*status_and_base, *told))
    lived = life(reading.snapshot, run)
    return Begun(decision=decision, run=state.run, life=lived, reading=reading, entry=entry, rolled=rolled)


def _event(run: Object, entry: Entry, decision: Decision, means: Means) -> encode.Json:
    words = {EntryKind.START: "starts with", EntryKind.GROW: "grows to", EntryKind.RESERVE: "waits for"}
    gpus = decision.width or sum(seat.gpus for seat in decision.seats)
    message = f"{words[entry.kind]} {gpus} GPUs (ledger entry {entry.seq}): {decision.message}"
    return events.run_event(run, entry.kind.value, message, now=entry.time, nonce=means.nonce())


# What is planned, and whether it is news


def _standing(reading: Reading, run: Run) -> Reservation | None:
    from planner.promise import promised
    from planner.world import World

    return promised(World.of(reading.snapshot, reading.now), run)


def _better(decision: Decision, standing: Reservation, now: int) -> bool:
    """Whether a new promise says more than the standing one: an earlier start, or a start where there was none."""
    if decision.earliest_start is None:
        return False
    if standing.earliest_start is None:
        return True
    return decision.earliest_start < standing.earliest_start and standing.earliest_start > now


def moved(key: str, digest: str, check_plan: str) -> RunsError:
    """`--check-plan`: what was looked at is not what would be done now."""
    words = f"run {key}: the plan is now {digest}, not {check_plan}: the world moved"
    return RunsError(words)


def planned(reading: Reading, run: Run) -> Decision:
    """6.2: plan, pure."""
    from planner.plan import plan_run

    return plan_run(reading.snapshot, run, reading.now)


def _key(run: Object) -> str:
    metadata = run["metadata"]
    return f"{metadata['namespace']}/{metadata.get('name') or metadata.get('generateName')}"
