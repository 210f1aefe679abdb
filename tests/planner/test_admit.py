"""Whether a run fits now: widths (P5), growth (E2), fillers (O1), a promised slice (F3), the next placement."""

from __future__ import annotations

from planner.admit import Fit, Refusal, could_pay, fit, fit_growth
from planner.model import Reason, Role
from planner.trace import message_of
from tests.planner.answers import asked, fits, pays, places, refused
from tests.planner.worlds import run_of, world

FLEET = "nodes west/a/d1 4x8\n"
OWN = "budget rai org:ai:rai\n"


def grown(text: str, run: str, gpus: int) -> Fit:
    answer = fit_growth(world(text), run_of(run), gpus)
    assert isinstance(answer, Fit), answer
    return answer


def test_width_of_a_fixed_run_is_all_or_nothing() -> None:  # P5
    assert refused(FLEET + OWN + "env rai/e 16", "rai/t 24").deficit_gpus == 0
    assert fits(FLEET + OWN + "env rai/e 24", "rai/t 24").width == 24


def test_width_of_a_malleable_run_is_the_largest_that_cover_allows() -> None:  # P5
    run = "rai/t 32 per=2 min=8 max=40 step=8 desired=32"
    assert [fits(FLEET + OWN + f"env rai/e {gpus}", run).width for gpus in (8, 15, 16, 31, 64)] == [8, 8, 16, 24, 32]


def test_width_of_a_malleable_run_is_the_largest_that_pack_allows() -> None:  # P5
    run = "rai/t 32 per=8 min=8 max=64 step=8 desired=40"
    assert fits(FLEET + OWN + "env rai/e 64", run).width == 32
    assert fits(FLEET + OWN + "env rai/e 64\nlease x/y d1-n1 1 z/z", run).width == 24


def test_width_below_the_minimum_is_refused_for_the_minimum() -> None:
    refusal = refused(FLEET + OWN + "env rai/e 7", "rai/t 32 min=8 max=32 step=8")
    assert (refusal.reason, asked(refusal)) == (Reason.CONCURRENCY_CAP, ["C3.1 rai/e 8>7 ConcurrencyCap"])


def test_width_is_aligned_to_steps_above_the_minimum() -> None:
    run = "rai/t 28 min=4 max=28 step=8 desired=28 group=4"
    assert [fits(FLEET + OWN + f"env rai/e {gpus}", run).width for gpus in (11, 12, 19, 20, 27, 28)] == [
        4,
        12,
        12,
        20,
        20,
        28,
    ]


def test_width_desired_between_steps_is_rounded_down() -> None:
    assert fits(FLEET + OWN + "env rai/e 64", "rai/t 28 min=8 max=32 step=8 desired=28").width == 24
    assert fits(FLEET + OWN + "env rai/e 64", "rai/t 8 min=8 max=32 step=8 desired=4").width == 8


def test_width_of_many_steps_is_found_by_bisection() -> None:
    text = "nodes west/a/d1 100x8\n" + OWN + "env rai/e 333"
    assert fits(text, "rai/t 800 min=8 max=800 step=1 group=1 desired=800").width == 333


def test_group_size_of_a_malleable_run_is_its_step() -> None:  # section 4
    fit = fits(FLEET + OWN + "env rai/e 64", "rai/t 24 per=4 min=8 max=24 step=8")
    assert [group.index for group in fit.groups] == [0, 1, 2]


def test_width_asked_for_is_tried_alone() -> None:
    here = world(FLEET + OWN + "env rai/e 16")
    run = run_of("rai/t 32 min=8 max=32 step=8")
    answers = [fit(here, run, width=width) for width in (16, 24)]
    assert [isinstance(answer, Fit) for answer in answers] == [True, False]


def test_next_placement_is_tried_when_nobody_covers_the_best() -> None:
    # Two caps overlap: paid from b first both are used up; in d2 the order of asking is a, c, and all is paid.
    text = "nodes west/a/d1 1x8\nnodes west/a/d2 2x8\n" + OWN
    text += "env rai/a 4 fabric=d2\nenv rai/b 4 fabric=d1\nenv rai/c 4 fabric=d2\ncap rai/x a,b gpus=4\ncap rai/y b,c gpus=4"
    fit = fits(text, "rai/t 8 per=4")
    assert (pays(fit.seats), fit.groups[0].domain.fabric) == (["rai/a 4 owned", "rai/c 4 owned"], "d2")


