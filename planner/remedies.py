"""What would help (F4): each remedy was tried by the planner itself and says what it would achieve.

A change is applied to the run, or to the world, and the same functions that said no are asked again; one that does not
start the run sooner is never printed. Each kind tries a bounded number of changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TypeVar

from planner import forecast
from planner.admit import Fit, fit
from planner.cuts import ending_fillers
from planner.elastic import HeldGroup, desired_for, held_groups, leaving
from planner.family import admits
from planner.instants import go_duration, rfc3339, starts
from planner.model import Confidence, Decision, FundingClass, Reason, Remedy, Run
from planner.outlook import Outlook
from planner.shape import group_gpus
from planner.values import dataclass
from planner.world import World

OTHERS_MAX = 16  # runs that are tried for shrinking, and owners that are tried as sponsors
WALKS_MAX = 4  # walks through all that is known to come, for one kind
SPAN_MIN, SPAN_MAX = 60, 366 * 86400  # durations worth proposing
T = TypeVar("T")
PLACEMENT = (Reason.NO_CAPACITY, Reason.NO_TOPOLOGY, Reason.NO_SPARE_NODE)


def add(world: World, run: Run, decision: Decision) -> Decision:
    """The decision with every remedy that was found, in the order of the kinds (section 8)."""
    desk = _Desk(world, run, decision)
    return replace(decision, remedies=tuple(desk.found()))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Better:
    """A start that a change would bring: now or, where it waits for a payer, at a known instant."""

    start_at: int
    fit: Fit


class _Desk:
    """One run that would not start now, and what has been tried for it."""

    def __init__(self, world: World, run: Run, decision: Decision) -> None:
        self._world, self._run, self._decision = world, run, decision
        self._outlook = Outlook(world, run)
        self._lacks_place = decision.reason in PLACEMENT

    def found(self) -> Iterator[Remedy]:
        for kind in (
            self._ask_less,
            self._shrink_other,
            self._add_sponsor,
            self._allow_borrow,
            self._raise_borrow_limit,
            self._allow_spread,
            self._drop_spares,
            self._set_duration,
            self._wait,
        ):
            remedy = kind()
            if remedy is not None:
                yield remedy

    def _ask_less(self) -> Remedy | None:
        """The largest smaller size that starts now, or where nothing else is promised, at a known instant.

        A malleable run already starts at any width it accepts.
        """
        run = self._run
        if run.malleable is not None:
            return None
        unit = group_gpus(run) or run.gpus_per_pod
        # What the fleet could give at all is a bound now; later it may be more.
        now, later = min(run.gpus_total - 1, self._outlook.gpus_most()) // unit, (run.gpus_total - 1) // unit
        found = self._most(now, later, lambda units: replace(run, gpus_total=units * unit))
        if found is None:
            return None
        gpus, start_at = found[0] * unit, found[1].start_at
        return self._remedy("AskLess", f"ask for {gpus}", f"plan --gpus {gpus}", start_at)

    def _most(self, now: int, later: int, change: Callable[[int], Run]) -> tuple[int, _Better] | None:
        """The most of something with which the run starts now, else, if it waits for no instant, at a known one."""
        found = _largest(now, lambda count: self._at_once(change(count)))
        if found is not None or self._decision.earliest_start is not None:
            return found
        ever = _largest(later, lambda count: forecast.never(self._world, change(count)) is None or None)
        return _largest(ever[0], lambda count: self._try(change(count)), WALKS_MAX) if ever is not None else None

    def _shrink_other(self) -> Remedy | None:
        """Of the malleable runs that could give enough alone the one that gives least, then by key (E1)."""
        best: tuple[int, str, Run] | None = None
        for other in self._shrinkable():
            gpus = self._enough_of(other)
            if gpus is not None and (best is None or (gpus, other.key) < best[:2]):
                best = gpus, other.key, other
        if best is None:
            return None
        gpus, _, other = best
        name = other.name if other.namespace == self._run.namespace else other.key
        where = "" if other.namespace == self._run.namespace else f" -n {other.namespace}"
        command = f"shrink {other.name} --by {gpus}{where}"
        return self._remedy("ShrinkOther", f"shrink {name} by {gpus}", command, self._world.now)

    def _shrinkable(self) -> list[Run]:
        runs = (run for run in self._world.runs.values() if run.malleable and run.key != self._run.key)
        same = [run for run in runs if run.flavor == self._run.flavor and self._world.leases_of(run)]
        return sorted(same, key=lambda run: (run.namespace != self._run.namespace, run.key))[:OTHERS_MAX]

    def _enough_of(self, other: Run) -> int | None:
        """GPUs of width that another run would have to give, group by group in the order they leave (E1)."""
        assert other.malleable is not None
        groups = leaving(held_groups(self._world, other))
        width, legal = sum(group.width for group in groups), list[tuple[int, int]]()
        given = 0
        for count, group in enumerate(groups, 1):
            given += group.width
            if desired_for(other.malleable, width - given) == width - given:
                legal.append((count, given))
        return self._least(groups, legal)

    def _least(self, groups: tuple[HeldGroup, ...], legal: list[tuple[int, int]]) -> int | None:
        """The least that must be given; more room never hurts, so it is found by halves."""
        if not legal or not self._fits_without(groups[: legal[-1][0]]):
            return None
        low, high = 0, len(legal) - 1
        while low < high:
            middle = (low + high) // 2
            if self._fits_without(groups[: legal[middle][0]]):
                high = middle
            else:
                low = middle + 1
        return legal[low][1]

    def _fits_without(self, groups: Iterable[HeldGroup]) -> bool:
        gone = [lease for group in groups for lease in group.leases]
        if not self._outlook.could_hold_without(gone):
            return False
        return isinstance(fit(self._world.without(lease.key for lease in gone), self._run), Fit)

    def _add_sponsor(self) -> Remedy | None:
        """Of the owners that are not named and whose lending admits the run, the soonest help, then by name."""
        if self._lacks_place:
            return None
        funding, tree = self._run.funding, self._world.tree
        lenders = [
            owner
            for owner in tree.owners
            if owner not in funding.sponsors
            and owner != self._run.owner
            and any(
                admits(purse.envelope.lending, self._run.owner) for purse in tree.of_flavor(owner, self._run.flavor)
            )
        ]
        best: tuple[int, str, int] | None = None
        for owner in lenders[:OTHERS_MAX]:
            better = self._try(with_sponsor(self._run, owner))
            lent = _borrowed(better, owner)
            if better is not None and lent and (best is None or better.start_at < best[0]):
                best = better.start_at, owner, lent
            if best is not None and best[0] == self._world.now:
                break
        if best is None:
            return None
        start_at, owner, lent = best
        return self._remedy("AddSponsor", f"sponsor {owner} adds {lent}", f"plan --sponsor {owner}", start_at)

    def _allow_borrow(self) -> Remedy | None:
        funding = self._run.funding
        if self._lacks_place or funding.allow_borrow or not funding.sponsors:
            return None
        better = self._try(replace(self._run, funding=replace(funding, allow_borrow=True)))
        if better is None:
            return None
        command = f"plan --sponsor {funding.sponsors[0]}"
        return self._remedy("AllowBorrow", "allow borrowing", command, better.start_at)

    def _raise_borrow_limit(self) -> Remedy | None:
        funding = self._run.funding
        if self._lacks_place or funding.borrow_gpus_max is None or not funding.allow_borrow:
            return None
        better = self._try(replace(self._run, funding=replace(funding, borrow_gpus_max=None)))
        if better is None:
            return None
        gpus = sum(seat.gpus for seat in better.fit.seats if seat.funding is FundingClass.BORROWED)
        if gpus <= funding.borrow_gpus_max:
            return None
        command = f"plan --max-borrow {gpus}"
        return self._remedy("RaiseBorrowLimit", f"raise maxBorrowGPUs to {gpus}", command, better.start_at)

    def _allow_spread(self) -> Remedy | None:
        if self._run.cross_group_spread:
            return None
        better = self._try(replace(self._run, cross_group_spread=True))
        if better is None:
            return None
        return self._remedy("AllowSpread", "let groups spread over domains", "plan --spread", better.start_at)

    def _drop_spares(self) -> Remedy | None:
        if not self._run.spares_per_group:
            return None
        better = self._try(replace(self._run, spares_per_group=0))
        if better is None:
            return None
        return self._remedy("DropSpares", "go without spares", "plan --spares 0", better.start_at)

    def _set_duration(self) -> Remedy | None:
        """The longest span with which it starts: promises end a gap (F3), GPU-hours pay for shorter work (C2)."""
        run = self._run
        if self._lacks_place and not self._promises_to_others():
            return None
        longest = SPAN_MAX if run.duration is None else run.duration - 1
        if longest < SPAN_MIN:
            return None
        spans = longest - SPAN_MIN + 1
        found = self._most(spans, spans, lambda nth: replace(run, duration=SPAN_MIN + nth - 1))
        if found is None:
            return None
        words = go_duration(SPAN_MIN + found[0] - 1)
        return self._remedy("SetDuration", f"set a duration of {words}", f"plan --duration {words}", found[1].start_at)

    def _promises_to_others(self) -> bool:
        promised = (made for made in self._world.reservations if made.earliest_start is not None)
        return any(made.run_key != self._run.key for made in promised)

    def _wait(self) -> Remedy | None:
        """Where the forecast is exact, waiting is a remedy that was tried: the forecast itself."""
        start = self._decision.earliest_start
        if start is None or self._decision.confidence is not Confidence.EXACT:
            return None
        return self._remedy("Wait", "wait", f"plan --at {rfc3339(start)}", start)

    def _at_once(self, changed: Run) -> _Better | None:
        answer = fit(self._world, changed)
        return _Better(start_at=self._world.now, fit=answer) if isinstance(answer, Fit) else None

    def _try(self, changed: Run) -> _Better | None:
        """Whether the changed run starts now or, at a known instant, sooner than the plan says."""
        answer = fit(self._world, changed)
        if isinstance(answer, Fit):
            return _Better(start_at=self._world.now, fit=answer)
        opening = forecast.first_opening(self._world, changed, answer, until=self._decision.earliest_start)
        if opening is None or opening.instant == self._decision.earliest_start:
            return None
        if not answer.funding and ending_fillers(self._world, changed) is not None:
            return None  # F1 (b) comes first: it would be promised cuts, not that instant
        return _Better(start_at=opening.instant, fit=opening.fit)

    def _remedy(self, kind: str, words: str, command: str, start_at: int) -> Remedy:
        message = f"{words}: {starts(start_at, self._world.now)}"
        return Remedy(kind=kind, message=message, command=command, starts_at=start_at)


def _largest(high: int, worth: Callable[[int], T | None], tries: int = 64) -> tuple[int, T] | None:
    """The largest number from 1 that is worth something, and what. Less needs less: it is found by halves."""
    best: tuple[int, T] | None = None
    low, middle = 0, high
    while low < high and tries:
        better = worth(middle)
        if better is None:
            high = middle - 1
        else:
            low, best = middle, (middle, better)
        middle, tries = (low + high + 1) // 2, tries - 1
    return best


def with_sponsor(run: Run, owner: str) -> Run:
    """The run as if it named one more sponsor; naming one means to borrow (C5)."""
    named = run.funding.sponsors if owner in run.funding.sponsors else (*run.funding.sponsors, owner)
    return replace(run, funding=replace(run.funding, allow_borrow=True, sponsors=named))


def _borrowed(better: _Better | None, owner: str) -> int:
    seats = better.fit.seats if better is not None else ()
    return sum(seat.gpus for seat in seats if seat.owner == owner and seat.funding is FundingClass.BORROWED)
