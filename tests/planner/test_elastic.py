"""E1 and E2: which groups leave, and the next step of growth."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.elastic import next_width, plan_growth, plan_shrink
from planner.model import (
    Decision,
    Ended,
    Entry,
    EntryKind,
    FundingClass,
    Malleable,
    Opened,
    Opening,
    Payer,
    Role,
    RunRef,
)
from tests.planner.answers import pays, places
from tests.planner.verdicts import cuts, told
from tests.planner.worlds import snapshot

FLEET = "nodes us-west/a/d1 4x8\n"
RICH = "budget rai org:ai:rai\nenv rai/e 100\nbudget mm org:lab:mm\nenv mm/e 100\n"
HELD = "run rai/m 24 per=8 min=8 max=32 step=8\n" + "".join(
    f"lease rai/m d1-n{n + 1} 8 rai/e group={n}\n" for n in range(3)
)


def shrunk(text: str, to: int, *entries: Entry) -> Decision:
    world = replace(snapshot(text), entries=entries)
    return plan_shrink(world, next(run for run in world.runs if run.key == "rai/m"), to, 0)


def grown(text: str, *entries: Entry, to: int | None = None, cooldown: int = 0, now: int = 0) -> Decision:
    world = replace(snapshot(text), entries=entries)
    return plan_growth(world, next(run for run in world.runs if run.key == "rai/m"), now, to=to, cooldown=cooldown)


def entry(kind: EntryKind, **parts: object) -> Entry:
    blank = Entry(seq=7, prev="", digest="", nonce="", read_at=0, time=0, created_at=0, kind=kind)
    return replace(blank, run=RunRef(namespace="rai", name="m", uid="uid-m"), **parts)  # type: ignore[arg-type]


# E1


def test_shrink_highest_index_leaves_first() -> None:
    decision = shrunk(FLEET + RICH + HELD, 16)
    assert (told(decision), decision.width, cuts(decision)) == ("cut", 16, ["Shrink rai/m 2 8"])


def test_shrink_index_is_a_number() -> None:
    lines = "".join(f"lease rai/m d1-n{n // 8 + 1} 1 rai/e group={n}\n" for n in range(11))
    decision = shrunk(FLEET + RICH + "run rai/m 11 min=1 max=11 step=1\n" + lines, 9)
    assert cuts(decision) == ["Shrink rai/m 10 1", "Shrink rai/m 9 1"]


def test_shrink_groups_with_borrowed_gpus_leave_before_all() -> None:
    text = FLEET + RICH + HELD.replace("d1-n1 8 rai/e group=0", "d1-n1 8 mm/e group=0 class=borrowed")
    assert cuts(shrunk(text, 16)) == ["Shrink rai/m 0 8"]
    assert cuts(shrunk(text, 8)) == ["Shrink rai/m 0 8", "Shrink rai/m 2 8"]


def test_shrink_borrowed_spare_makes_its_group_leave_first_and_closes_with_it() -> None:
    text = FLEET + RICH + HELD + "lease rai/m d1-n4 8 mm/e group=1 role=Spare class=borrowed\n"
    decision = shrunk(text, 16)
    assert (decision.width, cuts(decision)) == (16, ["Shrink rai/m 1 16"])


def test_shrink_below_the_minimum_is_refused() -> None:
    decision = shrunk(FLEET + RICH + HELD, 7)
    assert (told(decision), decision.cuts) == ("refuse BelowMinimum", ())


def test_shrink_fixed_run_has_its_total_as_minimum() -> None:
    text = FLEET + RICH + "run rai/m 16 per=8\nlease rai/m d1-n1 8 rai/e\nlease rai/m d1-n2 8 rai/e\n"
    assert told(shrunk(text, 8)) == "refuse BelowMinimum"


def test_shrink_target_between_groups_goes_to_the_next_width_below() -> None:
    decision = shrunk(FLEET + RICH + HELD, 20)
    assert (decision.width, cuts(decision)) == (16, ["Shrink rai/m 2 8"])


@pytest.mark.parametrize("to", [24, 32])
def test_shrink_no_narrower_than_it_is_does_nothing(to: int) -> None:
    decision = shrunk(FLEET + RICH + HELD, to)
    assert (told(decision), decision.width) == ("none", 24)


def test_shrink_group_that_is_ending_counts_as_gone() -> None:
    ends = (Ended(namespace="rai", lease="lease-002", reason="Shrink"),)
    decision = shrunk(FLEET + RICH + HELD, 8, entry(EntryKind.END, ends=ends))
    assert (decision.width, cuts(decision)) == (8, ["Shrink rai/m 1 8"])


# E2

ONE = "run rai/m 24 per=8 min=8 max=32 step=8\nlease rai/m d1-n1 8 rai/e group=0\n"


def test_grow_one_step_at_a_time() -> None:
    decision = grown(FLEET + RICH + ONE)
    assert (told(decision), decision.width) == ("start", 16)
    assert (places(decision.seats), pays(decision.seats)) == (["1 d1-n2 8 Active"], ["rai/e 8 owned"])


def test_grow_toward_desired_and_no_further() -> None:
    decision = grown(FLEET + RICH + HELD)
    assert (told(decision), decision.width, decision.seats) == ("none", 24, ())


def test_grow_target_given_counts_instead_of_desired() -> None:
    assert grown(FLEET + RICH + HELD, to=32).width == 32


def test_grow_beyond_the_maximum_is_refused() -> None:
    decision = grown(FLEET + RICH + HELD, to=40)
    assert (told(decision), decision.width) == ("refuse", 24)
    assert "32" in decision.message


def test_grow_step_in_flight_counts() -> None:
    """An entry that is not yet written as a lease: the next pass plans the step after it, not it again."""
    opened = Opened(
        lease="l-7-0",
        node="d1-n2",
        gpus=8,
        role=Role.ACTIVE,
        group=1,
        owner="org:ai:rai",
        payer=Payer("rai", "e"),
        funding=FundingClass.OWNED,
        reason=Opening.GROW,
    )
    decision = grown(FLEET + RICH + ONE, entry(EntryKind.GROW, opens=(opened,)))
    assert (decision.width, places(decision.seats)) == (24, ["2 d1-n3 8 Active"])


def test_grow_no_room_says_none_with_the_reason() -> None:
    decision = grown("nodes us-west/a/d1 1x8\n" + RICH + ONE)
    assert (told(decision), decision.width) == ("none NoCapacity lacks 8", 8)


def test_grow_room_taken_says_none_with_the_reason() -> None:
    text = "nodes us-west/a/d1 2x8\n" + RICH + ONE + "run rai/x 8 per=8\nlease rai/x d1-n2 8 rai/e\n"
    assert told(grown(text)) == "none NoCapacity lacks 8"


def test_grow_nobody_pays_says_none_with_the_cap() -> None:
    text = FLEET + "budget rai org:ai:rai\nenv rai/e 8\n" + ONE
    assert told(grown(text)) == "none ConcurrencyCap"


def test_grow_cooldown_holds_the_next_step_back() -> None:
    text = FLEET + RICH + ONE
    step = Opened(
        lease="l-7-0",
        node="d1-n2",
        gpus=8,
        role=Role.ACTIVE,
        group=1,
        owner="org:ai:rai",
        payer=Payer("rai", "e"),
        funding=FundingClass.OWNED,
        reason=Opening.GROW,
    )
    before = entry(EntryKind.GROW, opens=(step,), time=-100)
    assert told(grown(text, before, cooldown=300)) == "none"
    assert told(grown(text, before, cooldown=300, now=200)) == "start"
    assert told(grown(text, cooldown=300)) == "start"  # it never changed its width


def test_grow_run_whose_leases_are_all_ending_says_so() -> None:
    ends = (Ended(namespace="rai", lease="lease-000", reason="NodeFailure"),)
    decision = grown(FLEET + RICH + ONE, entry(EntryKind.END, ends=ends))
    assert (told(decision), decision.width) == ("none", 0)
    assert "ending" in decision.message


def test_grow_fixed_run_says_none() -> None:
    assert told(grown(FLEET + RICH + "run rai/m 8 per=8\nlease rai/m d1-n1 8 rai/e\n")) == "none"


@pytest.mark.parametrize(("width", "expected"), [(0, 8), (8, 24), (16, 24), (23, 24), (24, 40)])
def test_next_width_is_the_smallest_step_above(width: int, expected: int) -> None:
    """A run that lost groups to the resolver fills up its step first."""
    assert next_width(Malleable(gpus_min=8, gpus_max=40, gpus_step=16, gpus_desired=40), width) == expected
