"""The trace in words, and the slice rebuilt from it."""

from __future__ import annotations

import pytest

from planner.trace import message_of, replay
from tests.planner.answers import fits, refused
from tests.planner.worlds import run_of, snapshot

EXAMPLE = """
nodes us-west/a/d1 3x8
nodes us-west/a/d2 3x8
budget rai org:ai:rai
env rai/west-h100 16 region=us-west
budget nlp org:ai:nlp
env nlp/west-h100 8 region=us-west sharing=none
budget mm org:lab:mm
env mm/west-h100 64 region=us-west lends=org:ai:* lend-max=12
"""
ASKS = "per=4 duration=14400 sponsors=org:lab:mm borrow=8"


def test_message_names_every_source_asked_in_order_with_its_numbers() -> None:  # C7
    assert message_of(refused(EXAMPLE, f"rai/too-wide 32 {ASKS}").trace) == (
        "rai/west-h100: need 24, had 16 (ConcurrencyCap); mm/west-h100: need 8, had 8 (paid); "
        "rai/west-h100: need 8, had 0 (ConcurrencyCap); mm/west-h100: need 8, had 0 (BorrowLimit)"
    )


def test_message_of_placement_names_every_domain() -> None:
    text = EXAMPLE + "lease x/y d1-n1 8 z/z\nlease x/y d2-n1 8 z/z"
    assert message_of(refused(text, "rai/t 24 per=8 group=24 sponsors=org:lab:mm").trace) == (
        "us-west/a/d1: need 24, had 16 (NoCapacity); us-west/a/d2: need 24, had 16 (NoCapacity)"
    )


def test_message_sums_up_what_repeats_and_what_is_too_long() -> None:
    wide = "nodes us-west/a/d1 100x8\nbudget rai org:ai:rai\nenv rai/e 399"
    words = message_of(refused(wide, "rai/t 800 per=8 group=8").trace)
    assert words.startswith("rai/e: need 8, had 399 (paid); rai/e: need 8, had 391 (paid)")
    assert (words.count(";") <= 25, "26 more" in words) == (True, True)
    assert words.endswith("rai/e: need 8, had 7 (ConcurrencyCap)")


@pytest.mark.parametrize(
    "run",
    [
        f"rai/t 24 {ASKS}",
        "rai/t 16 per=8",
        "rai/t 8 per=4 group=4 spares=1",
        "rai/t 4 per=2 spares=2",
        "rai/t 9 per=3 sponsors=org:lab:mm",
        "rai/t 16 per=2 min=4 max=16 step=4",
        "rai/f 8 per=4 opportunistic",
    ],
)
def test_replay_rebuilds_the_seats_from_the_trace_alone(run: str) -> None:
    fit = fits(EXAMPLE, run)
    assert replay(snapshot(EXAMPLE), run_of(run), fit.trace) == fit.seats


def test_replay_without_a_step_cannot_rebuild_the_seats() -> None:
    fit = fits(EXAMPLE, f"rai/t 24 {ASKS}")
    short = tuple(step for step in fit.trace if not (step.act == "took" and step.subject.startswith("mm/")))
    with pytest.raises(IndexError):
        replay(snapshot(EXAMPLE), run_of(f"rai/t 24 {ASKS}"), short)
