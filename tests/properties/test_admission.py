"""What holds of every plan: no cap is passed, sums add up, groups and spares sit where P2 and P4 say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from hypothesis import given

from planner.admit import Fit, fit, fit_growth, pay
from planner.model import DAY, Budget, Envelope, FundingClass, Lease, Payer, Role, Snapshot
from planner.pack import place
from planner.shape import Placement, group_gpus, shape_of
from planner.trace import replay
from planner.world import World
from tests.properties.history import committed
from tests.properties.strategies import HOUR, SEEDS, Case, cases

NOW = 0


def held_gpus(leases: Iterable[Lease], payers: Iterable[Payer], borrowed: bool = False) -> int:
    """Concurrency by hand: fillers do not count (O1)."""
    among = set(payers)
    return sum(
        lease.gpus
        for lease in leases
        if lease.payer in among
        and lease.role is not Role.FILLER
        and (lease.funding is FundingClass.BORROWED or not borrowed)
    )


def promised_seconds(snapshot: Snapshot, budget: Budget, names: Iterable[str], borrowed: bool = False) -> int:
    """GPU-seconds by hand: all leases start now, so each costs its whole look-ahead (C2)."""
    spans = {run.key: run.duration for run in snapshot.runs}
    windows = {envelope.name: envelope for envelope in budget.envelopes}
    among = set(names)
    total = 0
    for lease in snapshot.leases:
        mine = lease.payer.budget == budget.name and lease.payer.envelope in among
        if mine and (lease.funding is FundingClass.BORROWED or not borrowed):
            total += lease.gpus * (spans[lease.run_key] or _rest(windows[lease.payer.envelope]))
    return total


def _rest(envelope: Envelope) -> int:
    return DAY if envelope.end_at is None else envelope.end_at - NOW


def passed_caps(snapshot: Snapshot) -> list[str]:
    """Every cap that the leases pass."""
    found = []
    for budget in snapshot.budgets:
        for envelope in budget.envelopes:
            payer, lending = Payer(budget.name, envelope.name), envelope.lending
            rows = [
                ("gpus", envelope.concurrency, held_gpus(snapshot.leases, [payer])),
                ("lent", lending.concurrency_max, held_gpus(snapshot.leases, [payer], borrowed=True)),
                ("hours", _seconds(envelope.gpu_hours_max), promised_seconds(snapshot, budget, [envelope.name])),
                (
                    "lent hours",
                    _seconds(lending.gpu_hours_max),
                    promised_seconds(snapshot, budget, [envelope.name], True),
                ),
            ]
            found += [
                f"{payer.name} {what}: {used} > {cap}" for what, cap, used in rows if cap is not None and used > cap
            ]
        for cap in budget.caps:
            payers = [Payer(budget.name, name) for name in cap.envelopes]
            rows = [
                ("gpus", cap.concurrency_max, held_gpus(snapshot.leases, payers)),
                ("hours", _seconds(cap.gpu_hours_max), promised_seconds(snapshot, budget, cap.envelopes)),
            ]
            found += [
                f"{cap.name} {what}: {used} > {most}" for what, most, used in rows if most is not None and used > most
            ]
    return found


def _seconds(hours: int | None) -> int | None:
    return None if hours is None else hours * HOUR


@given(SEEDS)
def test_caps_hold_after_plans_in_a_row(seed: int) -> None:  # C2, C5, C6
    for case in cases(seed, tangled=True):
        snapshot = case.snapshot
        for run in case.runs:
            answer = fit(World.of(snapshot, NOW), run)
            if isinstance(answer, Fit):
                snapshot = committed(snapshot, run, answer, NOW)
        assert passed_caps(snapshot) == [], case
        use: Counter[str] = Counter()
        for lease in snapshot.leases:
            use[lease.node] += lease.gpus if lease.role is not Role.SPARE else 0
        assert all(use[node.name] <= node.gpus for node in snapshot.nodes), case  # P1


@given(SEEDS)
def test_segments_sum_to_the_request_and_borrowing_stays_below_its_limit(seed: int) -> None:  # C5, C6, C8
    for case, answer in fitting(seed, tangled=True):
        run = case.run
        pods = Counter((seat.rank, seat.group, seat.slot) for seat in answer.seats for _ in range(seat.gpus))
        assert set(pods.values()) == {run.gpus_per_pod}, case
        assert answer.width == sum(seat.gpus for seat in answer.seats if seat.role is not Role.SPARE), case
        borrowed = sum(seat.gpus for seat in answer.seats if seat.funding is FundingClass.BORROWED)
        assert run.funding.borrow_gpus_max is None or borrowed <= run.funding.borrow_gpus_max, case
        assert not borrowed or (run.funding.allow_borrow and run.funding.sponsors), case


@given(SEEDS)
def test_groups_lie_in_one_domain_and_spares_off_their_nodes(seed: int) -> None:  # P2, P4
    for case, answer in fitting(seed):
        run, domain = case.run, {node.name: node.domain for node in case.snapshot.nodes}
        for group in answer.groups:
            mine = [seat for seat in answer.seats if seat.group == group.index]
            work = {seat.node for seat in mine if seat.role is not Role.SPARE}
            spare = [seat for seat in mine if seat.role is Role.SPARE]
            assert {domain[node] for node in work} == {group.domain}, case
            assert not work & {seat.node for seat in spare}, case
            wanted = 0 if run.opportunistic else run.spares_per_group
            assert sum(seat.gpus for seat in spare) == wanted * run.gpus_per_pod, case
            size = group_gpus(run)
            assert size in (None, sum(seat.gpus for seat in mine if seat.role is not Role.SPARE)), case
        assert run.cross_group_spread or len({group.domain for group in answer.groups}) == 1, case
        by_rank = {(seat.rank, seat.node) for seat in answer.seats if seat.rank is not None}
        assert len(by_rank) == answer.width // run.gpus_per_pod, case  # a pod on one node


@given(SEEDS)
def test_trace_rebuilds_the_plan(seed: int) -> None:
    for case, answer in fitting(seed, tangled=True):
        assert replay(case.snapshot, case.run, answer.trace) == answer.seats, case


@given(SEEDS)
def test_width_is_the_largest_that_fits(seed: int) -> None:  # P5
    for case in cases(seed):
        run, world = case.run, World.of(case.snapshot, NOW)
        if run.malleable is None:
            continue
        answer = fit(world, run)
        steps = range(run.malleable.gpus_min, run.malleable.gpus_desired + 1, run.malleable.gpus_step)
        possible = [width for width in steps if isinstance(fit(world, run, width=width), Fit)]
        assert (answer.width if isinstance(answer, Fit) else None) == (possible[-1] if possible else None), case


@given(SEEDS)
def test_more_headroom_never_turns_yes_into_no(seed: int) -> None:  # C2
    for case in cases(seed):
        world = World.of(case.snapshot, NOW)
        placement = place(world.room(case.run), shape_of(case.run))
        if not isinstance(placement, Placement) or not isinstance(pay(world, case.run, placement), Fit):
            continue
        richer = tuple(_richer(budget, case.random.randint(0, 8)) for budget in case.snapshot.budgets)
        wealthier = World.of(replace(case.snapshot, budgets=richer), NOW)
        assert isinstance(pay(wealthier, case.run, placement), Fit), case


def _richer(budget: Budget, more: int) -> Budget:
    grown = (replace(envelope, concurrency=envelope.concurrency + more) for envelope in budget.envelopes)
    return replace(budget, envelopes=tuple(grown))


@given(SEEDS)
def test_growth_keeps_what_is_held_and_adds_the_next_groups(seed: int) -> None:  # E2
    for case in cases(seed):
        run = case.run
        first = fit(World.of(case.snapshot, NOW), run, width=run.malleable.gpus_min) if run.malleable else None
        if run.malleable is None or not isinstance(first, Fit):
            continue
        after = committed(case.snapshot, run, first, NOW)
        grown = fit_growth(World.of(after, NOW), run, run.malleable.gpus_step)
        if isinstance(grown, Fit):
            assert grown.width == first.width + run.malleable.gpus_step, case
            assert {group.index for group in grown.groups}.isdisjoint(group.index for group in first.groups), case
            assert passed_caps(committed(after, run, grown, NOW)) == [], case


def fitting(seed: int, tangled: bool = False) -> Iterator[tuple[Case, Fit]]:
    """The worlds of a seed in which the run fits."""
    for case in cases(seed, tangled):
        answer = fit(World.of(case.snapshot, NOW), case.run)
        if isinstance(answer, Fit):
            yield case, answer