def test_pack_and_cover_both_short_names_the_cap_and_what_pack_lacks() -> None:  # R1, F1 (d)
    text = FLEET + OWN + "env rai/e 30\nlease rai/old d1-n1 8 rai/e"
    refusal = refused(text, "rai/t 32 per=8")
    assert (refusal.reason, refusal.funding, refusal.deficit_gpus) == (Reason.CONCURRENCY_CAP, True, 8)


def test_pack_short_alone_is_no_matter_of_funding() -> None:
    text = FLEET + OWN + "env rai/e 64\nlease rai/old d1-n1 8 rai/e"
    refusal = refused(text, "rai/t 32 per=8")
    assert (refusal.reason, refusal.funding, refusal.deficit_gpus) == (Reason.NO_CAPACITY, False, 8)


def test_fleet_that_could_never_hold_it_is_no_topology() -> None:  # C7
    assert refused(FLEET + OWN + "env rai/e 64", "rai/t 40 per=8").reason is Reason.NO_TOPOLOGY
    assert refused(FLEET + OWN + "env rai/e 64", "rai/t 16 per=16").reason is Reason.NO_TOPOLOGY
    assert refused(FLEET + OWN + "env rai/e 64", "rai/t 32 per=8 spares=1").reason is Reason.NO_SPARE_NODE


def test_fleet_without_the_flavor_is_no_topology_and_says_so() -> None:
    refusal = refused(FLEET + OWN + "env rai/e 64 flavor=A100", "rai/t 8 flavor=A100")
    assert (refusal.reason, message_of(refusal.trace)) == (Reason.NO_TOPOLOGY, "A100: need 1, had 0 (NoTopology)")


def test_cordoned_fleet_could_hold_it_later() -> None:  # F1 (a)
    text = "node n1 west/a/d1 8 cordoned\n" + OWN + "env rai/e 64"
    assert refused(text, "rai/t 8").reason is Reason.NO_CAPACITY
    assert isinstance(could_pay(world(text), run_of("rai/t 8")), Fit)


def test_budget_that_could_pay_once_nothing_is_held() -> None:  # F1 (a)
    text = FLEET + OWN + "env rai/e 8 from=100\nlease rai/old d1-n1 8 rai/e"
    here, run = world(text), run_of("rai/t 8")
    answers = [could_pay(here.unused(instant), run) for instant in here.window_starts("H100")]
    assert [isinstance(answer, Fit) for answer in answers] == [False, True]


def test_growth_takes_the_next_indexes_and_its_own_domains() -> None:  # E2, P3
    text = "nodes west/a/d1 4x8\nnodes west/a/d2 1x8\n" + OWN + "env rai/e 64\n"
    run = "rai/t 16 per=4 min=8 max=64 step=8 desired=64"
    text += f"run {run}\nlease rai/t d1-n1 8 rai/e group=0\nlease rai/t d1-n2 8 rai/e group=9"
    fit = grown(text, run, 8)
    assert (fit.width, places(fit.seats)) == (24, ["10 d1-n3 8 Active"])
    assert [seat.rank for seat in fit.seats] == [20, 21]


def test_growth_look_ahead_is_what_is_left_of_the_run() -> None:  # C2
    run = "rai/t 8 per=8 min=8 max=64 step=8 desired=64 duration=7200"
    text = FLEET + OWN + f"env rai/e 64 hours=24\nrun {run}\nlease rai/t d1-n1 8 rai/e start=-3600"
    assert grown(text, run, 8).width == 16
    refusal = fit_growth(world(text), run_of(run), 16)
    assert isinstance(refusal, Refusal)
    assert (refusal.reason, refusal.trace[-1].had) == (Reason.GPU_HOUR_CAP, 0)


