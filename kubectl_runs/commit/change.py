"""Changing a run that exists: cancel it, make it narrower, make it wider (6.7, E1, E2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kubectl_runs.commit import events
from kubectl_runs.commit.append import Appended, append
from kubectl_runs.commit.base import advance
from kubectl_runs.commit.closing import first_ends
from kubectl_runs.commit.draft import Draft, ends_of, run_ref
from kubectl_runs.commit.life import Life, Stage, life
from kubectl_runs.commit.promise import write_promise
from kubectl_runs.commit.roll_forward import roll_forward
from kubectl_runs.commit.settle import finish, settle_run
from kubectl_runs.commit.start import Begun, begin
from kubectl_runs.commit.steps import Means, Steps, Wait, must
from kubectl_runs.commit.width import shrink_draft, shrink_plan
from kubectl_runs.errors import NotFoundError, RunsError
from kubectl_runs.read import Reading, read
from kubectl_runs.store.protocol import Object, Patch
from kubectl_runs.wire import encode
from kubectl_runs.wire.kinds import RUN
from planner.elastic import desired_for
from planner.fold import open_leases
from planner.model import Closure, Decision, Entry, EntryKind, Lease, Run, Verdict
from planner.values import dataclass

PLANS_MAX = 50
POLL_SECONDS_FIRST, POLL_SECONDS_MAX = 0.1, 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """How the run stands after the change; `leaving` are the leases that were ended for it."""

    life: Life
    reading: Reading
    leaving: tuple[str, ...] = ()
    decision: Decision | None = None


def known_run(reading: Reading, key: str) -> tuple[Object, Run]:
    """The run's object and what it means; an error if there is none."""
    found = reading.object(RUN, key)
    run = reading.run(key)
    if found is None or run is None:
        namespace, _, name = key.partition("/")
        raise NotFoundError(f"run {name} not found in namespace {namespace}", hint="kubectl runs list -A")
    return found, run


# Cancel


def cancel(key: str, means: Means, *, wait: bool = True) -> Steps[Changed]:
    """6.7: first the one-way field, then always an End, even with nothing to end; then stop, close, say so."""
    reading = yield from read(runs=(key,))
    found, run = known_run(reading, key)
    lived = life(reading.snapshot, run)
    if lived.over and not run.canceled:
        return Changed(life=lived, reading=reading)
    if not run.canceled:
        # A submit that sleeps reads this field after the entries, and the End below takes the number it waits for.
        yield from must(_patch(found, {"canceled": True}))
    reading, ended = yield from _end(key, means, _everything)
    reading = yield from _settled(key, means, reading)
    if wait:
        reading = yield from free(key, ended, means)
    return Changed(life=life(reading.snapshot, known_run(reading, key)[1]), reading=reading, leaving=ended)


def _everything(reading: Reading, run: Run) -> Draft | None:
    lived = life(reading.snapshot, run)
    already = first_ends(reading)
    running = [lease for lease in lived.held if lease.key not in already]
    return Draft(kind=EntryKind.END, run=run_ref(run, lived.attempt), ends=ends_of(running, Closure.CANCELED))


# Shrink


def shrink(key: str, to: int, means: Means, *, wait: bool = True) -> Steps[Changed]:
    """E1: `desiredTotalGPUs` first, else it would grow back; then an End of the groups that leave."""
    reading = yield from read(runs=(key,))
    found, run = known_run(reading, key)
    decision = shrink_plan(reading, run, to)
    if decision.verdict is Verdict.REFUSE:
        return Changed(life=life(reading.snapshot, run), reading=reading, decision=decision)
    if run.malleable is not None and run.malleable.gpus_desired > (desired := desired_for(run.malleable, to)):
        yield from must(_patch(found, {"malleable": {"desiredTotalGPUs": desired}}))

    def leaving(now: Reading, fresh: Run) -> Draft | None:
        return shrink_draft(now, fresh, shrink_plan(now, fresh, to))

    reading, ended = yield from _end(key, means, leaving)
    reading = yield from _settled(key, means, reading)
    if wait:
        reading = yield from free(key, ended, means)
    lived = life(reading.snapshot, known_run(reading, key)[1])
    return Changed(life=lived, reading=reading, leaving=ended, decision=decision)


# Grow


