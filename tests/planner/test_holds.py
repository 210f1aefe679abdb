"""F3: what promises hold at any one time."""

from __future__ import annotations

import pytest

from planner.admit import Fit, fit
from planner.holds import FOREVER, Hold, Timeline, horizon
from tests.planner.worlds import run_of, world

LINE = Timeline([Hold(100, 200, 4), Hold(150, 300, 2), Hold(400, FOREVER, 5)])


@pytest.mark.parametrize(
    ("now", "until", "held"),
    [
        (0, 100, 0),  # work that ends when the first begins
        (0, 101, 4),
        (0, 151, 6),
        (200, 400, 2),  # the first is over, the last not begun
        (300, 400, 0),
        (0, FOREVER, 6),  # never more than 6 at once, though 11 are promised
        (350, FOREVER, 5),
        (500, 501, 5),
    ],
)
def test_held_is_the_most_at_any_one_time(now: int, until: int, held: int) -> None:
    assert LINE.held(now, until) == held


def test_held_own_holds_do_not_count() -> None:
    assert LINE.held(0, FOREVER, without=(Hold(150, 300, 2),)) == 5
    assert LINE.held(0, 300, without=(Hold(100, 200, 4),)) == 2


def test_held_what_ends_before_a_promise_begins_makes_room_for_it() -> None:
    ends = (Hold(120, FOREVER, -3),)
    assert LINE.held(0, 151, beside=ends) == 4  # from 100 to 120 nothing has ended yet
    assert LINE.held(120, 300, beside=ends) == 3


def test_horizon_by_duration_and_kind() -> None:
    assert (horizon(10, 50, False), horizon(10, None, False), horizon(10, None, True)) == (60, FOREVER, 11)


ONE = "nodes us-west/a/d1 1x16\nbudget rai org:ai:rai\nenv rai/e 16\n"


def test_promise_follows_a_lease_on_its_gpus() -> None:
    """The lease gives its 8 back when the promise of 8 begins: the other 8 are nobody's."""
    text = ONE + "run rai/old 8 duration=3700\nlease rai/old d1-n1 8 rai/e\n"
    text += "run rai/later 8\nreserve rai/later at=100 nodes=d1-n1:8 pays=rai/e:8\n"
    assert isinstance(fit(world(text), run_of("rai/x 8")), Fit)
    early = text.replace("at=100", "at=99")
    assert not isinstance(fit(world(early), run_of("rai/x 8")), Fit)


def test_promises_that_follow_one_another_count_once() -> None:
    text = ONE + "run rai/a 8 duration=100\nreserve rai/a at=100 nodes=d1-n1:8 pays=rai/e:8\n"
    text += "run rai/b 8 duration=100\nreserve rai/b at=200 nodes=d1-n1:8 pays=rai/e:8\n"
    assert isinstance(fit(world(text), run_of("rai/x 8")), Fit)
    assert not isinstance(fit(world(text.replace("at=200", "at=199")), run_of("rai/x 8")), Fit)
