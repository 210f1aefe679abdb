"""Cover and pack say yes exactly where brute force finds a way (small worlds: at most 4 nodes, 4 envelopes)."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given

from planner.admit import Fit, pay
from planner.model import Domain, Run
from planner.pack import place
from planner.shape import PlacedGroup, Placement, group_gpus, shape_of
from planner.world import World
from tests.properties.reference import may_pay, may_sit
from tests.properties.strategies import SEEDS, cases

NOW = 0
HERE = Domain("west", "a", "d1")


def seated(run: Run) -> Placement:
    """All pods on one node as large as need be: cover alone is asked."""
    size = (group_gpus(run) or run.gpus_total) // run.gpus_per_pod
    count = run.gpus_total // run.gpus_per_pod // size
    groups = (PlacedGroup(index=index, domain=HERE, pods=("n",) * size) for index in range(count))
    return Placement(groups=tuple(groups))


@given(SEEDS)
def test_cover_pays_exactly_where_some_split_passes_no_cap(seed: int) -> None:  # C1-C6, C8
    for case in cases(seed, gpus_max=3, pods_max=4):
        # With a duration every envelope has the same look-ahead, so that sources can be taken in any order.
        run = replace(case.run, malleable=None, gpus_per_pod=min(2, case.run.gpus_per_pod), duration=3600)
        run = replace(run, gpus_total=run.gpus_per_pod * 3, group_gpus=None)
        answer = pay(World.of(case.snapshot, NOW), run, seated(run))
        assert isinstance(answer, Fit) == may_pay(case.snapshot, run, NOW, run.gpus_total), (case, run)


@given(SEEDS)
def test_pack_seats_groups_exactly_where_some_seating_exists(seed: int) -> None:  # P2
    for case in cases(seed, nodes_max=4, gpus_max=5, pods_max=4):
        run = replace(case.run, spares_per_group=0, malleable=None)
        answer = place(World.of(case.snapshot, NOW).room(run), shape_of(run))
        pods, size = run.gpus_total // run.gpus_per_pod, (group_gpus(run) or 0) // run.gpus_per_pod
        if size:
            able = may_sit(case.snapshot.nodes, run, [size] * (pods // size))
        elif run.cross_group_spread:
            able = sum(node.gpus // run.gpus_per_pod for node in case.snapshot.nodes) >= pods
        else:
            able = may_sit(case.snapshot.nodes, run, [pods])
        assert isinstance(answer, Placement) == able, case


@given(SEEDS)
def test_pack_seats_a_group_with_spares_exactly_where_some_seating_exists(seed: int) -> None:  # P4
    for case in cases(seed, nodes_max=4, gpus_max=5, pods_max=3):
        run = replace(case.run, malleable=None, opportunistic=False)
        run = replace(run, group_gpus=run.gpus_total, spares_per_group=case.random.randint(1, 3))
        answer = place(World.of(case.snapshot, NOW).room(run), shape_of(run))
        able = may_sit(case.snapshot.nodes, run, [run.gpus_total // run.gpus_per_pod])
        assert isinstance(answer, Placement) == able, (case, run)


@given(SEEDS)
def test_pack_never_seats_what_has_no_seating(seed: int) -> None:  # P2, P4: several groups, each with spares
    for case in cases(seed, nodes_max=4, gpus_max=4, pods_max=4):
        run = replace(case.run, malleable=None, opportunistic=False)
        size = group_gpus(run)
        if size is None:
            continue
        answer = place(World.of(case.snapshot, NOW).room(run), shape_of(run))
        if isinstance(answer, Placement):
            assert may_sit(case.snapshot.nodes, run, [size // run.gpus_per_pod] * len(answer.groups)), case
