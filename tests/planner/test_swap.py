"""S1 to S3: what failed, and what a run does about it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.model import Ended, Entry, EntryKind, Snapshot
from planner.swap import Rescue, RescuePlan, failed_nodes, plan_rescues
from planner.world import World
from tests.planner.worlds import snapshot

RICH = "budget rai org:ai:rai\nenv rai/e 100\nbudget mm org:lab:mm\nenv mm/e 100\n"
LIVE = "node d1-n2 us-west/a/d1 8\nnode d1-n3 us-west/a/d1 8\n"
LOST = "node d1-n1 us-west/a/d1 8 taint=node.kubernetes.io/out-of-service:NoExecute\n"
GANG = "run rai/g 16 per=8\nlease rai/g d1-n1 8 rai/e name=a pod=p0\nlease rai/g d1-n2 8 rai/e name=b pod=p1\n"
SPARE = "lease rai/g d1-n3 8 rai/e name=s role=Spare\n"


def rescued(text: str | Snapshot, key: str = "rai/g") -> RescuePlan:
    world = snapshot(text) if isinstance(text, str) else text
    plans = plan_rescues(world, 0)
    return next(plan for plan in plans if plan.run == key)


def ends(plan: RescuePlan) -> list[str]:
    return [f"{ending.lease.name} {ending.reason.value}" for ending in plan.ends]


def with_run(text: str, **changes: object) -> Snapshot:
    world = snapshot(text)
    runs = tuple(replace(run, **changes) if run.key == "rai/g" else run for run in world.runs)  # type: ignore[arg-type]
    return replace(world, runs=runs)


# S1


@pytest.mark.parametrize("state", ["cordoned", "notready", "taint=node.kubernetes.io/unreachable:NoExecute"])
def test_node_cordoned_or_not_ready_has_not_failed(state: str) -> None:
    text = f"node d1-n1 us-west/a/d1 8 {state}\n" + LIVE + RICH + GANG
    assert plan_rescues(snapshot(text), 10**9) == ()


def test_node_gone_or_out_of_service_has_failed() -> None:
    for text in (LIVE + RICH + GANG, LOST + LIVE + RICH + GANG):
        world = snapshot(text)
        assert failed_nodes(world, World.of(world, 0)) == {"d1-n1"}
        assert [plan.run for plan in plan_rescues(world, 0)] == ["rai/g"]


# S2


def test_swap_spare_takes_the_lost_pods_place() -> None:
    plan = rescued(LOST + LIVE + RICH + GANG + SPARE)
    assert (plan.rescue, ends(plan)) == (Rescue.SWAP, ["a NodeFailure", "s Swap"])
    (move,) = plan.moves
    assert (move.node, [lease.name for lease in move.lost], [lease.name for lease in move.spares]) == (
        "d1-n3",
        ["a"],
        ["s"],
    )


def test_swap_fillers_on_the_spare_are_reclaimed_whole() -> None:
    text = LOST + LIVE + "node d1-n4 us-west/a/d1 8\n" + RICH + GANG + SPARE + "run rai/f 12 per=4 opportunistic\n"
    text += "lease rai/f d1-n3 8 rai/e name=f role=Borrowed\nlease rai/f d1-n4 4 rai/e name=f2 role=Borrowed\n"
    assert ends(rescued(text)) == ["a NodeFailure", "f ReclaimedBySpare", "f2 ReclaimedBySpare", "s Swap"]


def test_swap_filler_beside_the_spare_stays() -> None:
    text = LOST + "node d1-n2 us-west/a/d1 8\nnode d1-n3 us-west/a/d1 16\n" + RICH + GANG + SPARE
    text += "run rai/f 8 opportunistic\nlease rai/f d1-n3 8 rai/e name=f role=Borrowed\n"
    assert ends(rescued(text)) == ["a NodeFailure", "s Swap"]


def test_swap_two_pods_on_two_spares_of_one_node_reclaim_for_both() -> None:
    text = LOST + "node d1-n3 us-west/a/d1 8\n" + RICH + "run rai/g 8 per=4\n"
    text += "lease rai/g d1-n1 4 rai/e name=a pod=p0\nlease rai/g d1-n1 4 rai/e name=b pod=p1\n"
    text += "lease rai/g d1-n3 4 rai/e name=s role=Spare\nlease rai/g d1-n3 4 rai/e name=t role=Spare\n"
    text += "run rai/f 4 opportunistic\nlease rai/f d1-n3 4 rai/e name=f role=Borrowed\n"
    text += "run rai/h 4 opportunistic\nlease rai/h d1-n3 4 rai/e name=h role=Borrowed\n"
    plan = rescued(text)
    assert (plan.rescue, len(plan.moves)) == (Rescue.SWAP, 2)
    assert ends(plan) == [
        "a NodeFailure",
        "b NodeFailure",
        "f ReclaimedBySpare",
        "h ReclaimedBySpare",
        "s Swap",
        "t Swap",
    ]


def test_swap_pod_with_two_payers_moves_as_one() -> None:  # C8
    text = LOST + LIVE + RICH + "run rai/g 8 per=8\nlease rai/g d1-n1 5 rai/e name=a pod=p0\n"
    text += "lease rai/g d1-n1 3 mm/e name=b pod=p0 class=borrowed\n" + SPARE
    (move,) = rescued(text).moves
    assert [(lease.payer.name, lease.gpus) for lease in move.lost] == [("rai/e", 5), ("mm/e", 3)]


def test_swap_smallest_spare_that_is_large_enough() -> None:
    text = LOST + LIVE + "node d1-n4 us-west/a/d1 8\n" + RICH + "run rai/g 4 per=4\n"
    text += "lease rai/g d1-n1 4 rai/e name=a pod=p0\n" + SPARE + "lease rai/g d1-n4 4 rai/e name=t role=Spare\n"
    assert [move.node for move in rescued(text).moves] == ["d1-n4"]


def test_swap_spare_of_another_group_does_not_help() -> None:
    text = LOST + LIVE + RICH + GANG + SPARE.replace("role=Spare", "role=Spare group=1")
    assert rescued(text).rescue is Rescue.FAIL


def test_swap_spares_too_small_together_says_so_and_falls_through() -> None:
    text = LOST + LIVE + RICH + GANG + SPARE.replace("d1-n3 8", "d1-n3 4")
    plan = rescued(text)
    assert plan.rescue is Rescue.FAIL
    assert "spares hold 4 together and are too small" in plan.message


def test_swap_spare_on_the_failed_node_too_does_not_help() -> None:
    text = LOST + "node d1-n2 us-west/a/d1 8\n" + RICH + GANG + SPARE.replace("d1-n3 8", "d1-n1 8")
    plan = rescued(text)
    assert (plan.rescue, ends(plan)) == (Rescue.FAIL, ["a NodeFailure", "b Fail", "s NodeFailure"])


def test_swap_only_a_spare_lost_ends_it_and_nothing_else() -> None:
    text = "node d1-n1 us-west/a/d1 8\nnode d1-n2 us-west/a/d1 8\n" + RICH + GANG + SPARE
    plan = rescued(text)
    assert (plan.rescue, ends(plan), plan.moves) == (Rescue.NOTHING, ["s NodeFailure"], ())


# S3


def test_no_spare_fixed_run_fails_whole_with_its_spares() -> None:
    plan = rescued(LOST + LIVE + RICH + GANG + SPARE.replace("d1-n3 8", "d1-n3 4"))
    assert ends(plan) == ["a NodeFailure", "b Fail", "s Fail"]


def test_no_spare_run_with_a_checkpoint_is_requeued() -> None:
    plan = rescued(with_run(LOST + LIVE + RICH + GANG, checkpoint=60))
    assert (plan.rescue, ends(plan)) == (Rescue.REQUEUE, ["a NodeFailure", "b Fail"])


MALLEABLE = "run rai/g 16 per=8 min=8 max=16 step=8\nlease rai/g d1-n1 8 rai/e name=a pod=p0 group=0\n"
MALLEABLE += "lease rai/g d1-n2 8 rai/e name=b pod=p1 group=1\n"


def test_no_spare_malleable_run_shrinks_by_the_groups_hit() -> None:
    text = LOST + LIVE + RICH + MALLEABLE + "lease rai/g d1-n3 4 rai/e name=s role=Spare group=0\n"
    plan = rescued(text)
    assert (plan.rescue, ends(plan)) == (Rescue.SHRINK, ["a NodeFailure", "s Shrink"])


def test_no_spare_malleable_run_never_shrinks_below_its_minimum() -> None:
    text = LOST + LIVE + RICH + MALLEABLE.replace("min=8", "min=16")
    assert (rescued(text).rescue, ends(rescued(text))) == (Rescue.FAIL, ["a NodeFailure", "b Fail"])
    assert rescued(with_run(text, checkpoint=60)).rescue is Rescue.REQUEUE


def test_malleable_run_swaps_the_group_that_can_and_gives_up_the_other() -> None:
    text = LOST + LIVE + RICH + "run rai/g 24 per=8 min=8 max=24 step=8\n"
    text += "lease rai/g d1-n1 4 rai/e name=a pod=p0 group=0\nlease rai/g d1-n1 4 rai/e name=b pod=p1 group=1\n"
    text += "lease rai/g d1-n2 8 rai/e name=c pod=p2 group=2\nlease rai/g d1-n3 8 rai/e name=s role=Spare group=1\n"
    plan = rescued(text)
    assert (plan.rescue, ends(plan)) == (Rescue.SHRINK, ["a NodeFailure", "b NodeFailure", "s Swap"])
    assert [move.lost[0].name for move in plan.moves] == ["b"]


FAILED = "node d1-n1 us-west/a/d1 8\n" + LIVE + RICH + GANG + "pod rai/p0 d1-n1 8 phase=Failed\n"


@pytest.mark.parametrize(
    ("retries", "attempt", "rescue"),
    [(0, 1, Rescue.FAIL), (1, 1, Rescue.RETRY), (1, 2, Rescue.FAIL), (2, 2, Rescue.RETRY)],
)
def test_failed_pod_of_a_fixed_run_is_tried_again_up_to_max_retries(retries: int, attempt: int, rescue: Rescue) -> None:
    text = FAILED.replace("name=a", f"name=a attempt={attempt}").replace("name=b", f"name=b attempt={attempt}")
    plan = rescued(with_run(text, retries_max=retries))
    assert (plan.rescue, ends(plan)) == (rescue, ["a Fail", "b Fail"])


def test_failed_pod_with_a_checkpoint_is_not_requeued_for_ever() -> None:
    assert rescued(with_run(FAILED, checkpoint=60)).rescue is Rescue.FAIL


def test_failed_pod_takes_a_spare_like_a_lost_node() -> None:
    plan = rescued(FAILED + SPARE)
    assert (plan.rescue, ends(plan)) == (Rescue.SWAP, ["a Fail", "s Swap"])


def test_pod_that_succeeded_is_no_loss() -> None:
    assert plan_rescues(snapshot(FAILED.replace("Failed", "Succeeded")), 0) == ()


def test_loss_that_was_ended_already_is_not_decided_again() -> None:
    cut = Entry(
        seq=9,
        prev="",
        digest="",
        nonce="",
        read_at=0,
        time=0,
        created_at=0,
        kind=EntryKind.SWAP,
        ends=(Ended(namespace="rai", lease="a", reason="NodeFailure"),),
    )
    world = replace(snapshot(LOST + LIVE + RICH + GANG), entries=(cut,))
    assert plan_rescues(world, 0) == ()
