"""Which cuts make room for a run (R1-R5): which groups stay, in which domain the rest goes, who yields there.

Decides cuts and draws; ends nothing itself. The stages are `stages`, who could yield is `candidates`, one domain is
`trial`, the lottery's arithmetic is `draw`. What becomes of a reservation is `resolve`, of a tightened budget
`tighten`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from planner.admit import Fit, Refusal, pay
from planner.candidates import Candidate, Holdings
from planner.draw import ALGORITHM
from planner.ending import ending_leases
from planner.ground import Ground
from planner.lottery import Drawn, attested, example, frozen_for, standing_freezes
from planner.model import Closure, Cut, Domain, Entry, Freeze, Lease, Lottery, Reservation, Run, Step
from planner.piece import Layout, Piece, layout
from planner.promise import promised
from planner.shape import PlacedGroup, Placement
from planner.topology import Island
from planner.trial import LOTTERY, Trial, attempt, drawn_in
from planner.values import dataclass
from planner.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """A slice for the run and everybody who would have to yield for it, in the order taken.

    Cuts that follow from a lottery which is still an example are provisional. Where one lottery is attested and
    another is still to be frozen, `lottery` is the attested one: its cuts can be made, the others wait for theirs.
    """

    paid: Fit | Refusal
    cuts: tuple[Cut, ...]
    lottery: Lottery | None
    trace: tuple[Step, ...]


def make_room(
    world: World,
    run: Run,
    *,
    made: Reservation | None = None,
    start: int | None = None,
    stage_max: int = LOTTERY,
    freezes: Iterable[Entry] = (),
) -> Resolution | None:
    """R2: cuts after which pack succeeds, or None: then nothing is cut (R5).

    `made` is the reservation that draws, if it is not the run's standing one; `start` is the start of one that is
    still to be made; `freezes` are Freeze entries that are no longer among the snapshot's.
    """
    if stage_max == 1 and not world.fleet.has_fillers():
        return None
    subject = made or promised(world, run) or _promise_to_be(run, world.now if start is None else start)
    return _Resolver(world, run, subject, (*world.snapshot.entries, *freezes), stage_max).resolve()


def ending_fillers(world: World, run: Run) -> Resolution | None:
    """F1 (b): the fillers whose ending now is enough, if it is and somebody pays."""
    ended = make_room(world, run, stage_max=1)
    return ended if ended is not None and ended.cuts and isinstance(ended.paid, Fit) else None


class _Resolver:
    """One pass over one world on behalf of one run."""

    def __init__(self, world: World, run: Run, subject: Reservation, entries: Iterable[Entry], stage_max: int) -> None:
        self._before, self._run, self._subject, self._stage_max = world, run, subject, stage_max
        # What is being freed anyway counts as gone: nobody is cut for it.
        self._world = world.without(ending_leases(world.snapshot))
        self._freezes = standing_freezes(entries, subject)
        self._holdings = Holdings(self._world.leases_by_run(), world.runs)
        self._by_domain = _leases_by_domain(self._world, self._holdings, run.flavor)
        self._gone: set[str] = set()
        self._placed: list[PlacedGroup] = []
        self._lotteries: dict[Domain, _Held] = {}
        self._yielded: list[tuple[Candidate, Drawn | None]] = []
        self._steps: list[Step] = []

    def resolve(self) -> Resolution | None:
        plan = layout(self._world, self._run)
        self._placed.extend(plan.stay)
        for piece in plan.rest:
            if not self._place(plan, piece):
                return None
        groups = tuple(sorted(self._placed, key=lambda group: group.index))
        placed = (step for group in groups for step in group.steps(self._run.gpus_per_pod, plan.shape.role))
        placement = Placement(groups=groups, trace=tuple(placed))
        return Resolution(
            # R1: a run cuts only for GPUs, so what its victims pay for does not count as free.
            paid=pay(self._before, self._run, placement),
            cuts=tuple(self._cut(candidate, drawn) for candidate, drawn in self._yielded),
            lottery=self._lottery(),
            trace=tuple(self._steps),
        )

    def _place(self, plan: Layout, piece: Piece) -> bool:
        """R2: the piece in the domain that comes first; groups are placed one after another."""
        world = self._world.without(self._gone)
        trials = [self._try(world, plan, piece, island) for island in world.room(self._run).islands.values()]
        found = sorted((trial for trial in trials if trial is not None), key=lambda trial: trial.rank)
        best = self._best(found)
        if best is None:
            return False
        drawn = self._draw(best) if best.stage == LOTTERY else None
        groups = best.ground.groups()
        assert groups is not None
        self._placed.extend(groups)
        for candidate in best.taking.taken:
            self._yielded.append((candidate, drawn))
            self._gone.update(lease.key for lease in candidate.leases)
        self._steps.extend(_tale(best, found))
        return True

    def _best(self, found: list[Trial]) -> Trial | None:
        """R2: the first by rank; of the lottery's domains the first whose tokens together would be enough.

        R4: where a list is frozen it is drawn from; others are listed only if pack fails with all of it.
        """
        for trial in found:
            if trial.stage < LOTTERY:
                return trial
            if trial.frozen is not None:
                listed = [token.run for token in trial.frozen.freeze.tokens]
                line = trial.frozen.line(self._holdings.fixed(listed, self._gone))
                if trial.taking.would_reach(line):
                    return replace(trial, tokens=line)
        for trial in sorted(found, key=lambda trial: (trial.gpus, trial.domain.name)):
            fixed = self._holdings.fixed(trial.fixed, self._gone)
            if trial.taking.would_reach(fixed):
                return replace(trial, tokens=fixed, frozen=None)
        return None

    def _try(self, world: World, plan: Layout, piece: Piece, island: Island) -> Trial | None:
        domain = island.domain
        ground = Ground(world, self._run, plan.shape, piece, island, self._placed)
        if not ground.could_hold():
            return None
        staged = self._holdings.staged(self._by_domain.get(domain, {}), self._gone, self._run.key)
        held = self._lotteries.get(domain)
        frozen = held.drawn if held else self._frozen(domain)
        return attempt(ground, staged, self._stage_max, frozen)

    def _frozen(self, domain: Domain) -> Drawn | None:
        if not self._freezes:
            return None
        nodes = {node.name for node in self._world.fleet.domains(self._run.flavor)[domain]}
        entry = frozen_for(nodes, self._freezes)
        return attested(entry, self._subject) if entry else None

    def _draw(self, trial: Trial) -> Drawn:
        """R4: by the frozen order if there is one; else the conflict set is what would be frozen now."""
        drawn = trial.frozen or example(self._freeze(trial), self._subject)
        held = self._lotteries.get(trial.domain)
        if held is None or held.drawn is not drawn:
            held = self._lotteries[trial.domain] = _Held(drawn=drawn, picks=[])
        picks, back = drawn_in(trial, drawn.line(trial.tokens))
        held.picks.extend(candidate.run for candidate in picks if candidate.run not in held.picks)
        self._steps.extend(_drawn_steps(drawn, picks, back))
        return drawn

    def _freeze(self, trial: Trial) -> Freeze:
        nodes = self._world.fleet.domains(self._run.flavor)[trial.domain]
        return Freeze(
            algorithm=ALGORITHM,
            flavor=self._run.flavor,
            nodes=tuple(sorted(node.name for node in nodes)),
            deficit_gpus=trial.gpus,
            tokens=self._holdings.tokens(trial.tokens),
        )

    def _lottery(self) -> Lottery | None:
        """The lottery to act on: the first attested one, else the first that has to be frozen."""
        ordered = sorted(self._lotteries.values(), key=lambda held: held.drawn.provisional)
        if not ordered:
            return None
        cut = {candidate.run for candidate, drawn in self._yielded if candidate.stage == LOTTERY}
        return ordered[0].drawn.told(ordered[0].picks, cut)

    def _cut(self, candidate: Candidate, drawn: Drawn | None) -> Cut:
        example_only = all(held.drawn.provisional for held in self._lotteries.values())
        waits = drawn is not None and drawn.provisional and (candidate.stage == LOTTERY or not example_only)
        return cut_of(candidate, provisional=waits)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    """The lottery of one domain in this pass: one order for all groups that need it."""

    drawn: Drawn
    picks: list[str]


def cut_of(candidate: Candidate, provisional: bool) -> Cut:
    """The cut as a decision tells it. `group` stays open where a run is cut whole."""
    return Cut(
        kind=candidate.kind,
        run=candidate.run,
        group=candidate.group,
        leases=tuple(lease.key for lease in candidate.leases),
        gpus=candidate.gpus,
        provisional=provisional,
    )


def cut_step(candidate: Candidate) -> Step:
    node = candidate.leases[0].node if candidate.kind is Closure.DROP_SPARE else None
    return Step(
        rule=f"R2.{candidate.stage}",
        act="cut",
        subject=candidate.run,
        group=candidate.group,
        node=node,
        took=candidate.gpus,
        note=candidate.kind.value,
    )


def _drawn_steps(drawn: Drawn, picks: Iterable[Candidate], back: Iterable[Candidate]) -> Iterable[Step]:
    note = f"example seed {drawn.seed.hex()}" if drawn.provisional else f"seed {drawn.seed.hex()}"
    for candidate in picks:
        yield Step(rule="R4", act="drew", subject=candidate.run, took=candidate.gpus, note=note)
    for candidate in back:
        yield Step(rule="R2", act="gave-back", subject=candidate.run, took=candidate.gpus)


def _tale(best: Trial, found: Iterable[Trial]) -> Iterable[Step]:
    """Who is cut in the domain that was chosen, and how far the others would have gone."""
    others = [trial for trial in found if trial.domain != best.domain]
    yield Step(rule="R2", act="tried", subject=best.domain.name, need=best.gpus, note=f"last stage {best.stage}")
    for trial in others[:16]:
        yield Step(
            rule="R2", act="passed", subject=trial.domain.name, need=trial.gpus, note=f"last stage {trial.stage}"
        )
    for candidate in best.taking.taken:
        yield cut_step(candidate)


def _promise_to_be(run: Run, start: int) -> Reservation:
    """The reservation that a plan would make: named after its run (6.5)."""
    return Reservation(
        namespace=run.namespace,
        name=run.name,
        run_name=run.name,
        run_uid=run.uid,
        gpus=run.gpus_total,
        earliest_start=start,
    )


def _leases_by_domain(world: World, holdings: Holdings, flavor: str) -> dict[Domain, dict[str, list[Lease]]]:
    """Who holds what in each scope, by run: a domain may have nodes of several flavors, and only one is in conflict."""
    found: dict[Domain, dict[str, list[Lease]]] = {domain: {} for domain in world.fleet.domains(flavor)}
    here = {node.name: found[domain] for domain, nodes in world.fleet.domains(flavor).items() for node in nodes}
    for run, leases in holdings.by_run.items():
        for lease in leases:
            if lease.node in here:
                here[lease.node].setdefault(run, []).append(lease)
    return found
