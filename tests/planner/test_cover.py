"""Who pays: C1 to C8, sentence by sentence."""

from __future__ import annotations

from planner.model import Reason
from tests.planner.answers import asked, fits, pays, refused

NODE = "nodes us-west/a/d1 1x8\n"
FLEET = "nodes us-west/a/d1 8x8\n"
OWN = "budget rai org:ai:rai\n"
SIBLING = "budget nlp org:ai:nlp\n"
SPONSOR = "budget mm org:lab:mm\n"


def test_cover_flavor_differs_is_not_asked() -> None:  # C1
    refusal = refused(NODE + OWN + "env rai/a 8 flavor=A100", "rai/t 8")
    assert (refusal.reason, asked(refusal)) == (Reason.NO_ENVELOPE, [])


def test_cover_window_starts_now_pays() -> None:  # C1: start <= now
    assert pays(fits(NODE + OWN + "env rai/e 8 from=0", "rai/t 8").seats) == ["rai/e 8 owned"]


def test_cover_window_not_begun_is_closed() -> None:
    assert refused(NODE + OWN + "env rai/e 8 from=1", "rai/t 8").reason is Reason.WINDOW_CLOSED


def test_cover_window_ends_now_is_closed() -> None:  # C1: now < end
    assert refused(NODE + OWN + "env rai/e 8 until=0", "rai/t 8").reason is Reason.WINDOW_CLOSED


def test_cover_work_taken_on_outlasts_the_window_pays() -> None:
    assert fits(NODE + OWN + "env rai/e 8 until=1", "rai/t 8 duration=36000").width == 8


def test_cover_other_location_pays_after_the_nearer() -> None:  # C1, C3 (1) (3)
    text = FLEET + OWN + "env rai/east 8 region=us-east\nenv rai/west 8 region=us-west\n" + SIBLING + "env nlp/e 8"
    fit = fits(text, "rai/t 24 per=8")
    assert asked(fit) == [
        "C3.1 rai/west 24>8 ConcurrencyCap",
        "C3.2 nlp/e 16>8 ConcurrencyCap",
        "C3.3 rai/east 8>8",
    ]


def test_cover_concurrency_counts_open_leases() -> None:  # C2
    text = FLEET + OWN + "env rai/e 12\nrun rai/old 8\nlease rai/old d1-n1 8 rai/e"
    refusal = refused(text, "rai/t 8")
    assert (refusal.reason, refusal.trace[-1].had, refusal.trace[-1].cap) == (Reason.CONCURRENCY_CAP, 4, 12)


def test_cover_hours_left_divide_by_duration() -> None:  # C2: 20 h / 3 h = 6 whole GPUs
    text = NODE + OWN + "env rai/e 8 hours=20"
    assert refused(text, "rai/t 8 duration=10800").trace[-1].had == 6
    assert fits(text, "rai/t 6 duration=10800").width == 6


def test_cover_hours_without_duration_count_the_rest_of_the_window() -> None:
    text = NODE + OWN + "env rai/e 8 hours=8 until=7200"
    assert refused(text, "rai/t 8").trace[-1].had == 4


def test_cover_hours_without_duration_or_window_count_a_day() -> None:
    text = NODE + OWN + "env rai/e 8 hours=47"
    assert (refused(text, "rai/t 8").trace[-1].had, fits(text, "rai/t 1").width) == (1, 1)


def test_cover_equal_limits_name_the_first() -> None:  # C2
    hours = "env rai/e 4 hours=4\ncap rai/c e gpus=4"
    assert refused(NODE + OWN + hours, "rai/t 8 duration=3600").reason is Reason.CONCURRENCY_CAP
    tighter = "env rai/e 5 hours=4\ncap rai/c e gpus=4"
    assert refused(NODE + OWN + tighter, "rai/t 8 duration=3600").reason is Reason.GPU_HOUR_CAP
    cap = "env rai/e 5 hours=5\ncap rai/c e gpus=4"
    assert refused(NODE + OWN + cap, "rai/t 8 duration=3600").reason is Reason.AGGREGATE_CAP


def test_cover_aggregate_cap_counts_takes_of_this_plan() -> None:  # C2
    text = FLEET + OWN + "env rai/a 8\nenv rai/b 8\ncap rai/both a,b gpus=12"
    assert pays(fits(text, "rai/t 12").seats) == ["rai/a 8 owned", "rai/b 4 owned"]
    assert asked(refused(text, "rai/t 16"))[-1] == "C3.1 rai/b 8>4 AggregateCap"


