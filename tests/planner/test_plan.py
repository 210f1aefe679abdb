"""F1 to F3: what becomes of a run, question by question."""

from __future__ import annotations

from dataclasses import replace

from planner.model import Confidence, Reason, Verdict
from planner.plan import plan_run
from planner.trace import replay
from tests.planner.answers import pays, places
from tests.planner.verdicts import cuts, planned, replanned, told
from tests.planner.worlds import run_of, snapshot

NODE = "nodes us-west/a/d1 1x8\n"
TWO = "nodes us-west/a/d1 2x8\n"
RICH = "budget rai org:ai:rai\nenv rai/e 100\n"
FULL = "run rai/old 8 per=8\nlease rai/old d1-n1 8 rai/e\n"
TIMED = "run rai/old 8 per=8 duration=10800\nlease rai/old d1-n1 8 rai/e\n"  # began an hour ago, ends at 7200
BIG = "rai/big 8 per=8"


def test_plan_run_fits_starts_now() -> None:
    decision = planned(NODE + RICH, BIG)
    assert told(decision) == "start"
    assert (decision.width, places(decision.seats), pays(decision.seats)) == (
        8,
        ["0 d1-n1 8 Active"],
        ["rai/e 8 owned"],
    )


def test_plan_owner_is_not_the_namespaces_is_refused() -> None:  # section 7, C7
    world = replace(snapshot(NODE + RICH), namespace_owners={"rai": "org:bio"})
    decision = plan_run(world, run_of(BIG), 0)
    assert told(decision) == "refuse OwnerMismatch"
    assert "org:bio" in decision.message
    assert "org:ai:rai" in decision.message


def test_plan_owner_equals_the_namespaces_starts() -> None:
    world = replace(snapshot(NODE + RICH), namespace_owners={"rai": "org:ai:rai", "bio": "org:bio"})
    assert told(plan_run(world, run_of(BIG), 0)) == "start"


def test_plan_canceled_run_is_refused() -> None:  # 6.7
    assert told(planned(NODE + RICH, BIG + " canceled")) == "refuse Canceled"


# F1 (a)


def test_plan_empty_fleet_too_small_is_refused() -> None:
    assert told(planned(NODE + RICH, "rai/big 16 per=8")) == "refuse NoTopology"


def test_plan_cordoned_and_not_ready_nodes_could_hold_it_later() -> None:
    text = "node d1-n1 us-west/a/d1 8 cordoned\nnode d1-n2 us-west/a/d1 8 notready\n" + RICH
    decision = planned(text, "rai/big 16 per=8")
    assert (decision.verdict, decision.reason) == (Verdict.RESERVE, Reason.NO_CAPACITY)


def test_plan_taint_not_tolerated_is_no_topology() -> None:
    assert told(planned("node d1-n1 us-west/a/d1 8 taint=vip:NoSchedule\n" + RICH, BIG)) == "refuse NoTopology"


def test_plan_cap_below_the_request_is_refused_by_that_cap() -> None:
    assert told(planned(NODE + "budget rai org:ai:rai\nenv rai/e 4\n", BIG)) == "refuse ConcurrencyCap"


def test_plan_no_budget_of_the_flavor_is_refused() -> None:
    assert told(planned(NODE + "budget rai org:ai:rai\nenv rai/e 64 flavor=A100\n", BIG)) == "refuse NoEnvelope"


def test_plan_hours_burnt_stay_burnt() -> None:
    text = NODE + "budget rai org:ai:rai\nenv rai/e 8 hours=10\nsettled rai/e 18000\n"  # 5 hours gone
    assert told(planned(text, BIG + " duration=3600")) == "refuse GPUHourCap"


def test_plan_hours_only_promised_may_come_free() -> None:
    """What a running run may still burn is held, not burnt: it blocks, it does not refuse."""
    text = NODE + "budget rai org:ai:rai\nenv rai/e 16 hours=17\nrun rai/old 4 per=4 duration=7200\n"
    text += "lease rai/old d1-n1 4 rai/e start=-3600\n"
    assert told(planned(text, "rai/big 4 per=4 duration=10800")) == "reserve GPUHourCap"


def test_plan_window_gone_by_is_refused() -> None:
    assert told(planned(NODE + "budget rai org:ai:rai\nenv rai/e 8 until=0\n", BIG)) == "refuse WindowClosed"


def test_plan_window_to_come_too_small_is_refused_by_its_cap() -> None:
    """The window would open, but waiting for it would not help."""
    assert told(planned(NODE + "budget rai org:ai:rai\nenv rai/e 4 from=60\n", BIG)) == "refuse ConcurrencyCap"


