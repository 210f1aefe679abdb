"""What holds of every resolution, whatever the fleet: enough or nothing, once each, nobody in vain (R1-R6)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from random import Random
from typing import TypeVar

from hypothesis import given
from hypothesis import strategies as st

from planner.admit import Fit, Refusal, fit
from planner.candidates import Holdings
from planner.fold import by_run
from planner.model import (
    Budget,
    Closure,
    Decision,
    Domain,
    Envelope,
    Lease,
    Malleable,
    Reservation,
    Role,
    Run,
    Snapshot,
    Verdict,
)
from planner.piece import Piece, put, shape_to_free
from planner.plan import plan_run
from planner.resolve import activate, tighten
from planner.shape import group_gpus
from planner.tighten import overruns
from planner.trace import replay
from planner.world import World
from tests.properties.history import committed
from tests.properties.strategies import HOUR, seeds, some_nodes

NOW = 0
OWNERS = ("org:a", "org:b", "org:c")
T = TypeVar("T")
STAGE = {Closure.END_FILLER: 1, Closure.DROP_SPARE: 2, Closure.SHRINK: 3, Closure.RANDOM_PREEMPT: 4}


def some_tenant(random: Random, name: str) -> Run:
    """A small run of any kind."""
    gpus_per_pod = random.choice((1, 2, 4))
    kind = random.choice(("fixed", "fixed", "malleable", "filler"))
    groups = random.randint(1, 3)
    total, least = groups * gpus_per_pod, random.randint(1, groups) * gpus_per_pod
    width = Malleable(gpus_min=least, gpus_max=total, gpus_step=gpus_per_pod, gpus_desired=total)
    return Run(
        namespace="ns",
        name=name,
        uid=f"uid-{name}",
        owner=random.choice(OWNERS),
        flavor="H100",
        gpus_total=total,
        gpus_per_pod=gpus_per_pod,
        malleable=width if kind == "malleable" else None,
        spares_per_group=random.choice((0, 0, 1)),
        duration=random.choice((None, None, HOUR, 2 * HOUR)),
        opportunistic=kind == "filler",
    )


def some_winner(random: Random) -> Run:
    gpus_per_pod = random.choice((1, 2, 4))
    group_pods = random.choice((None, 1, 2, 3))
    total = random.randint(1, 3) * (group_pods or random.randint(1, 3)) * gpus_per_pod
    return Run(
        namespace="ns",
        name="big",
        uid="uid-big",
        owner=OWNERS[0],
        flavor="H100",
        gpus_total=total,
        gpus_per_pod=gpus_per_pod,
        group_gpus=None if group_pods is None else group_pods * gpus_per_pod,
        cross_group_spread=random.choice((True, True, False)),
        spares_per_group=random.choice((0, 0, 1)),
    )


def some_crowd(random: Random) -> tuple[Snapshot, Run]:
    """A fleet that tenants filled, one planned after another, and a run with a promise that is due."""
    purse = Envelope(name="e", flavor="H100", concurrency=1000)
    budgets = tuple(Budget(name=owner[-1], owner=owner, envelopes=(purse,)) for owner in OWNERS)
    world = Snapshot(nodes=some_nodes(random, 6, 8), budgets=budgets)
    for number in range(random.randint(1, 12)):
        run = some_tenant(random, f"t{number}")
        answer = fit(World.of(world, NOW), run)
        if isinstance(answer, Fit):
            world = committed(world, run, answer, NOW - 60)
    winner = some_winner(random)
    due = Reservation(
        namespace="ns",
        name="big",
        uid="res",
        run_name="big",
        run_uid="uid-big",
        gpus=winner.gpus_total,
        earliest_start=0,
    )
    return replace(world, runs=(*world.runs, winner), reservations=(due,)), winner


def crowds() -> st.SearchStrategy[tuple[Snapshot, Run]]:
    return seeds().map(some_crowd)


def decided(world: Snapshot) -> Decision:
    return activate(world, world.reservations[0], NOW)


def cut_keys(decision: Decision) -> list[str]:
    return [key for cut in decision.cuts for key in cut.leases]


def single_piece(run: Run) -> bool:
    return not run.cross_group_spread or group_gpus(run) in (None, run.gpus_total)


def fits_there(world: Snapshot, run: Run, domain: Domain, gone: Iterable[str]) -> bool:
    """Whether pack places the whole run in one domain once those leases are gone."""
    shape = shape_to_free(run)
    size = shape.group_pods or shape.pods
    piece = Piece(groups=tuple((index, size) for index in range(shape.pods // size)))
    room = World.of(world, NOW).without(gone).room(run)
    return domain in room.islands and put(room, domain, shape, piece) is not None


@given(crowds())
def test_cuts_make_room_for_every_seat_or_nobody_is_cut(crowd: tuple[Snapshot, Run]) -> None:  # R5
    world, _ = crowd
    decision = decided(world)
    if decision.verdict is not Verdict.START:
        assert (decision.cuts, decision.lottery, decision.seats) == ((), None, ())
        return
    gone = set(cut_keys(decision))
    use: dict[str, Counter[Role]] = {node.name: Counter() for node in world.nodes}
    for lease in world.leases:
        if lease.key not in gone:
            use[lease.node][lease.role] += lease.gpus
    for seat in decision.seats:
        use[seat.node][seat.role] += seat.gpus
    for node in world.nodes:
        held = use[node.name]
        assert held[Role.ACTIVE] + max(held[Role.SPARE], held[Role.FILLER]) <= node.gpus


@given(crowds())
def test_freed_gpus_are_counted_once(crowd: tuple[Snapshot, Run]) -> None:  # R5
    world, winner = crowd
    decision = decided(world)
    keys = cut_keys(decision)
    assert len(keys) == len(set(keys))
    gpus = {lease.key: lease.gpus for lease in world.leases}
    assert [cut.gpus for cut in decision.cuts] == [sum(gpus[key] for key in cut.leases) for cut in decision.cuts]
    # The deficit is in whole pods, spares counted in the same domain (R2): only without both must as many come free.
    if decision.cuts and winner.gpus_per_pod == 1 and not winner.spares_per_group:
        assert sum(cut.gpus for cut in decision.cuts) >= decision.deficit_gpus > 0


@given(crowds())
def test_malleable_runs_keep_their_minimum_and_gangs_are_cut_whole(crowd: tuple[Snapshot, Run]) -> None:  # R2, R3
    world, _ = crowd
    decision = decided(world)
    gone = set(cut_keys(decision))
    for run in world.runs:
        held = [lease for lease in world.leases if lease.run_key == run.key and lease.role is Role.ACTIVE]
        left = sum(lease.gpus for lease in held if lease.key not in gone)
        if run.malleable is not None and not run.opportunistic and held:
            assert left >= run.malleable.gpus_min
        elif held:
            assert left in (0, sum(lease.gpus for lease in held))


@given(crowds())
def test_no_cut_was_unnecessary(crowd: tuple[Snapshot, Run]) -> None:  # R2
    world, winner = crowd
    decision = decided(world)
    if not decision.cuts or not single_piece(winner) or len(decision.groups) != shape_to_free(winner).groups:
        return
    domain = decision.groups[0].domain
    assert fits_there(world, winner, domain, cut_keys(decision))
    for cut in decision.cuts:
        others = [key for key in cut_keys(decision) if key not in cut.leases]
        assert not fits_there(world, winner, domain, others)


@given(crowds())
def test_nobody_later_yields_while_somebody_earlier_could(crowd: tuple[Snapshot, Run]) -> None:  # R2
    """Where the last stage is k, everybody of the stages before it in that domain together was not enough, nor in
    any other domain."""
    world, winner = crowd
    decision = decided(world)
    if not decision.cuts or not single_piece(winner) or len(decision.groups) != shape_to_free(winner).groups:
        return
    last = max(STAGE[cut.kind] for cut in decision.cuts)
    by_domain = {node.name: node.domain for node in world.nodes}
    holdings = Holdings(by_run(world.leases), {run.key: run for run in world.runs})
    for domain in {node.domain for node in world.nodes if node.domain is not None}:
        there = [lease for lease in world.leases if by_domain[lease.node] == domain]
        staged = holdings.staged(by_run(there), (), winner.key)
        earlier = [
            each for stage in (staged.fillers, staged.spares, staged.groups) for each in stage if each.stage < last
        ]
        assert not fits_there(world, winner, domain, [lease.key for each in earlier for lease in each.leases])


@given(crowds())
def test_waits_only_where_no_yielding_would_help(crowd: tuple[Snapshot, Run]) -> None:  # R5
    world, winner = crowd
    decision = decided(world)
    if decision.verdict is not Verdict.RESERVE or not single_piece(winner):
        return
    by_domain = {node.name: node.domain for node in world.nodes}
    holdings = Holdings(by_run(world.leases), {run.key: run for run in world.runs})
    for domain in {node.domain for node in world.nodes if node.domain is not None}:
        there = [lease for lease in world.leases if by_domain[lease.node] == domain]
        staged = holdings.staged(by_run(there), (), winner.key)
        fixed = holdings.fixed(staged.fixed, ())
        everybody = [*staged.fillers, *staged.spares, *staged.groups, *fixed]
        assert not fits_there(world, winner, domain, [lease.key for each in everybody for lease in each.leases])


def shuffled(world: Snapshot, random: Random) -> Snapshot:
    def mixed(things: tuple[T, ...]) -> tuple[T, ...]:
        return tuple(random.sample(things, len(things)))

    return replace(
        world,
        nodes=mixed(world.nodes),
        budgets=mixed(world.budgets),
        runs=mixed(world.runs),
        leases=mixed(world.leases),
    )


@given(crowds(), seeds())
def test_input_order_changes_nothing(crowd: tuple[Snapshot, Run], random: Random) -> None:
    world, winner = crowd
    other = shuffled(world, random)
    assert decided(other) == decided(world)
    assert plan_run(other, winner, NOW) == plan_run(world, winner, NOW)


@given(crowds())
def test_trace_rebuilds_the_slice_and_names_the_cuts(crowd: tuple[Snapshot, Run]) -> None:
    world, winner = crowd
    for decision in (decided(world), plan_run(world, winner, NOW)):
        if decision.seats:
            assert replay(world, winner, decision.trace) == decision.seats
        told = [(step.subject, step.group, step.took) for step in decision.trace if step.act == "cut"]
        assert told == [(cut.run, cut.group, cut.gpus) for cut in decision.cuts]


@given(crowds())
def test_exact_promise_is_kept_by_the_world_then_and_by_none_before(crowd: tuple[Snapshot, Run]) -> None:  # F1 c
    world, winner = crowd
    fresh = replace(world, reservations=())
    decision = plan_run(fresh, winner, NOW)
    if decision.confidence is None or decision.confidence.value != "exact" or decision.earliest_start is None:
        return
    seen = World.of(fresh, NOW)
    assert isinstance(fit(seen.at(decision.earliest_start), winner), Fit)
    for instant in (NOW, *(t for t in seen.events() if t < decision.earliest_start)):
        assert isinstance(fit(seen.at(instant), winner), Refusal)


@given(crowds(), st.integers(0, 40))
def test_tightened_budget_is_within_its_cap_or_nobody_yields(crowd: tuple[Snapshot, Run], cap: int) -> None:  # R6
    world, _ = crowd
    first = world.budgets[0]
    lower = replace(first, envelopes=(replace(first.envelopes[0], concurrency=cap),))
    tight = replace(world, budgets=(lower, *world.budgets[1:]))
    decision = tighten(tight, first.name, None, NOW)
    seen = World.of(tight, NOW)
    if not overruns(seen, lower):
        assert decision.verdict is Verdict.NONE
        return
    keys = cut_keys(decision)
    if decision.verdict is Verdict.NONE:
        assert keys == []
        return
    assert not overruns(seen.without(keys), lower)
    for cut in decision.cuts:
        assert overruns(seen.without(key for key in keys if key not in cut.leases), lower)
    assert all(_pays(tight.leases, cut.leases, first.name) for cut in decision.cuts)


def _pays(leases: Iterable[Lease], keys: Iterable[str], budget: str) -> bool:
    wanted = set(keys)
    return any(lease.payer.budget == budget for lease in leases if lease.key in wanted)