def test_cover_aggregate_hours_count_all_its_envelopes() -> None:
    text = FLEET + OWN + "env rai/a 8\nenv rai/b 8\ncap rai/both a,b hours=20"
    assert pays(fits(text, "rai/t 10 duration=7200").seats) == ["rai/a 8 owned", "rai/b 2 owned"]


def test_cover_every_cap_that_names_it_counts() -> None:
    text = FLEET + OWN + "env rai/a 8\ncap rai/x a gpus=6\ncap rai/y a gpus=5\ncap rai/z b gpus=1"
    assert refused(text, "rai/t 8").trace[-1].had == 5


def test_cover_order_siblings_then_parents_then_elsewhere() -> None:  # C3 (1) (2) (3)
    text = FLEET + OWN + "env rai/far 4 region=east\nenv rai/near 4\n"
    text += "budget zoo org:ai:zoo\nenv zoo/e 4\n" + SIBLING + "env nlp/e 4\nenv nlp/far 4 region=east\n"
    text += "budget ai org:ai\nenv ai/e 4\nenv ai/far 4 region=east"
    order = [line.rsplit(" ")[:2] for line in asked(fits(text, "rai/t 28"))]
    assert order == [
        ["C3.1", "rai/near"],
        ["C3.2", "nlp/e"],
        ["C3.2", "zoo/e"],
        ["C3.2", "ai/e"],
        ["C3.3", "rai/far"],
        ["C3.3", "nlp/far"],
        ["C3.3", "ai/far"],
    ]


def test_cover_order_of_lenders_sponsors_their_parents_cousins() -> None:  # C3 (4) (5) (6)
    text = FLEET + SPONSOR + "env mm/e 4 lends=org:ai:*\nbudget b org:lab:b\nenv b/e 4 lends=org:*\n"
    text += "budget lab org:lab\nenv lab/e 4 lends=org:*\nbudget fold org:bio:fold\nenv fold/e 4 lends=org:ai:rai\n"
    text += "budget bio org:bio\nenv bio/e 4 lends=*"
    fit = fits(text, "rai/t 16 sponsors=org:lab:mm,org:lab:b")
    assert asked(fit) == [
        "C3.4 mm/e 16>4 ConcurrencyCap",
        "C3.4 b/e 12>4 ConcurrencyCap",
        "C3.5 lab/e 8>4 ConcurrencyCap",
        "C3.6 fold/e 4>4",
    ]


def test_cover_lender_same_location_before_others_of_the_same_owner() -> None:  # C3
    text = FLEET + SPONSOR + "env mm/a 4 lends=* region=east\nenv mm/b 4 lends=*\nbudget b org:lab:b\nenv b/e 4 lends=*"
    fit = fits(text, "rai/t 12 sponsors=org:lab:mm,org:lab:b")
    assert pays(fit.seats) == ["mm/b 4 borrowed", "mm/a 4 borrowed", "b/e 4 borrowed"]


def test_cover_parents_and_cousins_that_do_not_admit_are_not_asked() -> None:
    text = FLEET + SPONSOR + "env mm/e 4 lends=*\nbudget lab org:lab\nenv lab/e 64 lends=org:x\n"
    text += "budget fold org:bio:fold\nenv fold/e 64"
    refusal = refused(text, "rai/t 8 sponsors=org:lab:mm")
    assert asked(refusal) == ["C3.4 mm/e 8>4 ConcurrencyCap"]


def test_cover_named_sponsor_says_no_and_is_reported() -> None:  # C3
    text = FLEET + OWN + "env rai/e 4\n" + SPONSOR + "env mm/e 64 lends=org:x"
    assert asked(refused(text, "rai/t 8 sponsors=org:lab:mm"))[-1] == "C3.4 mm/e 4>0 ACLDenied"


def test_cover_spare_is_located_in_its_own_domain() -> None:  # C3
    text = "nodes west/a/d1 1x8\nnodes west/a/d2 1x8\n" + OWN + "env rai/x 64 fabric=d2\nenv rai/y 64 fabric=d1"
    assert pays(fits(text, "rai/t 8 per=8 spares=1").seats) == ["rai/y 8 owned", "rai/x 8 owned"]