def test_plan_two_windows_that_never_overlap_do_not_add_up() -> None:
    text = TWO + "budget rai org:ai:rai\nenv rai/a 8 from=60 until=120\nenv rai/b 8 from=120\n"
    assert planned(text, "rai/big 16 per=8").verdict is Verdict.REFUSE


def test_plan_malleable_run_could_ever_run_at_its_minimum() -> None:
    text = TWO + RICH + "run rai/old 16 per=8\nlease rai/old d1-n1 8 rai/e\nlease rai/old d1-n2 8 rai/e\n"
    assert planned(text, "rai/big 64 per=8 min=8 max=64 step=8").verdict is Verdict.RESERVE


# F1 (b)


def test_plan_fillers_enough_needs_cuts_now() -> None:
    text = NODE + RICH + "run rai/f 8 per=8 opportunistic\nlease rai/f d1-n1 8 rai/e role=Borrowed\n"
    decision = planned(text, BIG)
    assert told(decision) == "reserve NoCapacity at 0 needs-cuts lacks 8"
    assert cuts(decision) == ["EndFiller rai/f - 8"]
    assert places(decision.seats) == ["0 d1-n1 8 Active"]


def test_plan_fillers_enough_comes_before_an_exact_wait() -> None:
    text = TWO + RICH + TIMED + "run rai/f 8 per=8 opportunistic\nlease rai/f d1-n2 8 rai/e role=Borrowed\n"
    assert told(planned(text, BIG)) == "reserve NoCapacity at 0 needs-cuts lacks 8"


def test_plan_fillers_not_enough_waits_for_the_known_end() -> None:
    text = TWO + RICH + TIMED + "run rai/f 8 per=8 opportunistic\nlease rai/f d1-n2 8 rai/e role=Borrowed\n"
    text += "run rai/g 8 per=8\n"
    decision = planned(text.replace("lease rai/f d1-n2 8", "lease rai/f d1-n2 4") + "lease rai/g d1-n2 4 rai/e\n", BIG)
    assert told(decision) == "reserve NoCapacity at 7200 exact lacks 8"


# F1 (c)


def test_plan_known_end_is_exact_with_slice_and_payers() -> None:
    decision = planned(NODE + RICH + TIMED, BIG)
    assert told(decision) == "reserve NoCapacity at 7200 exact lacks 8"
    assert (decision.width, places(decision.seats), pays(decision.seats)) == (
        8,
        ["0 d1-n1 8 Active"],
        ["rai/e 8 owned"],
    )


def test_plan_window_that_opens_is_exact() -> None:
    decision = planned(NODE + "budget rai org:ai:rai\nenv rai/e 8 from=600\n", BIG)
    assert told(decision) == "reserve WindowClosed at 600 exact"


def test_plan_window_that_closes_before_the_end_of_the_other_is_not_used() -> None:
    text = NODE + TIMED + "budget rai org:ai:rai\nenv rai/e 8\nbudget ai org:ai\nenv ai/e 8 until=7200\n"
    decision = planned(text, BIG)
    assert pays(decision.seats) == ["rai/e 8 owned"]


def test_plan_budget_full_of_timed_work_is_exact() -> None:
    """F1 (c) comes before (d): nobody can pay now, but it is known when somebody can."""
    text = TWO + "budget rai org:ai:rai\nenv rai/e 8\n" + TIMED
    assert told(planned(text, BIG)) == "reserve ConcurrencyCap at 7200 exact"


def test_plan_waits_for_the_end_of_an_earlier_promise() -> None:
    text = NODE + RICH + "run rai/later 8 per=8 duration=3600\nreserve rai/later at=1800 nodes=d1-n1:8 pays=rai/e:8\n"
    assert told(planned(text, BIG)) == "reserve NoCapacity at 5400 exact lacks 8"


def test_plan_pods_not_visible_is_never_exact() -> None:  # section 7
    world = replace(snapshot(NODE + RICH + TIMED), pods_visible=False)
    decision = plan_run(world, run_of(BIG), 0)
    assert (decision.earliest_start, decision.confidence) == (7200, None)


def test_plan_exact_start_is_one_the_planner_keeps() -> None:
    """The forecast is no guess: at that instant, with those leases closed, the same run starts."""
    text = TWO + RICH + "run rai/a 8 per=8 duration=5400\nlease rai/a d1-n1 8 rai/e\n"
    text += "run rai/b 8 per=8 duration=9000\nlease rai/b d1-n2 8 rai/e\n"
    decision = planned(text, "rai/big 16 per=8")
    assert decision.earliest_start == 5400
    ended = text.replace("lease rai/a d1-n1 8 rai/e", "lease rai/a d1-n1 8 rai/e end=1800")
    ended = ended.replace("lease rai/b d1-n2 8 rai/e", "lease rai/b d1-n2 8 rai/e end=5400")
    assert told(planned(ended, "rai/big 16 per=8", now=5400)) == "start"
    half = ended.replace("end=5400", "")
    assert planned(half, "rai/big 16 per=8", now=5399).verdict is Verdict.RESERVE