def grow(key: str, to: int | None, means: Means) -> Steps[Changed]:
    """E2: toward `to` (or what is desired), one step and one entry at a time, while steps fit."""
    from planner.elastic import plan_growth

    reading = yield from read(runs=(key,))
    found, run = known_run(reading, key)
    if to is not None and run.malleable is not None and run.malleable.gpus_desired != to:
        yield from must(_patch(found, {"malleable": {"desiredTotalGPUs": to}}))
        reading = yield from read(runs=(key,))
        found, run = known_run(reading, key)

    def step(now: Reading, fresh: Run) -> Decision:
        return plan_growth(now.snapshot, fresh, now.now)

    lived, decision = life(reading.snapshot, run), None
    while lived.stage is Stage.HOLDS:
        begun: Begun = yield from begin(found, reading, means, step, grows=True)
        decision = decision if begun.entry is None and decision is not None else begun.decision
        lived = begun.life
        if begun.entry is None:
            break
        reading = yield from read(runs=(key,))
        found, _ = known_run(reading, key)
    return Changed(life=lived, reading=reading, decision=decision)


# What they share


def _end(
    key: str, means: Means, plan: Callable[[Reading, Run], Draft | None]
) -> Steps[tuple[Reading, tuple[str, ...]]]:
    """Append an End made from a fresh reading, planning again as often as others come first; then stop its pods."""
    for _ in range(PLANS_MAX):
        reading = yield from read(runs=(key,))
        _, run = known_run(reading, key)
        draft = plan(reading, run)
        if draft is None:
            return reading, _ended_already(reading, run)
        outcome = yield from append(draft, reading, means)
        if isinstance(outcome, Appended):
            rolled = yield from roll_forward(outcome.entry, outcome.reading)
            yield from write_promise(outcome.entry, outcome.reading)
            yield from advance(outcome.reading, {outcome.entry.seq: rolled})
            yield from _tell(outcome.reading, outcome.entry, means)
            return outcome.reading, _ended_already(outcome.reading, run)
        yield Wait(means.jitter() * 0.1)
    raise RunsError(f"run {key} was overtaken {PLANS_MAX} times; try again")


def _tell(reading: Reading, entry: Entry, means: Means) -> Steps[None]:
    """Events on the run and on the pods that stop."""
    run_object = reading.object(RUN, entry.run.key) if entry.run else None
    if run_object is None:
        return
    reason = entry.ends[0].reason if entry.ends else Closure.CANCELED.value
    message = f"{reason}: ends {len(entry.ends)} leases (ledger entry {entry.seq})"
    made = events.run_event(run_object, reason, message, now=entry.time, nonce=means.nonce())
    stopped = events.pods_stopped(entry, open_leases(reading.snapshot), message, means.nonce)
    yield from events.record([made, *stopped])


def _ended_already(reading: Reading, run: Run) -> tuple[str, ...]:
    """The run's leases that are to end and are still held."""
    ends = first_ends(reading)
    return tuple(lease.key for lease in life(reading.snapshot, run).held if lease.key in ends)


def _settled(key: str, means: Means, reading: Reading) -> Steps[Reading]:
    """One pass over the run, from a reading that shows what the End has done, also one of a command that died."""
    reading = yield from read(runs=(key,))
    _, run = known_run(reading, key)
    reading = yield from finish(reading, run)
    return (yield from settle_run(reading, run, means)).reading


def free(key: str, leases: Sequence[str], means: Means) -> Steps[Reading]:
    """Wait until the GPUs of these leases are free: their pods gone, and a Close in the ledger (6.6)."""
    pause = POLL_SECONDS_FIRST
    while True:
        reading = yield from read(runs=(key,))
        found = reading.run(key)
        if found is None:
            return reading
        settled = yield from settle_run(reading, found, means)
        reading = settled.reading
        left = held_of(reading, found, leases)
        if not left:
            return reading
        means.say(f"waiting for {len(left)} pods of {key} to end")
        yield Wait(pause)
        pause = min(pause * 1.5, POLL_SECONDS_MAX)


def held_of(reading: Reading, run: Run, leases: Sequence[str]) -> list[Lease]:
    return [lease for lease in life(reading.snapshot, run).held if lease.key in leases]


def _patch(found: Object, spec: encode.Json) -> Patch:
    metadata = found["metadata"]
    patch = {"metadata": {"uid": metadata["uid"]}, "spec": spec}
    return Patch(kind=RUN, name=metadata["name"], namespace=metadata["namespace"], patch=patch)
