"""Where: P2, P3 and P4, sentence by sentence."""

from __future__ import annotations

from planner.model import Domain, Reason
from planner.pack import place, place_group
from planner.shape import Placement, Unplaced, shape_of
from tests.planner.worlds import run_of, world

D1, D2 = Domain("west", "a", "d1"), Domain("west", "a", "d2")
TWO = "nodes west/a/d1 3x8\nnodes west/a/d2 2x8\n"


def packed(text: str, run: str, used: tuple[Domain, ...] = ()) -> list[str]:
    """Each group as `d1: n1 n1 n2 | spares`."""
    asked = run_of(run)
    answer = place(world(text).room(asked), shape_of(asked), used)
    assert isinstance(answer, Placement), answer
    return [
        f"{group.domain.fabric}: {' '.join(group.pods)}"
        + (f" | {' '.join(node for _, node in group.spares)}" if group.spares else "")
        for group in answer.groups
    ]


def domains(text: str, run: str, used: tuple[Domain, ...] = ()) -> list[str]:
    return [line.partition(":")[0] for line in packed(text, run, used)]


def unplaced(text: str, run: str) -> Unplaced:
    asked = run_of(run)
    answer = place(world(text).room(asked), shape_of(asked))
    assert isinstance(answer, Unplaced), answer
    return answer


def test_pack_group_stays_in_one_domain() -> None:  # P2
    assert unplaced(TWO, "r/t 32 per=8 group=32").reason is Reason.NO_CAPACITY
    assert domains(TWO, "r/t 40 per=8 group=8") == ["d1", "d1", "d1", "d2", "d2"]


def test_pack_pod_stays_on_one_node() -> None:  # P2
    assert packed("nodes west/a/d1 6,6,6", "r/t 12 per=4") == ["d1: d1-n1 d1-n2 d1-n3"]
    assert unplaced("nodes west/a/d1 6,6,6", "r/t 16 per=4").gpus_missing == 4


def test_pack_without_spread_puts_all_groups_in_one_domain() -> None:  # P2
    assert domains("nodes west/a/d1 2x8\nnodes west/a/d2 3x8", "r/t 24 per=8 group=8 together") == ["d2"] * 3
    assert unplaced(TWO, "r/t 32 per=8 group=8 together").gpus_missing == 8


def test_pack_without_groups_is_one_group_where_it_fits() -> None:  # P2
    assert domains(TWO, "r/t 24 per=8") == ["d1"]


def test_pack_without_groups_and_without_spread_is_never_split() -> None:
    assert unplaced(TWO, "r/t 32 per=8 together").gpus_missing == 8


def test_pack_without_groups_fills_the_largest_and_best_fits_the_rest() -> None:  # P3: 40 over free 32, 24: 32 + 8
    assert packed("nodes west/a/d1 4x8\nnodes west/a/d2 3x8", "r/t 40 per=8") == [
        "d1: d1-n1 d1-n2 d1-n3 d1-n4",
        "d2: d2-n1",
    ]
    three = "nodes west/a/d1 3x8\nnodes west/a/d2 4x8\nnodes west/a/d3 1x8"
    assert domains(three, "r/t 40 per=8") == ["d2", "d3"]


def test_pack_fewest_domains_before_best_fit() -> None:  # P3
    text = "nodes west/a/d1 1x8\nnodes west/a/d2 1x8\nnodes west/a/d3 4x8"
    assert domains(text, "r/t 16 per=8 group=8") == ["d3", "d3"]


def test_pack_groups_fill_the_domain_that_holds_most_and_best_fit_the_last() -> None:  # P3
    text = "nodes west/a/d1 2x8\nnodes west/a/d2 3x8\nnodes west/a/d3 4x8"
    assert domains(text, "r/t 40 per=8 group=8") == ["d3"] * 4 + ["d1"]


