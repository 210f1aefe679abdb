"""A budget lowered below what it holds: what is over, and who yields to bring it back within its caps (R6).

The stages and draws are the resolver's, over the leases that the budget pays; only the goal differs. Whether anybody
acts on it is the operator's choice: a typo in a budget must not kill a fleet.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from planner.books import HOUR
from planner.candidates import Candidate, Holdings, Staged
from planner.cuts import cut_of, cut_step
from planner.draw import ALGORITHM
from planner.ending import ending_leases
from planner.fold import by_run
from planner.lottery import Drawn, attested, example, standing_freezes
from planner.model import Budget, Decision, Entry, Freeze, Lease, Lottery, Payer, Reason, Role, Snapshot, Step, Verdict
from planner.stages import Taking
from planner.trial import LOTTERY
from planner.words import sum_of
from planner.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Cap:
    """A limit on what some envelopes hold together: an envelope's own, or an aggregate cap's."""

    name: str  # budget/envelope, or budget/cap
    payers: frozenset[Payer]
    gpus_max: int | None
    gpu_hours_max: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrun:
    """A cap that holds more than it allows (R6)."""

    cap: Cap
    gpus: int  # over the concurrency
    gpu_seconds: int  # over the GPU-hours


def overruns(world: World, budget: Budget, envelope: str | None = None) -> tuple[Overrun, ...]:
    """R6: the caps of a budget, or of one envelope of it, that are `OverCap`, by name."""
    found = []
    for cap in caps(budget, envelope):
        goal = Within(world, (cap,))
        over = Overrun(cap=cap, gpus=goal.gpus_over(cap), gpu_seconds=goal.seconds_over(cap))
        if over.gpus > 0 or over.gpu_seconds > 0:
            found.append(over)
    return tuple(found)


def caps(budget: Budget, envelope: str | None = None) -> tuple[Cap, ...]:
    """The envelopes' own limits, then the aggregate caps; of one envelope only its own."""
    own = [
        Cap(
            name=f"{budget.name}/{each.name}",
            payers=frozenset({Payer(budget.name, each.name)}),
            gpus_max=each.concurrency,
            gpu_hours_max=each.gpu_hours_max,
        )
        for each in sorted(budget.envelopes, key=lambda each: each.name)
        if envelope is None or each.name == envelope
    ]
    if envelope is not None:
        return tuple(own)
    together = [
        Cap(
            name=f"{budget.name}/{cap.name}",
            payers=frozenset(Payer(budget.name, name) for name in cap.envelopes),
            gpus_max=cap.concurrency_max,
            gpu_hours_max=cap.gpu_hours_max,
        )
        for cap in sorted(budget.caps, key=lambda cap: cap.name)
    ]
    return (*own, *together)


class Within:
    """The goal of the stages for a budget: every cap within its limit."""

    def __init__(self, world: World, limits: Iterable[Cap]) -> None:
        self._world, self._caps = world, tuple(limits)
        payers = {payer for cap in self._caps for payer in cap.payers}
        self._gpus = dict.fromkeys(payers, 0)
        self._burning = dict.fromkeys(payers, 0)
        self._ahead = dict.fromkeys(payers, 0)
        self._burnt: dict[Payer, int] = {}
        for payer in sorted(payers):
            sums = world.books.account(payer).total
            self._burnt[payer] = sums.settled + sums.elapsed(world.now)
        self.leases = [lease for key, lease in sorted(world.leases.items()) if lease.payer in payers]
        for lease in self.leases:
            self._count(lease, 1)

    def gpus_over(self, cap: Cap) -> int:
        held = sum(self._gpus.get(payer, 0) for payer in cap.payers)
        return 0 if cap.gpus_max is None else max(0, held - cap.gpus_max)

    def seconds_over(self, cap: Cap) -> int:
        """GPU-seconds beyond the cap, burnt or bound to be: work with a duration will burn the rest of it."""
        if cap.gpu_hours_max is None:
            return 0
        ahead = sum(self._ahead.get(payer, 0) for payer in cap.payers)
        return max(0, self._burnt_over(cap) + ahead)

    def free(self, leases: Iterable[Lease]) -> None:
        for lease in leases:
            self._count(lease, -1)

    def unfree(self, leases: Iterable[Lease]) -> None:
        for lease in leases:
            self._count(lease, 1)

    def lacks(self) -> int:
        return sum(self.gpus_over(cap) + self._seconds_to_clear(cap) for cap in self._caps)

    def gain_max(self, candidate: Candidate) -> int:
        return sum(self._weight(cap, lease) for cap in self._caps for lease in candidate.leases)

    def reached(self) -> bool:
        return self.lacks() <= 0

    def _seconds_to_clear(self, cap: Cap) -> int:
        """What is burnt stays burnt: where it is more than the cap, everything that still burns has to end."""
        if cap.gpu_hours_max is None or self._burnt_over(cap) <= 0:
            return self.seconds_over(cap)
        return sum(self._burning.get(payer, 0) for payer in cap.payers)

    def _burnt_over(self, cap: Cap) -> int:
        return sum(self._burnt[payer] for payer in cap.payers) - (cap.gpu_hours_max or 0) * HOUR

    def _weight(self, cap: Cap, lease: Lease) -> int:
        """The most that the end of one lease could take off `lacks`."""
        return lease.gpus * 2 + self._left(lease) if lease.payer in cap.payers else 0

    def _left(self, lease: Lease) -> int:
        end = self._world.ends_at(lease)
        return 0 if end is None else lease.gpus * max(0, end - self._world.now)

    def _count(self, lease: Lease, sign: int) -> None:
        if lease.payer not in self._burnt:
            return
        self._burning[lease.payer] += sign * lease.gpus
        self._ahead[lease.payer] += sign * self._left(lease)
        if lease.role is not Role.FILLER:  # O1
            self._gpus[lease.payer] += sign * lease.gpus


