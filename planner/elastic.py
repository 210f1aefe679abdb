"""Changing width: which groups leave when a malleable run shrinks (E1), and its next step when it grows (E2).

Decides about one run, by its own will. Groups that others take from it are the resolver's (R2).
"""

from __future__ import annotations

from collections.abc import Iterable

from planner.admit import Fit, fit_growth
from planner.ending import ending_leases
from planner.instants import rfc3339
from planner.model import (
    Closure,
    Cut,
    Decision,
    FundingClass,
    Lease,
    Malleable,
    Opening,
    Reason,
    Role,
    Run,
    Snapshot,
    Step,
    Verdict,
)
from planner.trace import message_of
from planner.values import dataclass
from planner.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldGroup:
    """A group as its open leases say: which they are, how wide it is, whether somebody lent some of it."""

    index: int
    leases: tuple[Lease, ...]  # by key, spares included

    @property
    def width(self) -> int:
        return sum(lease.gpus for lease in self.leases if lease.role is not Role.SPARE)

    @property
    def gpus(self) -> int:
        return sum(lease.gpus for lease in self.leases)

    @property
    def borrowed(self) -> bool:
        return any(lease.funding is FundingClass.BORROWED for lease in self.leases)


def held_groups(world: World, run: Run) -> tuple[HeldGroup, ...]:
    """The groups that a run holds and that nothing has ended yet, by index as a number."""
    ending = ending_leases(world.snapshot)
    by_index: dict[int, list[Lease]] = {}
    for lease in world.leases_of(run):
        if lease.key not in ending:
            by_index.setdefault(lease.group, []).append(lease)
    return tuple(HeldGroup(index=index, leases=tuple(by_index[index])) for index in sorted(by_index))


def leaving(groups: Iterable[HeldGroup]) -> tuple[HeldGroup, ...]:
    """E1: the order in which groups leave: those with borrowed GPUs first, then the highest index."""
    return tuple(sorted(groups, key=lambda group: (not group.borrowed, -group.index)))


def plan_shrink(snapshot: Snapshot, run: Run, to: int, now: int) -> Decision:
    """E1: which groups end so that the run is no wider than `to`."""
    return shrink(World.of(snapshot, now), run, to)


def shrink(world: World, run: Run, to: int) -> Decision:
    groups = held_groups(world, run)
    width = sum(group.width for group in groups)
    least = run.malleable.gpus_min if run.malleable else run.gpus_total
    if to < least:
        return _below_minimum(run, to, least, width)
    if to >= width:
        return _nothing(run, width, f"{run.key} is {width} wide, no more than {to} already")
    return _leave(run, groups, to, least)


def _leave(run: Run, groups: Iterable[HeldGroup], to: int, least: int) -> Decision:
    """E1: groups leave whole, with their spares, until the width is reached; never below the minimum."""
    held = tuple(groups)
    width = sum(group.width for group in held)
    cuts, steps = [], []
    for group in leaving(held):
        if width <= to:
            break
        if width - group.width < least:
            continue
        width -= group.width
        cuts.append(_shrunk(run, group))
        note = "borrowed" if group.borrowed else ""
        steps.append(Step(rule="E1", act="cut", subject=run.key, group=group.index, took=group.gpus, note=note))
    if not cuts:
        return _below_minimum(run, to, least, width)
    words = f"{run.key} shrinks to {width}: {_named(cuts)}"
    return Decision(verdict=Verdict.CUT, run=run.key, message=words, width=width, cuts=tuple(cuts), trace=tuple(steps))


def plan_growth(snapshot: Snapshot, run: Run, now: int, to: int | None = None, cooldown: int = 0) -> Decision:
    """E2: the next step of a run that holds leases, or why there is none; `width` is the width after it."""
    return growth(World.of(snapshot, now), run, to=to, cooldown=cooldown)


