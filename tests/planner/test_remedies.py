"""F4: remedies are computed, not canned."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.admit import Fit, fit
from planner.model import Decision, Run
from planner.plan import plan_run
from planner.remedies import with_sponsor
from tests.planner.verdicts import planned, told
from tests.planner.worlds import run_of, snapshot, world

ONE = "nodes us-west/a/d1 1x8\n"
TWO = "nodes us-west/a/d1 2x8\n"
THREE = "nodes us-west/a/d1 3x8\n"
RICH = "budget rai org:ai:rai\nenv rai/e 100\n"
POOR = "budget rai org:ai:rai\nenv rai/e 8\n"
LENDER = "budget mm org:lab:mm\nenv mm/e 64 lends=org:ai:*\n"


def kinds(decision: Decision) -> list[str]:
    return [remedy.kind for remedy in decision.remedies]


def remedy(decision: Decision, kind: str) -> tuple[str, str, int | None]:
    found = next(each for each in decision.remedies if each.kind == kind)
    return found.message, found.command, found.starts_at


def test_remedies_run_that_starts_needs_none() -> None:
    assert planned(ONE + RICH, "rai/big 8 per=8").remedies == ()


def test_ask_less_is_the_largest_size_that_starts_now() -> None:
    text = THREE + RICH + "run rai/old 4 per=4\nlease rai/old d1-n1 4 rai/e\n"
    assert remedy(planned(text, "rai/big 24 per=4"), "AskLess") == ("ask for 20: starts now", "plan --gpus 20", 0)


def test_ask_less_is_whole_groups() -> None:
    text = THREE + RICH + "run rai/old 4 per=4\nlease rai/old d1-n1 4 rai/e\n"
    assert remedy(planned(text, "rai/big 24 per=4 group=8"), "AskLess")[0] == "ask for 16: starts now"


def test_ask_less_is_not_for_a_malleable_run() -> None:
    text = THREE + RICH + "run rai/old 16 per=8\nlease rai/old d1-n1 8 rai/e\nlease rai/old d1-n2 8 rai/e\n"
    assert "AskLess" not in kinds(planned(text, "rai/big 24 per=8 min=16 max=24 step=8"))


def test_ask_less_nothing_smaller_starts_is_not_offered() -> None:
    text = ONE + RICH + "run rai/old 8 per=8\nlease rai/old d1-n1 8 rai/e\n"
    assert "AskLess" not in kinds(planned(text, "rai/big 8 per=4"))


MALLEABLE = "run rai/train-b 24 per=8 min=8 max=24 step=8\n"
MALLEABLE += "".join(f"lease rai/train-b d1-n{n + 1} 8 rai/e group={n}\n" for n in range(3))


def test_shrink_other_gives_no_more_than_is_needed() -> None:
    decision = planned(THREE + RICH + MALLEABLE, "rai/big 16 per=8")
    assert remedy(decision, "ShrinkOther") == ("shrink train-b by 16: starts now", "shrink train-b --by 16", 0)
    assert remedy(planned(THREE + RICH + MALLEABLE, "rai/big 8 per=8"), "ShrinkOther")[1] == "shrink train-b --by 8"


def test_shrink_other_never_below_its_minimum_is_not_offered() -> None:
    assert "ShrinkOther" not in kinds(planned(THREE + RICH + MALLEABLE, "rai/big 24 per=8"))


def test_shrink_other_is_whole_steps() -> None:
    """Groups of 8, steps of 16: a desired width of 16 would not be legal, so 16 leave for the 8 that are needed."""
    text = THREE + RICH + MALLEABLE.replace("step=8", "step=16 group=8")
    assert remedy(planned(text, "rai/big 8 per=8"), "ShrinkOther")[1] == "shrink train-b --by 16"


def test_shrink_other_in_another_namespace_says_so() -> None:
    text = THREE + RICH + MALLEABLE.replace("rai/train-b", "bio/train-b")
    message, command, _ = remedy(planned(text, "rai/big 8 per=8"), "ShrinkOther")
    assert (message, command) == ("shrink bio/train-b by 8: starts now", "shrink train-b --by 8 -n bio")


def test_shrink_other_least_first_then_by_key() -> None:
    text = "nodes us-west/a/d1 4x8\n" + RICH
    for name, nodes in (("b", (1, 2)), ("a", (3, 4))):
        text += f"run rai/{name} 16 per=8 min=8 max=16 step=8\n"
        text += "".join(f"lease rai/{name} d1-n{n} 8 rai/e group={i}\n" for i, n in enumerate(nodes))
    assert remedy(planned(text, "rai/big 8 per=8"), "ShrinkOther")[1] == "shrink a --by 8"


def test_shrink_other_frees_a_payer_too() -> None:
    text = "nodes us-west/a/d1 4x8\nbudget rai org:ai:rai\nenv rai/e 24\n" + MALLEABLE
    decision = planned(text, "rai/big 8 per=8")
    assert told(decision) == "reserve ConcurrencyCap"
    assert remedy(decision, "ShrinkOther")[0] == "shrink train-b by 8: starts now"


def test_add_sponsor_says_what_it_adds() -> None:
    decision = planned(TWO + POOR + LENDER, "rai/big 16 per=8")
    assert told(decision) == "refuse ConcurrencyCap"
    expected = ("sponsor org:lab:mm adds 8: starts now", "plan --sponsor org:lab:mm", 0)
    assert remedy(decision, "AddSponsor") == expected


def test_add_sponsor_that_lends_to_others_only_is_not_offered() -> None:
    text = TWO + POOR + LENDER.replace("org:ai:*", "org:bio")
    assert "AddSponsor" not in kinds(planned(text, "rai/big 16 per=8"))


def test_add_sponsor_at_a_known_later_time() -> None:
    text = TWO + POOR + LENDER + "run rai/old 8 per=8 duration=11100\nlease rai/old d1-n1 8 mm/e class=borrowed\n"
    decision = planned(text, "rai/big 16 per=8")
    assert remedy(decision, "AddSponsor") == (
        "sponsor org:lab:mm adds 8: starts 02:05",
        "plan --sponsor org:lab:mm",
        7500,
    )


def test_allow_borrow_where_sponsors_are_named() -> None:
    run = "rai/big 16 per=8 sponsors=org:lab:mm borrows=no"
    decision = planned(TWO + POOR + LENDER, run)
    assert told(decision) == "refuse BorrowNotAllowed"
    assert remedy(decision, "AllowBorrow") == ("allow borrowing: starts now", "plan --sponsor org:lab:mm", 0)
    assert "AllowBorrow" not in kinds(planned(TWO + POOR + LENDER.replace("lends=", "lend-max=4 lends="), run))


def test_raise_borrow_limit_to_what_is_needed() -> None:
    run = "rai/big 16 per=8 sponsors=org:lab:mm borrow=4"
    decision = planned(TWO + POOR + LENDER, run)
    assert told(decision) == "refuse BorrowLimit"
    expected = ("raise maxBorrowGPUs to 8: starts now", "plan --max-borrow 8", 0)
    assert remedy(decision, "RaiseBorrowLimit") == expected


def test_raise_borrow_limit_that_the_lender_would_not_meet_is_not_offered() -> None:
    run = "rai/big 16 per=8 sponsors=org:lab:mm borrow=4"
    text = TWO + POOR + LENDER.replace("lends=", "lend-max=4 lends=")
    assert "RaiseBorrowLimit" not in kinds(planned(text, run))


def test_allow_spread() -> None:
    text = "nodes us-west/a/d1 1x8\nnodes us-west/a/d2 1x8\n" + RICH
    decision = planned(text, "rai/big 16 per=8 group=8 together")
    assert told(decision) == "refuse NoTopology"
    assert remedy(decision, "AllowSpread") == ("let groups spread over domains: starts now", "plan --spread", 0)


def test_drop_spares() -> None:
    decision = planned(ONE + RICH, "rai/big 8 per=8 spares=1")
    assert told(decision) == "refuse NoSpareNode"
    assert remedy(decision, "DropSpares") == ("go without spares: starts now", "plan --spares 0", 0)


def test_set_duration_ends_before_the_promise() -> None:
    text = ONE + RICH + "run rai/later 8 per=8\nreserve rai/later at=5400 nodes=d1-n1:8 pays=rai/e:8\n"
    decision = planned(text, "rai/big 8 per=8")
    expected = ("set a duration of 1h30m: starts now", "plan --duration 1h30m", 0)
    assert remedy(decision, "SetDuration") == expected


def test_set_duration_that_the_gpu_hours_left_pay_for() -> None:
    decision = planned(ONE + "budget rai org:ai:rai\nenv rai/e 8 hours=40\n", "rai/big 8 per=8")
    assert told(decision) == "refuse GPUHourCap"
    assert remedy(decision, "SetDuration")[1] == "plan --duration 5h"


def test_wait_where_the_forecast_is_exact() -> None:
    text = ONE + RICH + "run rai/old 8 per=8 duration=10800\nlease rai/old d1-n1 8 rai/e\n"
    expected = ("wait: starts 02:00", "plan --at 1970-01-01T02:00:00Z", 7200)
    assert remedy(planned(text, "rai/big 8 per=8"), "Wait") == expected
    endless = text.replace(" duration=10800", "")
    assert kinds(planned(endless, "rai/big 8 per=8")) == []


CHANGES = {
    "AskLess": lambda run, word: replace(run, gpus_total=int(word)),
    "AddSponsor": with_sponsor,
    "AllowBorrow": with_sponsor,
    "RaiseBorrowLimit": lambda run, word: replace(run, funding=replace(run.funding, borrow_gpus_max=int(word))),
    "AllowSpread": lambda run, _: replace(run, cross_group_spread=True),
    "DropSpares": lambda run, word: replace(run, spares_per_group=int(word)),
    "SetDuration": lambda run, word: replace(run, duration={"1h30m": 5400, "5h": 18000}[word]),
}


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        (TWO + POOR + LENDER, "rai/big 16 per=8"),
        (TWO + POOR + LENDER, "rai/big 16 per=8 sponsors=org:lab:mm borrows=no"),
        (TWO + POOR + LENDER, "rai/big 16 per=8 sponsors=org:lab:mm borrow=4"),
        ("nodes us-west/a/d1 1x8\nnodes us-west/a/d2 1x8\n" + RICH, "rai/big 16 per=8 group=8 together"),
        (TWO + RICH, "rai/big 16 per=8 spares=1"),
        (ONE + "budget rai org:ai:rai\nenv rai/e 8 hours=40\n", "rai/big 8 per=8"),
    ],
)
def test_remedies_each_said_to_start_now_does(text: str, asked: str) -> None:
    """Each command, carried out by hand, is what the planner says of it."""
    run: Run = run_of(asked)
    found = [each for each in plan_run(snapshot(text), run, 0).remedies if each.starts_at == 0]
    assert found
    for each in found:
        changed = CHANGES[each.kind](run, each.command.split()[-1])
        assert isinstance(fit(world(text), changed), Fit), each


def test_remedies_come_in_the_order_of_the_design() -> None:
    text = TWO + POOR + LENDER + "run rai/later 8 per=8\nreserve rai/later at=7200 nodes=d1-n2:8 pays=mm/e:8\n"
    decision = planned(text, "rai/big 16 per=8 sponsors=org:lab:mm borrow=4 duration=10800")
    assert kinds(decision) == ["AskLess"]
    decision = planned(text, "rai/big 16 per=8 duration=7200")
    assert kinds(decision) == ["AskLess", "AddSponsor"]