def test_growth_counts_the_borrowed_gpus_it_holds() -> None:  # C6
    run = "rai/t 8 per=8 min=8 max=64 step=8 desired=64 sponsors=org:lab:mm borrow=16"
    text = FLEET + "budget mm org:lab:mm\nenv mm/e 64 lends=*\n"
    text += f"run {run}\nlease rai/t d1-n1 8 mm/e class=borrowed"
    assert pays(grown(text, run, 8).seats) == ["mm/e 8 borrowed"]
    refusal = fit_growth(world(text + "\nlease rai/t d1-n2 1 mm/e class=borrowed role=Spare"), run_of(run), 8)
    assert isinstance(refusal, Refusal)
    assert refusal.reason is Reason.BORROW_LIMIT


def test_growth_without_spread_stays_in_its_domain() -> None:  # P2
    run = "rai/t 8 per=8 min=8 max=64 step=8 desired=64 together"
    text = f"nodes west/a/d1 1x8\nnodes west/a/d2 4x8\n{OWN}env rai/e 64\nrun {run}\nlease rai/t d1-n1 8 rai/e"
    refusal = fit_growth(world(text), run_of(run), 8)
    assert isinstance(refusal, Refusal)
    assert refusal.reason is Reason.NO_CAPACITY


def test_filler_has_its_role_on_idle_gpus_too() -> None:  # O1
    text = FLEET + OWN + "env rai/e 0\nlease x/y d1-n4 8 z/z role=Spare"
    fit = fits(text, "rai/f 16 per=8 opportunistic")
    assert places(fit.seats) == ["0 d1-n4 8 Borrowed", "0 d1-n1 8 Borrowed"]


def test_filler_may_sit_where_somebody_is_promised_to_start_later() -> None:  # O1, F3
    text = "nodes west/a/d1 1x8\n" + OWN + "env rai/e 64\nrun rai/later 8\n"
    text += "reserve rai/later at=3600 nodes=d1-n1:8 pays=rai/e:8"
    assert fits(text, "rai/f 8 opportunistic").width == 8
    assert refused(text, "rai/t 8").reason is Reason.NO_CAPACITY


def test_promise_starts_inside_its_own_slice() -> None:  # F3
    text = FLEET + OWN + "env rai/e 16\nrun rai/later 16 per=8\n"
    text += "reserve rai/later at=0 nodes=d1-n3:8,d1-n4:8 pays=rai/e:16"
    here, run = world(text), run_of("rai/later 16 per=8")
    answer = fit(here, run, within=here.reservations[0].groups)
    assert isinstance(answer, Fit)
    assert places(answer.seats) == ["0 d1-n3 8 Active", "0 d1-n4 8 Active"]


def test_promise_with_spares_starts_with_them_off_the_groups_nodes() -> None:
    text = FLEET + OWN + "env rai/e 64\nrun rai/later 8 per=4 spares=1\n"
    text += "reserve rai/later at=0 nodes=d1-n2:4,d1-n3:8 pays=rai/e:12"
    here, run = world(text), run_of("rai/later 8 per=4 spares=1")
    answer = fit(here, run, within=here.reservations[0].groups)
    assert isinstance(answer, Fit)
    assert places(answer.seats) == ["0 d1-n3 8 Active", "0 d1-n2 4 Spare"]


def test_promise_whose_slice_is_taken_does_not_start_in_it() -> None:
    text = FLEET + OWN + "env rai/e 64\nrun rai/later 8 per=8\nlease x/y d1-n2 1 z/z\n"
    text += "reserve rai/later at=0 nodes=d1-n2:8 pays=rai/e:8"
    here, run = world(text), run_of("rai/later 8 per=8")
    refusal = fit(here, run, within=here.reservations[0].groups)
    assert isinstance(refusal, Refusal)
    assert (refusal.reason, refusal.deficit_gpus) == (Reason.NO_CAPACITY, 8)


def test_ranks_number_the_pods_and_slots_the_spares() -> None:
    fit = fits(FLEET + OWN + "env rai/e 64", "rai/t 16 per=4 group=8 spares=1")
    work = [seat.rank for seat in fit.seats if seat.role is Role.ACTIVE]
    slots = [(seat.group, seat.slot) for seat in fit.seats if seat.role is Role.SPARE]
    assert (work, slots) == ([0, 1, 2, 3], [(0, 0), (1, 0)])