def test_pack_domain_already_used_before_best_fit() -> None:  # P3
    text = "nodes west/a/d1 3x8\nnodes west/a/d2 1x8"
    assert domains(text, "r/t 8 per=8 group=8") == ["d2"]
    assert domains(text, "r/t 8 per=8 group=8", used=(D1,)) == ["d1"]


def test_pack_used_domain_is_filled_before_a_new_one_is_opened() -> None:
    text = "nodes west/a/d1 1x8\nnodes west/a/d2 2x8"
    assert domains(text, "r/t 16 per=8 group=8", used=(D1,)) == ["d1", "d2"]


def test_pack_best_fit_leaves_the_fewest_gpus_free_then_name() -> None:  # P3
    assert domains(TWO, "r/t 8 per=8") == ["d2"]
    assert domains("nodes west/a/d2 2x8\nnodes west/a/d1 2x8", "r/t 8 per=8") == ["d1"]


def test_pack_inside_a_domain_the_fullest_single_node_that_holds_the_group() -> None:  # P3
    assert packed("nodes west/a/d1 8,4,6", "r/t 4 per=2") == ["d1: d1-n2 d1-n2"]


def test_pack_inside_a_domain_else_pod_by_pod_on_the_fullest() -> None:  # P3
    assert packed("nodes west/a/d1 6,3,4", "r/t 8 per=2") == ["d1: d1-n2 d1-n3 d1-n3 d1-n1"]


def test_pack_groups_share_a_node() -> None:
    assert packed("nodes west/a/d1 1x8", "r/t 8 per=2 group=4") == ["d1: d1-n1 d1-n1"] * 2


def test_pack_domain_with_room_for_spares_comes_first() -> None:  # P3, before all that
    text = "nodes west/a/d1 2x8\nnodes west/a/d2 3x8"
    assert domains(text, "r/t 16 per=8") == ["d1"]
    assert packed(text, "r/t 16 per=8 spares=1") == ["d2: d2-n1 d2-n2 | d2-n3"]


def test_pack_room_for_spares_before_fewest_domains() -> None:
    text = "nodes west/a/d1 2x8\nnodes west/a/d2 2x8\nnodes west/a/d3 2x8"
    assert packed(text, "r/t 16 per=8 group=8 spares=1") == ["d1: d1-n1 | d1-n2", "d2: d2-n1 | d2-n2"]


def test_pack_spare_keeps_off_its_groups_nodes_not_off_other_groups() -> None:  # P4
    assert packed("nodes west/a/d1 2x8", "r/t 8 per=4 group=4 spares=1") == [
        "d1: d1-n1 | d1-n2",
        "d1: d1-n1 | d1-n2",
    ]


def test_pack_spare_room_is_found_even_if_the_fullest_nodes_would_take_it() -> None:
    text = "nodes west/a/d1 5,4,4"
    assert packed(text, "r/t 8 spares=5") == [
        "d1: d1-n2 d1-n2 d1-n2 d1-n2 d1-n3 d1-n3 d1-n3 d1-n3 | " + "d1-n1 " * 4 + "d1-n1"
    ]


def test_pack_spare_goes_to_the_same_rack_then_to_the_cluster() -> None:  # P4
    home = "node a1 west/a/d1 8 rack=r1\nnode b1 west/a/d2 8 rack=r2\nnode c1 west/a/d3 8 rack=r1\n"
    run = "r/t 8 per=8 spares=1"
    full = "lease x/y b1 1 r/e\nlease x/y c1 1 r/e\n"
    text = home + full + "node b2 west/a/d2 7\n" + "node d1 west/b/d4 7 rack=r9\n"
    assert unplaced(text, run).reason is Reason.NO_SPARE_NODE
    assert packed(text + "node c2 west/a/d3 8 rack=r1", run) == ["d1: a1 | c2"]
    near = "node a1 west/a/d1 8 rack=r1\nnode b1 west/a/d2 4\nnode b2 west/a/d2 4 rack=r1\nnode c1 west/a/d3 4\n"
    assert packed(near, "r/t 8 per=4 group=8 spares=1") == ["d1: a1 a1 | b2"]
    assert packed(near.replace("b2 west/a/d2 4 rack=r1", "b2 west/a/d2 4"), "r/t 8 per=4 group=8 spares=1") == [
        "d1: a1 a1 | c1"
    ]


