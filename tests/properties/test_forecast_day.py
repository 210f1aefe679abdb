"""A generated day: runs come, wait and end, and every exact promise is held against what happened (F1-F5)."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hypothesis import given

from planner.model import (
    Budget,
    Closure,
    Decision,
    Envelope,
    Lease,
    PayerShare,
    Reservation,
    ReservationState,
    Run,
    SliceGroup,
    SliceNode,
    Snapshot,
    Verdict,
)
from planner.plan import plan_run
from planner.score import mean_error, scores
from tests.properties.history import leases_of
from tests.properties.strategies import HOUR, seeds, some_nodes

DAY = 24 * HOUR


def some_run(random: Random, name: str) -> Run:
    gpus_per_pod = random.choice((1, 2, 4))
    group_pods = random.choice((None, 1, 2))
    return Run(
        namespace="ns",
        name=name,
        uid=f"uid-{name}",
        owner=random.choice(("org:a", "org:b")),
        flavor="H100",
        gpus_total=random.randint(1, 3) * (group_pods or 1) * gpus_per_pod,
        gpus_per_pod=gpus_per_pod,
        group_gpus=None if group_pods is None else group_pods * gpus_per_pod,
        spares_per_group=random.choice((0, 0, 0, 1)),
        duration=random.randint(1, 8) * HOUR // 2,
    )


class Day:
    """A cluster that does what the planner says, and nothing else."""

    def __init__(self, random: Random) -> None:
        purse = Envelope(name="e", flavor="H100", concurrency=random.randint(8, 24))
        budgets = tuple(Budget(name=owner[-1], owner=owner, envelopes=(purse,)) for owner in ("org:a", "org:b"))
        self.world = Snapshot(nodes=some_nodes(random, 6, 8), budgets=budgets)
        self.ends: dict[str, int] = {}
        self.exact: set[str] = set()

    def submit(self, run: Run, now: int) -> None:
        decision = plan_run(self.world, run, now)
        if decision.verdict is Verdict.REFUSE:
            return
        self.world = replace(self.world, runs=(*self.world.runs, run))
        if decision.verdict is Verdict.START:
            self._start(run, decision, now)
        else:
            self._reserve(run, decision, now)

    def next_event(self) -> int | None:
        waits = (made.earliest_start for made in self.world.reservations if made.open)
        return min((*self.ends.values(), *(start for start in waits if start is not None)), default=None)

    def settle(self, now: int) -> None:
        """Closes what has ended, then starts what waits and fits, oldest first."""
        over = {name for name, end in self.ends.items() if end <= now}
        self.ends = {name: end for name, end in self.ends.items() if name not in over}
        self.world = replace(self.world, leases=tuple(self._closed(lease, over, now) for lease in self.world.leases))
        for made in sorted(self.world.reservations, key=lambda made: (made.created_at, made.key)):
            run = next(run for run in self.world.runs if run.key == made.run_key)
            if made.open:
                decision = plan_run(self.world, run, now)
                if decision.verdict is Verdict.START:
                    self._start(run, decision, now)

    def _closed(self, lease: Lease, over: set[str], now: int) -> Lease:
        if lease.closed or lease.run_name not in over:
            return lease
        return replace(lease, closed=True, end_at=now, closure=Closure.COMPLETED.value)

    def _start(self, run: Run, decision: Decision, now: int) -> None:
        assert run.duration is not None
        leases = leases_of(run, decision.seats, now, first=len(self.world.leases))
        self.ends[run.name] = now + run.duration
        released = tuple(
            replace(made, state=ReservationState.RELEASED) if made.run_key == run.key else made
            for made in self.world.reservations
        )
        self.world = replace(self.world, leases=(*self.world.leases, *leases), reservations=released)

    def _reserve(self, run: Run, decision: Decision, now: int) -> None:
        made = Reservation(
            namespace="ns",
            name=run.name,
            uid=f"res-{run.name}",
            run_name=run.name,
            run_uid=run.uid,
            gpus=decision.width,
            groups=slice_of(decision),
            payers=payers_of(decision),
            earliest_start=decision.earliest_start,
            state=ReservationState.PENDING if decision.earliest_start is not None else ReservationState.BLOCKED,
            created_at=now,
        )
        if decision.confidence is not None and decision.confidence.value == "exact":
            self.exact.add(run.key)
        self.world = replace(self.world, reservations=(*self.world.reservations, made))


def slice_of(decision: Decision) -> tuple[SliceGroup, ...]:
    groups = []
    for group in decision.groups:
        nodes: dict[str, int] = {}
        for seat in decision.seats:
            if seat.group == group.index:
                nodes[seat.node] = nodes.get(seat.node, 0) + seat.gpus
        parts = tuple(SliceNode(name=name, gpus=gpus) for name, gpus in sorted(nodes.items()))
        groups.append(SliceGroup(index=group.index, domain=group.domain.name, nodes=parts))
    return tuple(groups)


def payers_of(decision: Decision) -> tuple[PayerShare, ...]:
    sums = dict.fromkeys((seat.payer for seat in decision.seats), 0)
    for seat in decision.seats:
        sums[seat.payer] += seat.gpus
    return tuple(PayerShare(payer=payer, gpus=gpus) for payer, gpus in sums.items()) or decision.waits_for


def live(random: Random) -> Day:
    """Runs come at random instants; between them the cluster settles at every event."""
    day = Day(random)
    for number, now in enumerate(sorted(random.randrange(DAY // 2) for _ in range(14))):
        _until(day, now)
        day.submit(some_run(random, f"r{number:02}"), now)
    _until(day, 10 * DAY)
    return day


def _until(day: Day, now: int) -> None:
    while (event := day.next_event()) is not None and event <= now:
        before = day.world
        day.settle(event)
        if day.world == before:
            return


@given(seeds())
def test_exact_promises_of_a_day_are_kept(random: Random) -> None:
    day = live(random)
    kept = [score for score in scores(day.world.reservations, day.world.leases) if score.run in day.exact]
    assert [score for score in kept if score.late > 0] == []
    assert {score.run for score in kept} == day.exact  # each of them has started
    # F5: nothing ended early on such a day, so the forecast was right to the second or better.
    assert (mean_error(kept) or 0) == sum(-score.late for score in kept) // max(1, len(kept))


@given(seeds())
def test_no_gpu_is_held_twice_on_any_day(random: Random) -> None:
    day = live(random)
    sizes = {node.name: node.gpus for node in day.world.nodes}
    instants = sorted({lease.start_at for lease in day.world.leases})
    for instant in instants:
        use = dict.fromkeys(sizes, 0)
        for lease in day.world.leases:
            if lease.start_at <= instant and (lease.end_at is None or instant < lease.end_at):
                use[lease.node] += lease.gpus
        assert all(use[name] <= sizes[name] for name in sizes)