def tighten(snapshot: Snapshot, budget: str, envelope: str | None, now: int, freezes: Iterable[Entry] = ()) -> Decision:
    """R6: who yields so that the budget is within its caps again: `cut`, or `none` if nothing is over.

    As in `activate`, a provisional lottery has to be frozen first.
    """
    before = World.of(snapshot, now)
    world = before.without(ending_leases(snapshot))
    found = next((each for each in snapshot.budgets if each.name == budget), None)
    over = overruns(world, found, envelope) if found else ()
    if found is None or not over:
        return Decision(verdict=Verdict.NONE, run=None, message=f"budget {budget} is within its caps")
    entries = (*snapshot.entries, *freezes)
    return _Tightener(world, found, over, entries).decide()


class _Tightener:
    """One pass over the leases that a budget pays."""

    def __init__(self, world: World, budget: Budget, over: tuple[Overrun, ...], entries: Iterable[Entry]) -> None:
        self._world, self._budget, self._over = world, budget, over
        self._goal = Within(world, [overrun.cap for overrun in over])
        self._taking = Taking(self._goal)
        self._holdings = Holdings(world.leases_by_run(), world.runs)
        self._freezes = standing_freezes(entries, budget)

    def decide(self) -> Decision:
        staged = self._holdings.staged(by_run(self._goal.leases), (), None)
        self._taking.take_sized(staged.fillers)
        self._taking.take_sized(staged.spares)
        self._taking.take_listed(staged.groups)
        drawn = None if self._taking.reached() else self._draw(staged)
        if not self._taking.reached():  # R5
            return self._told(Verdict.NONE, (), None, "nobody who could yield would bring it within")
        picks = self._drawn_runs()
        self._taking.give_back()
        taken = self._taking.taken
        if not taken:
            return self._told(Verdict.NONE, (), None, "nothing that it pays for is left to end")
        lottery = drawn.told(picks, self._drawn_runs()) if drawn else None
        return self._told(Verdict.CUT, taken, lottery)

    def _drawn_runs(self) -> list[str]:
        """Those taken whole by the lottery; a run that only dropped a spare was not drawn."""
        return [candidate.run for candidate in self._taking.taken if candidate.stage == LOTTERY]

    def _draw(self, staged: Staged) -> Drawn | None:
        """R4: by the frozen order if it is enough, else by one that has yet to be frozen."""
        for entry in self._freezes[:1]:
            drawn = attested(entry, self._budget)
            line = drawn.line(self._holdings.fixed([token.run for token in drawn.freeze.tokens], ()))
            if self._taking.would_reach(line):
                self._taking.take_listed(line)
                return drawn
        fixed = self._holdings.fixed(staged.fixed, ())
        if not fixed:
            return None
        drawn = example(self._freeze(fixed), self._budget)
        self._taking.take_listed(drawn.line(fixed))
        return drawn

    def _freeze(self, fixed: Iterable[Candidate]) -> Freeze:
        flavors = {each.flavor for each in self._budget.envelopes if self._pays(each.name)}
        return Freeze(
            algorithm=ALGORITHM,
            flavor=",".join(sorted(flavors)),
            nodes=tuple(sorted({lease.node for lease in self._goal.leases})),
            deficit_gpus=sum(self._goal.gpus_over(overrun.cap) for overrun in self._over),
            tokens=self._holdings.tokens(fixed),
        )

    def _pays(self, envelope: str) -> bool:
        return any(Payer(self._budget.name, envelope) in overrun.cap.payers for overrun in self._over)

    def _told(
        self, verdict: Verdict, taken: tuple[Candidate, ...], lottery: Lottery | None, words: str = ""
    ) -> Decision:
        provisional = lottery is not None and lottery.provisional
        cuts = tuple(cut_of(each, provisional=provisional and each.stage == LOTTERY) for each in taken)
        return Decision(
            verdict=verdict,
            run=None,
            reason=Reason.OVER_CAP,
            message=f"{'; '.join(_named(overrun) for overrun in self._over)}: {words or sum_of(cuts)}",
            deficit_gpus=sum(overrun.gpus for overrun in self._over),
            cuts=cuts,
            lottery=lottery,
            trace=(*(_over_step(overrun) for overrun in self._over), *(cut_step(each) for each in taken)),
            asked=(self._budget.name,),
        )


def _named(overrun: Overrun) -> str:
    parts = [f"{overrun.gpus} GPUs"] if overrun.gpus else []
    if overrun.gpu_seconds:
        parts.append(f"{-(-overrun.gpu_seconds // HOUR)} GPU-hours")
    return f"{overrun.cap.name} is over its cap by {' and '.join(parts)}"


def _over_step(overrun: Overrun) -> Step:
    cap = overrun.cap.gpus_max if overrun.gpus else overrun.cap.gpu_hours_max
    need = overrun.gpus or overrun.gpu_seconds
    return Step(rule="R6", act="asked", subject=overrun.cap.name, need=need, cap=cap, reason=Reason.OVER_CAP)