# F1 (d)


def test_plan_nobody_can_pay_is_blocked_and_says_for_whom_it_waits() -> None:
    decision = planned(TWO + "budget rai org:ai:rai\nenv rai/e 8\n" + FULL, BIG)
    assert told(decision) == "reserve ConcurrencyCap"
    assert [(share.payer.name, share.gpus) for share in decision.waits_for] == [("rai/e", 8)]
    assert (decision.seats, decision.cuts, decision.lottery) == ((), (), None)


def test_plan_nobody_can_pay_and_gpus_missing_too_is_blocked_with_the_deficit() -> None:
    decision = planned(NODE + "budget rai org:ai:rai\nenv rai/e 8\n" + FULL, BIG)
    assert told(decision) == "reserve ConcurrencyCap lacks 8"


def test_plan_strict_queue_nobody_passes_an_older_blocked_run() -> None:
    text = "nodes us-west/a/d1 3x8\nbudget rai org:ai:rai\nenv rai/e 16 fifo=strict\n" + FULL
    text += "run rai/wide 16 per=8\nreserve rai/wide pays=rai/e:16\n"
    assert told(planned(text, BIG)) == "reserve Queued"


def test_plan_strict_queue_the_oldest_itself_starts_when_the_budget_allows() -> None:
    text = "nodes us-west/a/d1 3x8\nbudget rai org:ai:rai\nenv rai/e 16 fifo=strict\n"
    text += "run rai/wide 16 per=8\nreserve rai/wide pays=rai/e:16 made=-60\n"
    text += "run rai/next 8 per=8\nreserve rai/next pays=rai/e:8 made=-30\n"
    assert told(replanned(text, "rai/wide")) == "start"
    assert told(replanned(text, "rai/next")) == "reserve Queued"


# F1 (e)


def test_plan_otherwise_needs_cuts_in_a_quarter_of_an_hour() -> None:
    decision = planned(NODE + RICH + FULL, BIG)
    assert told(decision) == "reserve NoCapacity at 900 needs-cuts lacks 8"
    assert cuts(decision) == ["RandomPreempt rai/old - 8?"]
    assert decision.lottery is not None
    assert decision.lottery.provisional


def test_plan_nobody_could_yield_needs_cuts_and_names_none() -> None:  # R5
    decision = planned(NODE + RICH + "pod kube/foreign d1-n1 8\n", BIG)
    assert told(decision) == "reserve NoCapacity at 900 needs-cuts lacks 8"
    assert (decision.cuts, decision.lottery, decision.seats) == ((), None, ())


# F2

PROMISED = NODE + RICH + FULL + "run rai/big 8 per=8\nreserve rai/big at=900 nodes=d1-n1:8 pays=rai/e:8 made=0\n"


def test_plan_again_keeps_a_promise_of_cuts() -> None:
    decision = replanned(PROMISED, "rai/big", now=300)
    assert told(decision) == "reserve NoCapacity at 900 needs-cuts lacks 8"
    assert cuts(decision) == ["RandomPreempt rai/old - 8?"]


def test_plan_again_when_overdue_keeps_the_promise_of_cuts() -> None:
    assert told(replanned(PROMISED, "rai/big", now=5000)) == "reserve NoCapacity at 900 needs-cuts lacks 8"


def test_plan_again_an_exact_time_later_than_the_promised_cuts_is_not_taken() -> None:
    text = PROMISED.replace("run rai/old 8 per=8", "run rai/old 8 per=8 duration=10800")
    assert told(replanned(text, "rai/big", now=300)) == "reserve NoCapacity at 900 needs-cuts lacks 8"


def test_plan_again_earlier_is_taken() -> None:
    text = NODE + RICH + TIMED + "run rai/big 8 per=8\nreserve rai/big at=9000 nodes=d1-n1:8 pays=rai/e:8 made=0\n"
    assert told(replanned(text, "rai/big", now=300)) == "reserve NoCapacity at 7200 exact lacks 8"


