"""F5: promised against actual start."""

from __future__ import annotations

from planner.score import mean_error, scores
from tests.planner.worlds import snapshot

RUNS = "nodes us-west/a/d1 4x8\nbudget rai org:ai:rai\nenv rai/e 100\n" + "".join(f"run rai/{n} 8\n" for n in "abcd")


def lateness(text: str) -> list[tuple[str, int]]:
    world = snapshot(RUNS + text)
    return [(score.run, score.late) for score in scores(world.reservations, world.leases)]


def test_scores_early_late_and_in_time() -> None:
    text = "reserve rai/a at=100 made=0\nlease rai/a d1-n1 8 rai/e start=100\n"
    text += "reserve rai/b at=100 made=0\nlease rai/b d1-n2 8 rai/e start=130\n"
    text += "reserve rai/c at=100 made=0\nlease rai/c d1-n3 8 rai/e start=40\n"
    assert lateness(text) == [("rai/a", 0), ("rai/b", 30), ("rai/c", -60)]
    world = snapshot(RUNS + text)
    assert mean_error(scores(world.reservations, world.leases)) == 30


def test_scores_not_started_blocked_or_of_an_earlier_attempt_do_not_count() -> None:
    text = "reserve rai/a at=100 made=0\n"
    text += "reserve rai/b made=0\nlease rai/b d1-n2 8 rai/e start=130\n"
    text += "reserve rai/c at=100 made=50\nlease rai/c d1-n3 8 rai/e start=10 end=40\n"
    assert lateness(text) == []
    assert mean_error(()) is None


def test_scores_growth_and_spares_do_not_move_the_start() -> None:
    text = "reserve rai/a at=100 made=0\nlease rai/a d1-n1 8 rai/e start=100\nlease rai/a d1-n2 8 rai/e start=500\n"
    assert lateness(text + "lease rai/a d1-n3 8 rai/e start=60 role=Spare\n") == [("rai/a", 0)]