def test_cover_family_needs_no_lending_policy_and_no_lending_cap() -> None:  # C4
    text = FLEET + SIBLING + "env nlp/e 8 lends=org:ai:rai lend-max=2"
    assert pays(fits(text, "rai/t 8").seats) == ["nlp/e 8 shared"]


def test_cover_sharing_none_serves_its_owner_and_its_borrowers_only() -> None:  # C4
    closed = FLEET + SIBLING + "env nlp/e 8 sharing=none lends=org:ai:rai"
    assert pays(fits(closed, "nlp/t 8 owner=org:ai:nlp").seats) == ["nlp/e 8 owned"]
    assert pays(fits(closed, "rai/t 8 sponsors=org:ai:nlp").seats) == ["nlp/e 8 borrowed"]
    refusal = refused(closed, "rai/t 8")
    assert (refusal.reason, refusal.trace[-1].act) == (Reason.NO_ENVELOPE, "passed")


def test_cover_no_sponsor_named_only_the_family_pays() -> None:  # C5
    text = FLEET + OWN + "env rai/e 4\n" + SPONSOR + "env mm/e 64 lends=*"
    refusal = refused(text, "rai/t 8 borrow=any")
    assert asked(refusal) == ["C3.1 rai/e 8>4 ConcurrencyCap"]


def test_cover_sponsors_named_but_borrowing_not_allowed() -> None:  # C5, C7
    text = FLEET + OWN + "env rai/e 4\n" + SPONSOR + "env mm/e 64 lends=*"
    assert refused(text, "rai/t 8 sponsors=org:lab:mm borrows=no").reason is Reason.BORROW_NOT_ALLOWED


def test_cover_glob_star_crosses_colons() -> None:  # C5, section 4
    text = FLEET + SPONSOR + "env mm/e 64 lends=org:*"
    assert pays(fits(text, "a/t 8 owner=org:ai:rai:sys sponsors=org:lab:mm").seats) == ["mm/e 8 borrowed"]
    exact = FLEET + SPONSOR + "env mm/e 64 lends=org:ai"
    assert refused(exact, "a/t 8 owner=org:ai:rai sponsors=org:lab:mm").reason is Reason.ACL_DENIED


def test_cover_empty_list_lends_to_nobody() -> None:
    text = FLEET + SPONSOR + "env mm/e 64 lends="
    assert refused(text, "rai/t 8 sponsors=org:lab:mm").reason is Reason.ACL_DENIED


def test_cover_lending_caps_count_this_plan_and_loans_held() -> None:  # C5
    text = FLEET + SPONSOR + "env mm/e 64 lends=* lend-max=8\nrun rai/old 3\n"
    text += "lease rai/old d1-n1 3 mm/e class=borrowed\nlease mm/own d1-n2 8 mm/e"
    refusal = refused(text, "rai/t 8 group=4 sponsors=org:lab:mm")
    assert asked(refusal) == ["C3.4 mm/e 4>4", "C3.4 mm/e 4>1 LendingCap"]


def test_cover_lending_hours_bind_apart_from_the_envelope() -> None:
    text = FLEET + SPONSOR + "env mm/e 64 hours=1000 lends=* lend-hours=10\nsettled mm/e 7200 class=borrowed"
    assert refused(text, "rai/t 8 duration=7200 sponsors=org:lab:mm").trace[-1].had == 4


def test_cover_family_and_sponsor_is_charged_one_headroom() -> None:  # C5
    text = FLEET + SIBLING + "env nlp/e 6 lends=*"
    refusal = refused(text, "rai/t 8 sponsors=org:ai:nlp")
    assert asked(refusal) == ["C3.2 nlp/e 8>6 ConcurrencyCap", "C3.4 nlp/e 2>0 ConcurrencyCap"]


def test_cover_borrow_limit_counts_spares_and_groups_together() -> None:  # C6
    text = FLEET + SPONSOR + "env mm/e 64 lends=*"
    assert fits(text, "rai/t 16 per=8 spares=1 sponsors=org:lab:mm borrow=24").width == 16
    refusal = refused(text, "rai/t 16 per=8 spares=1 sponsors=org:lab:mm borrow=23")
    assert (refusal.reason, refusal.trace[-1].had) == (Reason.BORROW_LIMIT, 7)


