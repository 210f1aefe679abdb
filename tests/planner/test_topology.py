"""Free GPUs of a node and which nodes take work (P1)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.model import Domain, LabelRequirement, PodNeeds, Run, Toleration
from planner.world import World
from tests.planner.worlds import GIB, run_of, world

D1 = Domain("west", "a", "d1")
ONE = "node n1 west/a/d1 8\n"
RUN = run_of("rai/t 8")


def free(text: str, run: Run = RUN) -> dict[str, int]:
    """GPUs that the run could have, by node."""
    return free_in(world(text), run)


def free_in(here: World, run: Run = RUN) -> dict[str, int]:
    return {node: gpus for island in here.room(run).islands.values() for node, gpus in island.free.items()}


def takes(text: str, run: Run = RUN) -> dict[str, int]:
    """Pods that nodes take where CPU, memory or slots bind before GPUs do."""
    return {node: pods for island in world(text).room(run).islands.values() for node, pods in island.pods_max.items()}


def test_free_is_allocatable_less_active_spare_and_foreign() -> None:
    text = ONE + "lease rai/a n1 3 r/e\nlease rai/b n1 2 r/e role=Spare\npod x/foreign n1 1"
    assert free(text) == {"n1": 2}


def test_free_filler_and_the_spare_under_it_count_once() -> None:
    assert free(ONE + "lease rai/b n1 4 r/e role=Spare\nlease rai/f n1 4 r/e role=Borrowed") == {"n1": 4}
    assert free(ONE + "lease rai/b n1 2 r/e role=Spare\nlease rai/f n1 5 r/e role=Borrowed") == {"n1": 3}


def test_free_pod_that_a_lease_names_counts_once() -> None:
    assert free(ONE + "lease rai/a n1 3 r/e pod=p\npod rai/p n1 3") == {"n1": 5}


def test_free_pod_of_another_uid_is_a_stranger() -> None:
    assert free(ONE + "lease rai/a n1 3 r/e pod=p\npod rai/p n1 3 uid=other") == {"n1": 2}


def test_free_pod_that_succeeded_stays_held_until_its_lease_is_closed() -> None:
    text = ONE + "pod rai/p n1 3 phase=Succeeded\nlease rai/a n1 3 r/e pod=p"
    assert free(text) == {"n1": 5}
    assert free(text + " end=0") == {"n1": 8}


def test_free_terminating_pod_of_a_closed_lease_still_counts() -> None:
    assert free(ONE + "pod rai/p n1 3 terminating\nlease rai/a n1 3 r/e pod=p end=0") == {"n1": 5}


def test_free_unbound_pod_holds_nothing() -> None:
    assert free(ONE + "pod x/p - 3") == {"n1": 8}


def test_free_never_falls_below_zero() -> None:
    assert free(ONE + "lease rai/a n1 6 r/e\npod x/p n1 6") == {"n1": 0}


def test_free_reservation_slice_counts_from_its_start() -> None:  # F3
    text = ONE + "run rai/later 4 duration=60\nreserve rai/later at=3600 nodes=n1:4"
    assert free(text, run_of("rai/t 8 duration=3600")) == {"n1": 8}
    assert free(text, run_of("rai/t 8 duration=3601")) == {"n1": 4}
    assert free(text) == {"n1": 4}
    assert free(text, run_of("rai/later 4")) == {"n1": 8}
    assert free(text, run_of("rai/f 8 opportunistic")) == {"n1": 8}


def test_free_reservation_that_is_due_holds_against_fillers_too() -> None:
    text = ONE + "run rai/later 4\nreserve rai/later at=0 nodes=n1:4"
    assert free(text, run_of("rai/f 8 opportunistic")) == {"n1": 4}


def test_free_for_a_filler_includes_spares_without_one() -> None:  # O1
    text = ONE + "lease rai/b n1 4 r/e role=Spare\nlease rai/f n1 1 r/e role=Borrowed\nlease rai/a n1 2 r/e"
    assert free(text) == {"n1": 2}
    assert free(text, run_of("rai/g 8 opportunistic")) == {"n1": 5}


def test_free_for_a_filler_leaves_foreign_pods_on_a_spares_node_alone() -> None:
    text = ONE + "lease rai/b n1 8 r/e role=Spare\npod x/foreign n1 3"
    assert free(text, run_of("rai/g 8 opportunistic")) == {"n1": 5}


@pytest.mark.parametrize("flaw", ["cordoned", "notready", "taint=k:NoSchedule", "taint=k:NoExecute", "flavor=A100"])
def test_node_that_takes_no_work_never_blocks_the_others(flaw: str) -> None:
    assert free(ONE + f"node n2 west/a/d1 8 {flaw}") == {"n1": 8}


def test_node_without_a_label_is_in_no_domain() -> None:
    assert free(ONE + "node n2 - 8") == {"n1": 8}


def test_node_preferred_taint_is_no_obstacle() -> None:
    assert free("node n1 west/a/d1 8 taint=k:PreferNoSchedule") == {"n1": 8}


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        (Toleration(key="k", operator="Exists"), True),
        (Toleration(key="k"), True),
        (Toleration(operator="Exists"), True),
        (Toleration(key="k", value="x"), False),
        (Toleration(key="k", operator="Exists", effect="NoExecute"), False),
        (Toleration(key="other", operator="Exists"), False),
    ],
)
def test_node_taint_that_the_run_tolerates_is_no_obstacle(toleration: Toleration, tolerated: bool) -> None:
    run = replace(RUN, needs=PodNeeds(tolerations=(toleration,)))
    assert free("node n1 west/a/d1 8 taint=k:NoSchedule", run) == ({"n1": 8} if tolerated else {})


def test_node_selector_of_the_template_must_match() -> None:
    run = replace(RUN, needs=PodNeeds(node_selector=(("disk", "ssd"),)))
    assert free("node n1 west/a/d1 8 label=disk:ssd\nnode n2 west/a/d1 8 label=disk:hdd\nnode n3 west/a/d1 8", run) == {
        "n1": 8
    }


@pytest.mark.parametrize(
    ("rule", "nodes"),
    [
        (LabelRequirement(key="z", operator="In", values=("1", "2")), ["n1"]),
        (LabelRequirement(key="z", operator="NotIn", values=("1",)), ["n2", "n3"]),
        (LabelRequirement(key="z", operator="Exists"), ["n1", "n2"]),
        (LabelRequirement(key="z", operator="DoesNotExist"), ["n3"]),
        (LabelRequirement(key="z", operator="Gt", values=("1",)), ["n2"]),
        (LabelRequirement(key="z", operator="Lt", values=("2",)), ["n1"]),
        (LabelRequirement(key="metadata.name", operator="In", values=("n3",), is_field=True), ["n3"]),
    ],
)
def test_node_affinity_that_is_required_must_match(rule: LabelRequirement, nodes: list[str]) -> None:
    text = "node n1 west/a/d1 8 label=z:1\nnode n2 west/a/d1 8 label=z:7\nnode n3 west/a/d1 8"
    assert sorted(free(text, replace(RUN, needs=PodNeeds(affinity=((rule,),))))) == nodes


def test_node_affinity_any_term_is_enough_and_in_it_all_must_hold() -> None:
    text = "node n1 west/a/d1 8 label=z:1\nnode n2 west/a/d1 8 label=y:1\nnode n3 west/a/d1 8"
    z, y = (LabelRequirement(key=key, operator="Exists") for key in "zy")
    assert sorted(free(text, replace(RUN, needs=PodNeeds(affinity=((z,), (y,)))))) == ["n1", "n2"]
    assert free(text, replace(RUN, needs=PodNeeds(affinity=((z, y),)))) == {}


def test_run_selector_limits_where_it_may_run() -> None:
    assert free(ONE + "node e1 east/b/d9 8", run_of("rai/t 8 region=east")) == {"e1": 8}


def test_node_cpu_and_memory_left_over_bound_the_pods() -> None:
    run = replace(RUN, needs=PodNeeds(cpu_milli=2000, memory_bytes=4 * GIB))
    text = "node n1 west/a/d1 8 cpu=10 memory=64\nnode n2 west/a/d1 8 cpu=64 memory=9\nnode n3 west/a/d1 8\n"
    assert takes(text + "pod x/p n1 0 cpu=5 memory=1", run) == {"n1": 2, "n2": 2}


def test_node_pod_slots_are_used_by_every_live_pod() -> None:
    text = "node n1 west/a/d1 8 pods=4\npod x/p n1 0\npod x/q n1 0 phase=Failed"
    assert takes(text) == {"n1": 3}


def test_node_pod_of_a_lease_not_yet_bound_uses_its_node() -> None:
    text = "node n1 west/a/d1 8 pods=4\nlease rai/a n1 1 r/e pod=p\npod rai/p - 1"
    assert takes(text) == {"n1": 3}


def test_empty_fleet_has_cordoned_and_unready_nodes_but_no_untolerated_taint() -> None:  # F1 (a)
    text = "node n1 west/a/d1 8 cordoned taint=node.kubernetes.io/unschedulable:NoSchedule\n"
    text += "node n2 west/a/d1 8 notready taint=node.kubernetes.io/not-ready:NoExecute\n"
    text += "node n3 west/a/d1 8 taint=k:NoSchedule\nnode n4 west/a/d1 8\nlease rai/a n4 8 r/e"
    assert sorted(world(text).empty_room(RUN).islands[D1].free.items()) == [("n1", 8), ("n2", 8), ("n4", 8)]


def test_world_without_a_lease_frees_gpus_cpu_and_the_pod_slot() -> None:
    text = "node n1 west/a/d1 8 pods=1 cpu=4\nlease rai/a n1 8 r/e pod=p\npod rai/p n1 8 cpu=4"
    run = replace(run_of("rai/t 8 per=8"), needs=PodNeeds(cpu_milli=4000))
    island = world(text).without(["rai/lease-000"]).room(run).islands[D1]
    assert (dict(island.free), dict(island.pods_max)) == ({"n1": 8}, {})


def test_world_later_has_reservations_that_are_over() -> None:
    text = ONE + "run rai/later 4 duration=600\nreserve rai/later at=3600 nodes=n1:4"
    here = world(text)
    assert [free_in(here.at(instant))["n1"] for instant in (0, 3600, 4199, 4200)] == [4, 4, 4, 8]
