"""Preempt: make room for a promise that is due, or bring a budget back within its caps (6.9, R4, R6).

Freeze (if there is a lottery), Cut, Close, Prepare, Start: each one entry, each planned from a fresh reading. Who has
to yield is the planner's; here it is only carried out. Needs the verb `resolve` on ledger entries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from kubectl_runs.commit import events
from kubectl_runs.commit.append import Appended, Stale, append
from kubectl_runs.commit.base import advance
from kubectl_runs.commit.chain import Tip, link
from kubectl_runs.commit.draft import Draft, run_ref
from kubectl_runs.commit.life import Life, life
from kubectl_runs.commit.promise import write_promise
from kubectl_runs.commit.record import budget_records, plan_digest, promise_of
from kubectl_runs.commit.roll_forward import roll_forward
from kubectl_runs.commit.settle import settle_run
from kubectl_runs.commit.start import Begun, begin
from kubectl_runs.commit.steps import Means, Steps, Wait, must
from kubectl_runs.commit.submit import try_pods
from kubectl_runs.errors import NotFoundError, RunsError
from kubectl_runs.read import Reading, read
from kubectl_runs.store.protocol import Forbidden, List
from kubectl_runs.wire import decode, encode
from kubectl_runs.wire.kinds import BUDGET, LEDGER_ENTRY, RUN
from planner.fold import open_leases, reservations_by_key
from planner.model import (
    Closure,
    Cut,
    Decision,
    DrawRecord,
    Ended,
    Entry,
    EntryKind,
    Lottery,
    Reservation,
    Run,
    RunRef,
    Snapshot,
    Verdict,
)
from planner.values import dataclass

TURNS_MAX = 60
POLL_SECONDS_FIRST, POLL_SECONDS_MAX = 0.1, 2.0
NOTHING = Decision(verdict=Verdict.NONE, run=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """How it ended: the last decision, the Cut entries that were made, and the start if there was one."""

    decision: Decision
    cuts: tuple[Entry, ...] = ()
    begun: Begun | None = None
    yielded: tuple[Cut, ...] = ()  # what those Cut entries took, as the planner said it
    lottery: Lottery | None = None  # the attested one, if there was any

    @property
    def started(self) -> bool:
        return self.begun is not None and self.begun.entry is not None


def activate(key: str, means: Means, *, wait: bool = True) -> Steps[Resolved]:
    """6.9 for one reservation, by key. The caller has checked that it is due."""
    done = Resolved(decision=NOTHING)
    tried = False
    for _ in range(TURNS_MAX):
        reading = yield from read(runs=(key,))  # 6.5: a Reservation is named after its run
        promise = _promise(reading, key)
        decision = _activation(reading, promise)
        if decision.verdict is not Verdict.START:
            if not (wait and _ending(reading, promise)):
                return replace(done, decision=decision)
            yield from _until_free(_ending(reading, promise), means)
            continue
        if not decision.cuts:
            begun = yield from begin(_run_object(reading, promise), reading, means, _planned(key))
            return replace(done, decision=begun.decision or decision, begun=begun)
        if not tried:
            # 6.9: the winner's pods are tried first, so that no quota refuses it after others died.
            yield from _try(reading, promise, decision, means)
            tried = True
        entry = yield from _cut(reading, decision, means, _winner(reading, promise, decision))
        done = _with(done, entry, decision)
        if done.cuts and not wait:
            return done
    raise RunsError(f"reservation {key} was overtaken {TURNS_MAX} times; try again")


def tighten(budget: str, envelope: str | None, means: Means, *, wait: bool = True) -> Steps[Resolved]:
    """R6: Freeze if there is a lottery, Cut, Close; nothing starts."""
    from planner.resolve import tighten as plan

    done = Resolved(decision=NOTHING)
    for _ in range(TURNS_MAX):
        reading = yield from read()
        frozen = yield from frozen_before(reading.snapshot)
        decision = plan(reading.snapshot, budget, envelope, reading.now, frozen)
        if decision.verdict is not Verdict.CUT:
            if wait and done.cuts:
                yield from _until_free([key for entry in done.cuts for key in _ends(entry)], means)
            return done if done.cuts else replace(done, decision=decision)
        record = encode.budget_record(reading.objects[BUDGET][budget])
        draft = Draft(kind=EntryKind.CUT, budgets=(record,), trace=tuple(encode.trace(decision.trace)))
        entry = yield from _cut(reading, decision, means, draft, frozen)
        done = _with(done, entry, decision)
    raise RunsError(f"budget {budget} was overtaken {TURNS_MAX} times; try again")


def _with(done: Resolved, entry: Entry | None, decision: Decision) -> Resolved:
    """What was done so far, and this entry of that decision; a Freeze ends nothing yet."""
    if entry is None or entry.kind is not EntryKind.CUT:
        return done
    taken = tuple(cut for cut in decision.cuts if not cut.provisional)
    return replace(
        done,
        decision=decision,
        cuts=(*done.cuts, entry),
        yielded=(*done.yielded, *taken),
        lottery=decision.lottery or done.lottery,
    )


# One entry


def frozen_before(snapshot: Snapshot) -> Steps[tuple[Entry, ...]]:
    """R4: Freeze entries that base has passed; a budget's order holds as a reservation's does.

    They are found in a list of the entries that are kept, not by anybody's status: whoever dislikes a draw must not
    be able to make it forgotten. The word of the oldest kept entry for what stood before it is taken.
    """
    base = snapshot.base.seq if snapshot.base else 0
    if not base:
        return ()
    listed = (yield from must(List(kind=LEDGER_ENTRY))).items
    kept = sorted((decode.entry(each) for each in listed), key=lambda entry: entry.seq)
    passed = [entry for entry in kept if entry.seq <= base]
    if not passed:
        return ()
    _, linked = link(Tip(seq=passed[0].seq - 1, digest=passed[0].prev, time=0), passed)
    known = {entry.seq for entry in snapshot.entries}
    return tuple(entry for entry in linked if entry.freeze and not entry.void and entry.seq not in known)


def _cut(
    reading: Reading, decision: Decision, means: Means, draft: Draft, frozen: Sequence[Entry] = ()
) -> Steps[Entry | None]:
    """The next entry of a decision with cuts: a Freeze while its lottery is provisional, then the Cut."""
    lottery = decision.lottery
    if lottery is not None and lottery.provisional and any(cut.provisional for cut in decision.cuts):
        # R4: conflict set, deficit and scope are frozen before the seed exists.
        freeze = replace(draft, kind=EntryKind.FREEZE, freeze=lottery.freeze, reserve=None, trace=(), plan="")
        return (yield from _append(reading, freeze, means))
    ends = ends_of_cuts(decision.cuts, lottery)
    entries = (*reading.snapshot.entries, *frozen)
    entry = yield from _append(reading, replace(draft, ends=ends, draw=_draw(entries, lottery)), means)
    if entry is not None:
        yield from _tell_losers(reading, entry, means)
    return entry


def _append(reading: Reading, draft: Draft, means: Means) -> Steps[Entry | None]:
    """Append and roll forward; None: others came first, so read and plan again (such entries are never rebased)."""
    outcome = yield from append(draft, reading, means)
    if isinstance(outcome, Stale):
        if isinstance(outcome.error, Forbidden):
            raise outcome.error
        return None
    if not isinstance(outcome, Appended):
        yield Wait(means.jitter() * 0.1)
        return None
    rolled = yield from roll_forward(outcome.entry, outcome.reading)
    unwritten = yield from write_promise(outcome.entry, outcome.reading, _resolution(outcome))
    words = tuple(word for word, _ in unwritten)
    rolled = replace(rolled, unfinished=(*rolled.unfinished, *words))
    yield from advance(outcome.reading, {outcome.entry.seq: rolled} if not draft.freeze else {})
    return outcome.entry


def _winner(reading: Reading, promise: Reservation, decision: Decision) -> Draft:
    """6.9: the Cut carries the winner's slice, which replaces its Reservation's and is held until it starts."""
    run = _run(reading, promise)
    ref = run_ref(run, life(reading.snapshot, run).attempt)
    slice_ = replace(promise_of(ref, run, decision), earliest_start=promise.earliest_start)
    return Draft(
        kind=EntryKind.CUT,
        run=ref,
        reservation=RunRef(namespace=promise.namespace, name=promise.name, uid=promise.uid),
        budgets=budget_records(reading, decision),
        plan=plan_digest(decision),
        trace=tuple(encode.trace(decision.trace)),
        reserve=slice_,
    )


def ends_of_cuts(cuts: Sequence[Cut], lottery: Lottery | None) -> tuple[Ended, ...]:
    """What a Cut ends. The reason on each lease of a lottery is `RandomPreempt(<seed, hex>)` (R4)."""
    ends = []
    for cut in cuts:
        if cut.provisional:
            continue
        drawn = cut.kind is Closure.RANDOM_PREEMPT and lottery is not None
        reason = f"{cut.kind}({lottery.seed})" if drawn and lottery else str(cut.kind)
        for key in cut.leases:
            namespace, _, name = key.partition("/")
            ends.append(Ended(namespace=namespace, lease=name, reason=reason))
    return tuple(ends)


def _draw(entries: Sequence[Entry], lottery: Lottery | None) -> DrawRecord | None:
    if lottery is None or lottery.provisional:
        return None
    frozen = [entry for entry in entries if entry.freeze == lottery.freeze and not entry.void]
    return DrawRecord(
        freeze=max(entry.seq for entry in frozen),
        seed=lottery.seed,
        picks=lottery.picks,
        given_back=lottery.given_back,
    )


def _resolution(appended: Appended) -> encode.Json | None:
    entry = appended.entry
    if entry.draw is None:
        return None
    draws = [{"pick": run} for run in entry.draw.picks]
    told: encode.Json = {"entry": entry.seq, "seed": entry.draw.seed, "draws": draws}
    for frozen in appended.reading.snapshot.entries:
        if frozen.seq == entry.draw.freeze and frozen.freeze is not None:
            told["conflictSet"] = encode.freeze(frozen.freeze)["tokens"]
    return {"resolution": told}


# Others, and waiting for them


def _until_free(keys: Sequence[str], means: Means) -> Steps[None]:
    """Wait until leases that were ended are closed: pods gone, Close in the ledger (6.6)."""
    pause = POLL_SECONDS_FIRST
    while True:
        reading = yield from read()
        held = open_leases(reading.snapshot)
        runs = sorted({held[key].run_key for key in keys if key in held})
        if not runs:
            return
        for key in runs:
            fresh = yield from read(runs=(key,))
            run = fresh.run(key)
            if run is not None:
                yield from settle_run(fresh, run, means)
        means.say(f"waiting for {len(runs)} runs to give way")
        yield Wait(pause)
        pause = min(pause * 1.5, POLL_SECONDS_MAX)


def _tell_losers(reading: Reading, entry: Entry, means: Means) -> Steps[None]:
    """R5: losers get an Event that names the winner, the seed and how to verify."""
    held = open_leases(reading.snapshot)
    winner = entry.run.key if entry.run else "a budget that was lowered"
    reasons = {held[key].run_key: end.reason for key, end in zip(_ends(entry), entry.ends, strict=True) if key in held}
    made = []
    for key, reason in sorted(reasons.items()):
        run_object = reading.object(RUN, key)
        if run_object is not None:
            seed = f", seed {entry.draw.seed}: kubectl runs verify --draw {entry.draw.seed}" if entry.draw else ""
            message = f"gives way to {winner} (ledger entry {entry.seq}{seed})"
            made.append(
                events.run_event(run_object, reason, message, now=entry.time, nonce=means.nonce(), warning=True)
            )
    yield from events.record(made)


def _ends(entry: Entry) -> list[str]:
    return [f"{end.namespace}/{end.lease}" for end in entry.ends]


def _ending(reading: Reading, promise: Reservation) -> list[str]:
    """Leases that a Cut for this reservation has ended and that still hold their GPUs."""
    held = open_leases(reading.snapshot)
    cuts = [entry for entry in reading.snapshot.entries if entry.kind is EntryKind.CUT and not entry.void]
    mine = [entry for entry in cuts if entry.reserve is not None and entry.reserve.run_uid == promise.run_uid]
    return [key for entry in mine for key in _ends(entry) if key in held]


# Looking things up


def _promise(reading: Reading, key: str) -> Reservation:
    found = reservations_by_key(reading.snapshot).get(key)
    if found is None:
        raise NotFoundError(f"reservation {key} not found", hint="kubectl runs reservations -A")
    return found


def _run(reading: Reading, promise: Reservation) -> Run:
    found = reading.run(promise.run_key)
    if found is None:
        raise NotFoundError(f"run {promise.run_key} of reservation {promise.key} is gone")
    return found


def _run_object(reading: Reading, promise: Reservation) -> encode.Json:
    _run(reading, promise)
    return dict(reading.object(RUN, promise.run_key) or {})


def _activation(reading: Reading, promise: Reservation) -> Decision:
    from planner.resolve import activate as plan

    return plan(reading.snapshot, promise, reading.now)


def _planned(key: str) -> Callable[[Reading, Run], Decision]:
    """The plan of a start that needs no cuts any more; one that would need some again only waits."""

    def plan(reading: Reading, _run: Run) -> Decision:
        decision = _activation(reading, _promise(reading, key))
        return decision if not decision.cuts else replace(decision, verdict=Verdict.NONE)

    return plan


def _try(reading: Reading, promise: Reservation, decision: Decision, means: Means) -> Steps[None]:
    run = _run(reading, promise)
    lived: Life = life(reading.snapshot, run)
    yield from try_pods(_run_object(reading, promise), decision, lived.attempt, means)