def test_cover_last_source_asked_names_the_reason() -> None:  # C7
    text = FLEET + OWN + "env rai/e 4\n" + SPONSOR + "env mm/e 64 lends=org:x\nbudget b org:lab:b\nenv b/e 2 lends=*"
    assert refused(text, "rai/t 8 sponsors=org:lab:mm,org:lab:b").reason is Reason.CONCURRENCY_CAP
    assert refused(text, "rai/t 8 sponsors=org:lab:b,org:lab:mm").reason is Reason.ACL_DENIED


def test_cover_full_envelope_is_never_reported_as_missing() -> None:  # C7
    text = FLEET + OWN + "env rai/e 4"
    refusal = refused(text, "rai/t 8 sponsors=org:lab:nobody")
    assert refusal.reason is Reason.CONCURRENCY_CAP
    assert asked(refusal)[-1] == "C3.4 org:lab:nobody 4>0 NoEnvelope"


def test_cover_closed_window_of_a_lender_is_named() -> None:
    text = FLEET + SPONSOR + "env mm/e 64 lends=* until=-1"
    assert refused(text, "rai/t 8 sponsors=org:lab:mm").reason is Reason.WINDOW_CLOSED


def test_cover_whole_pods_first() -> None:  # C8: own 6, sibling 10, two pods of 4
    text = NODE + OWN + "env rai/e 6\n" + SIBLING + "env nlp/e 10"
    assert pays(fits(text, "rai/t 8 per=4").seats) == ["rai/e 4 owned", "nlp/e 4 shared"]


def test_cover_to_the_last_gpu_only_if_whole_pods_do_not_cover() -> None:  # C8
    text = NODE + OWN + "env rai/e 6\n" + SIBLING + "env nlp/e 2"
    fit = fits(text, "rai/t 8 per=4")
    ranks = [(seat.rank, seat.gpus, seat.payer.budget) for seat in fit.seats]
    assert ranks == [(0, 4, "rai"), (1, 2, "rai"), (1, 2, "nlp")]
    assert [(step.rule, step.had) for step in fit.trace if step.rule == "C8"] == [("C8", 4)]


def test_cover_reciprocal_lending_is_allowed() -> None:  # C8
    text = FLEET + OWN + "env rai/e 8 lends=org:lab:mm\n" + SPONSOR + "env mm/e 8 lends=org:ai:rai\n"
    text += "lease mm/x d1-n1 8 rai/e class=borrowed"
    assert pays(fits(text, "rai/t 8 sponsors=org:lab:mm").seats) == ["mm/e 8 borrowed"]


def test_cover_strict_queue_passes_the_envelope_over() -> None:  # F1 (d)
    text = FLEET + OWN + "env rai/e 64 fifo=strict\nrun rai/first 200\nreserve rai/first pays=rai/e:1\n"
    refusal = refused(text, "rai/t 8")
    assert (refusal.reason, refusal.funding) == (Reason.QUEUED, True)
    assert pays(fits(text + SIBLING + "env nlp/e 8", "rai/t 8").seats) == ["nlp/e 8 shared"]
    assert fits(text.replace("fifo=strict", ""), "rai/t 8").width == 8


def test_cover_strict_queue_lets_the_oldest_through() -> None:
    text = FLEET + OWN + "env rai/e 64 fifo=strict\nrun rai/a 8\nrun rai/b 8\n"
    text += "reserve rai/a made=-50 pays=rai/e:8\nreserve rai/b made=-60 pays=rai/e:8"
    assert fits(text, "rai/b 8").width == 8
    assert refused(text, "rai/a 8").reason is Reason.QUEUED


def test_cover_strict_queue_lets_an_older_promise_through() -> None:
    text = FLEET + OWN + "env rai/e 64 fifo=strict\nrun rai/a 8\nrun rai/b 8\n"
    text += "reserve rai/a made=-50 pays=rai/e:8\nreserve rai/b made=-60 at=0 pays=rai/e:8"
    assert fits(text, "rai/b 8").width == 8


def test_cover_blocked_run_waits_for_those_that_were_full() -> None:  # F1 (d)
    text = FLEET + OWN + "env rai/e 4\n" + SIBLING + "env nlp/e 1\n" + SPONSOR + "env mm/e 64 lends=org:x"
    refusal = refused(text, "rai/t 8 sponsors=org:lab:mm")
    assert [share.payer.name for share in refusal.waits_for] == ["nlp/e", "rai/e"]