def test_pack_spare_never_leaves_its_cluster() -> None:  # P4
    text = "nodes west/a/d1 1x8\nnodes west/b/d2 1x4"
    assert unplaced(text, "r/t 8 per=4 group=8 spares=1").reason is Reason.NO_SPARE_NODE


def test_pack_no_node_left_for_a_spare_says_so() -> None:  # P4
    answer = unplaced("nodes west/a/d1 2x8", "r/t 16 per=8 spares=1")
    assert (answer.reason, answer.gpus_missing) == (Reason.NO_SPARE_NODE, 8)


def test_pack_gives_up_spares_beside_a_group_before_it_gives_up_the_group() -> None:
    text = "nodes west/a/d1 2x8\nnodes west/a/d2 1x4\nnodes west/a/d3 1x4"
    assert packed(text, "r/t 16 per=4 group=8 spares=1") == ["d1: d1-n1 d1-n1 | d2-n1", "d1: d1-n2 d1-n2 | d3-n1"]


def test_pack_split_gives_each_part_its_own_spares() -> None:
    text = "nodes west/a/d1 3x8\nnodes west/a/d2 2x8"
    assert packed(text, "r/t 24 per=8 spares=1") == ["d1: d1-n1 d1-n2 d1-n3 | d2-n1"]
    assert packed("nodes west/a/d1 3x8\nnodes west/a/d2 3x8", "r/t 32 per=8 spares=1") == [
        "d1: d1-n1 d1-n2 | d1-n3",
        "d2: d2-n1 d2-n2 | d2-n3",
    ]


def test_pack_missing_gpus_are_those_of_pods_without_a_place() -> None:  # R2
    full = "lease x/y d1-n1 8 r/e\nlease x/y d2-n1 8 r/e"
    assert unplaced(TWO + full, "r/t 32 per=8").gpus_missing == 8
    assert unplaced(TWO + full, "r/t 24 per=8 group=24").gpus_missing == 8
    assert unplaced(TWO + full, "r/t 48 per=8 group=16").gpus_missing == 24


def test_pack_filler_takes_spares_gpus_first_wherever_they_are() -> None:  # O1
    text = TWO + "lease x/y d1-n2 8 r/e role=Spare"
    assert packed(text, "r/f 8 per=8 opportunistic") == ["d1: d1-n2"]
    assert packed(text, "r/t 8 per=8") == ["d1: d1-n1"]


def test_pack_filler_then_takes_idle_gpus() -> None:  # O1
    text = TWO + "lease x/y d1-n2 8 r/e role=Spare"
    assert packed(text, "r/f 16 per=8 opportunistic") == ["d2: d2-n1 d2-n2"]
    assert packed(text, "r/f 24 per=8 opportunistic") == ["d1: d1-n2 d1-n1 d1-n3"]
    assert packed(text, "r/f 16 per=8 group=8 opportunistic") == ["d1: d1-n2", "d1: d1-n1"]


def test_pack_filler_keeps_no_spares_of_its_own() -> None:
    assert packed(TWO, "r/f 8 per=8 opportunistic spares=1") == ["d2: d2-n1"]


def test_pack_one_group_in_a_given_domain() -> None:
    asked = run_of("r/t 16 per=8 group=16 spares=1")
    room = world(TWO).room(asked)
    placed = place_group(room, D2, shape_of(asked), index=3)
    assert placed is not None
    assert (placed.index, placed.pods, placed.spares) == (3, ("d2-n1", "d2-n2"), ((D1, "d1-n1"),))
    assert place_group(room, D2, shape_of(run_of("r/t 24 per=8 group=24")), index=0) is None
    assert place_group(room, Domain("no", "such", "place"), shape_of(asked), index=0) is None