def growth(world: World, run: Run, to: int | None = None, cooldown: int = 0) -> Decision:
    """E2: one step toward the width desired, with its own cover and pack.

    Leases of an entry that is not written yet count as held, so a step in flight is not planned again.
    """
    groups = held_groups(world, run)
    width = sum(group.width for group in groups)
    if not groups:
        # S3: a new attempt begins only when every lease of the last one is closed.
        held = len(world.leases_of(run))
        return _nothing(run, 0, f"{run.key} is ending: {held} of its leases are not closed yet")
    if run.malleable is None:
        return _nothing(run, width, f"{run.key} runs at {width} and is not malleable")
    if run.canceled:
        return _nothing(run, width, f"{run.key} was cancelled", Reason.CANCELED)
    target = run.malleable.gpus_desired if to is None else to
    if target > run.malleable.gpus_max:
        words = f"{run.key} may be {run.malleable.gpus_max} wide at most, {target} is more"
        return Decision(verdict=Verdict.REFUSE, run=run.key, message=words, width=width)
    if width >= target:
        return _nothing(run, width, f"{run.key} is {width} wide, as wide as it wants to be")
    changed_at = _last_change(world, run)
    if changed_at is not None and world.now < changed_at + cooldown:
        ready = rfc3339(changed_at + cooldown)
        return _nothing(run, width, f"{run.key} changed its width lately, its next step is at {ready}")
    return _step(world, run, width, target)


def _step(world: World, run: Run, width: int, target: int) -> Decision:
    assert run.malleable is not None
    gpus = min(next_width(run.malleable, width), target) - width
    answer = fit_growth(world, run, gpus)
    if isinstance(answer, Fit):
        return Decision(
            verdict=Verdict.START,
            run=run.key,
            message=f"{run.key} grows by {gpus} to {width + gpus}",
            width=width + gpus,
            groups=answer.groups,
            seats=answer.seats,
            trace=answer.trace,
            asked=answer.asked,
        )
    return Decision(
        verdict=Verdict.NONE,
        run=run.key,
        reason=answer.reason,
        message=message_of(answer.trace),
        width=width,
        deficit_gpus=answer.deficit_gpus,
        trace=answer.trace,
        asked=answer.asked,
    )


def desired_for(malleable: Malleable, to: int) -> int:
    """E1: the desired width that follows a shrink: the widest legal one, min plus whole steps, that is not above."""
    return malleable.gpus_min + max(0, to - malleable.gpus_min) // malleable.gpus_step * malleable.gpus_step


def next_width(malleable: Malleable, width: int) -> int:
    """The smallest step-aligned width above: a run that lost groups (R2, S3) first fills up its step."""
    steps = max(0, width - malleable.gpus_min) // malleable.gpus_step + (width >= malleable.gpus_min)
    return malleable.gpus_min + steps * malleable.gpus_step


def _last_change(world: World, run: Run) -> int | None:
    """E2: when the run last grew or shrank: the cooldown that prevents oscillation counts from there."""
    grown = [lease.start_at for lease in world.leases_of(run) if lease.reason is Opening.GROW]
    shrunk = [
        lease.end_at
        for lease in world.snapshot.leases
        if lease.run_key == run.key and lease.end_at is not None and lease.closure == Closure.SHRINK
    ]
    return max((*grown, *shrunk), default=None)


def _shrunk(run: Run, group: HeldGroup) -> Cut:
    return Cut(
        kind=Closure.SHRINK,
        run=run.key,
        group=group.index,
        leases=tuple(lease.key for lease in group.leases),
        gpus=group.gpus,
    )


def _named(cuts: Iterable[Cut]) -> str:
    return ", ".join(f"group {cut.group} with {cut.gpus} GPUs leaves" for cut in cuts)


def _below_minimum(run: Run, to: int, least: int, width: int) -> Decision:
    step = Step(rule="E1", act="passed", subject=run.key, need=to, had=least, reason=Reason.BELOW_MINIMUM)
    words = f"{run.key} cannot shrink to {to}: its minimum is {least}"
    return Decision(
        verdict=Verdict.REFUSE, run=run.key, reason=Reason.BELOW_MINIMUM, message=words, width=width, trace=(step,)
    )


def _nothing(run: Run, width: int, words: str, reason: Reason | None = None) -> Decision:
    step = Step(rule="E2", act="passed", subject=run.key, had=width, reason=reason, note=words)
    return Decision(verdict=Verdict.NONE, run=run.key, reason=reason, message=words, width=width, trace=(step,))