def test_plan_again_exact_promise_stays_exact_in_its_slice() -> None:
    text = TWO + RICH + TIMED + "run rai/b 8 per=8 duration=10800\nlease rai/b d1-n2 8 rai/e\n"
    text += "run rai/big 8 per=8\nreserve rai/big at=7200 nodes=d1-n2:8 pays=rai/e:8 made=0\n"
    decision = replanned(text, "rai/big", now=300)
    assert told(decision) == "reserve NoCapacity at 7200 exact lacks 8"
    assert places(decision.seats) == ["0 d1-n2 8 Active"]


def test_plan_again_inputs_changed_for_the_worse_is_later_and_says_why() -> None:
    text = NODE + RICH + TIMED + "run rai/big 8 per=8\nreserve rai/big at=3600 nodes=d1-n1:8 pays=rai/e:8 made=0\n"
    decision = replanned(text, "rai/big", now=300)
    assert told(decision) == "reserve NoCapacity at 7200 exact lacks 8"
    assert "1970-01-01T01:00:00Z" in decision.message
    assert "NoCapacity" in decision.message


def test_plan_again_room_came_free_starts_before_the_promise() -> None:
    text = NODE + RICH + "run rai/big 8 per=8\nreserve rai/big at=7200 nodes=d1-n1:8 pays=rai/e:8\n"
    assert told(replanned(text, "rai/big")) == "start"


def test_plan_due_promise_starts_in_its_own_slice() -> None:
    """Best fit would take d1-n1; the promise holds d1-n2."""
    text = TWO + RICH + "run rai/big 8 per=8\nreserve rai/big at=0 nodes=d1-n2:8 pays=rai/e:8\n"
    assert places(replanned(text, "rai/big").seats) == ["0 d1-n2 8 Active"]
    early = text.replace("at=0", "at=60")
    assert places(replanned(early, "rai/big").seats) == ["0 d1-n1 8 Active"]


def test_plan_due_promise_whose_slice_is_lost_starts_elsewhere() -> None:
    text = TWO + RICH + FULL + "run rai/big 8 per=8\nreserve rai/big at=0 nodes=d1-n1:8 pays=rai/e:8\n"
    assert places(replanned(text, "rai/big").seats) == ["0 d1-n2 8 Active"]


# F3


def test_plan_backfill_that_ends_in_time_starts_in_the_promised_slice() -> None:
    text = NODE + RICH + "run rai/later 8 per=8\nreserve rai/later at=3600 nodes=d1-n1:8 pays=rai/e:8\n"
    assert told(planned(text, BIG + " duration=3600")) == "start"


def test_plan_endless_work_never_backfills_and_cuts_nobody_who_only_waits() -> None:
    text = NODE + RICH + "run rai/later 8 per=8\nreserve rai/later at=999999 nodes=d1-n1:8 pays=rai/e:8\n"
    decision = planned(text, BIG)
    assert told(decision) == "reserve NoCapacity at 900 needs-cuts lacks 8"
    assert decision.cuts == ()


def test_plan_opportunistic_work_fills_a_promised_slice() -> None:
    text = NODE + RICH + "run rai/later 8 per=8\nreserve rai/later at=3600 nodes=d1-n1:8 pays=rai/e:8\n"
    assert places(planned(text, BIG + " opportunistic").seats) == ["0 d1-n1 8 Borrowed"]


# A run that holds leases


def test_plan_running_malleable_run_plans_its_growth() -> None:  # E2
    text = "nodes us-west/a/d1 3x8\n" + RICH + "run rai/m 24 per=8 min=8 max=24 step=8\nlease rai/m d1-n1 8 rai/e\n"
    decision = replanned(text, "rai/m")
    assert (told(decision), decision.width, places(decision.seats)) == ("start", 16, ["1 d1-n2 8 Active"])


def test_plan_running_fixed_run_says_none() -> None:
    decision = replanned(NODE + RICH + FULL, "rai/old")
    assert (told(decision), decision.width, decision.cuts) == ("none", 8, ())


# The trace


def test_plan_trace_of_every_reserve_rebuilds_its_slice() -> None:
    run = run_of(BIG)
    fillers = NODE + RICH + "run rai/f 8 per=8 opportunistic\nlease rai/f d1-n1 8 rai/e role=Borrowed\n"
    for text in (
        NODE + RICH + TIMED,
        NODE + RICH + FULL,
        fillers,
        TWO + "budget rai org:ai:rai\nenv rai/e 8\n" + TIMED,
    ):
        decision = plan_run(snapshot(text), run, 0)
        assert decision.seats
        assert replay(snapshot(text), run, decision.trace) == decision.seats


def test_plan_confidence_is_only_said_of_a_promise() -> None:
    assert planned(NODE + RICH, BIG).confidence is None
    assert planned(NODE + RICH + TIMED, BIG).confidence is Confidence.EXACT
