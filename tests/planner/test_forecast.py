"""F1 (a), (c): never, and the walk through known events."""

from __future__ import annotations

from typing import Any

import pytest

from planner import forecast
from planner.admit import Fit, Refusal, fit
from planner.world import World
from tests.planner.worlds import run_of, snapshot, world

RICH = "budget rai org:ai:rai\nenv rai/e 1000\n"


def opening(text: str, run: str, until: int | None = None) -> int | None:
    seen, asked = world(text), run_of(run)
    no = fit(seen, asked)
    assert isinstance(no, Refusal)
    found = forecast.first_opening(seen, asked, no, until=until)
    return None if found is None else found.instant


def timed(count: int, payer: str = "rai/e", nodes: int = 4) -> str:
    """Runs of 8 on nodes of 8 that end at 100, 200, 300, ..."""
    lines = [f"nodes us-west/a/d1 {nodes}x8"]
    for n in range(count):
        lines += [f"run rai/r{n} 8 per=8 duration={(n + 1) * 100}", f"lease rai/r{n} d1-n{n + 1} 8 {payer} start=0"]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(("gpus", "instant"), [(8, 100), (16, 200), (24, 300), (32, 400)])
def test_opening_is_the_first_end_that_leaves_enough(gpus: int, instant: int) -> None:
    assert opening(timed(4) + RICH, f"rai/big {gpus} per=8") == instant


def test_opening_work_without_a_duration_never_ends() -> None:
    text = "nodes us-west/a/d1 1x8\n" + RICH + "run rai/old 8 per=8\nlease rai/old d1-n1 8 rai/e\n"
    assert opening(text, "rai/big 8 per=8") is None


def test_opening_is_not_looked_for_past_the_limit() -> None:
    assert opening(timed(4) + RICH, "rai/big 16 per=8", until=150) is None
    assert opening(timed(4) + RICH, "rai/big 16 per=8", until=200) == 200


def test_opening_group_needs_one_domain() -> None:
    text = "nodes us-west/a/d1 1x8\nnodes us-west/a/d2 2x8\n" + RICH
    text += "run rai/a 8 per=8 duration=100\nlease rai/a d1-n1 8 rai/e start=0\n"
    text += "run rai/b 8 per=8 duration=200\nlease rai/b d2-n1 8 rai/e start=0\n"
    text += "run rai/c 8 per=8 duration=300\nlease rai/c d2-n2 8 rai/e start=0\n"
    assert opening(text, "rai/big 16 per=8 group=16") == 300
    assert opening(text, "rai/big 16 per=8 group=8") == 200
    assert opening(text, "rai/big 16 per=8 group=8 together") == 300


def test_opening_promise_begins_closes_the_gap_before_it_ends() -> None:
    """At 100 a node is free, but promised from 150 on; work of 60 seconds does not end in time, of 50 it does."""
    text = timed(1, nodes=1) + RICH + "run rai/later 8 per=8 duration=1000\n"
    text += "reserve rai/later at=150 nodes=d1-n1:8 pays=rai/e:8\n"
    assert opening(text, "rai/big 8 per=8 duration=50") == 100
    assert opening(text, "rai/big 8 per=8 duration=60") == 1150
    assert opening(text, "rai/big 8 per=8") == 1150


def test_opening_window_that_closes_is_no_longer_used() -> None:
    text = timed(2, nodes=2).replace("rai/e", "rai/x") + "budget rai org:ai:rai\nenv rai/e 16 until=150\nenv rai/x 16\n"
    assert opening(text, "rai/big 8 per=8") == 100
    assert opening(text.replace("env rai/x 16", "env rai/x 16 until=150"), "rai/big 16 per=8") is None


def test_opening_gpu_hours_come_free_only_where_work_ends_early() -> None:
    """Hours that running work will burn are burnt when it ends: no end of it makes them free."""
    text = timed(1, nodes=2) + "budget rai org:ai:rai\nenv rai/e 100 hours=1\n"
    assert opening(text, "rai/big 8 per=8 duration=1000") is None


def test_opening_spares_need_their_own_node() -> None:
    text = timed(3, nodes=3) + RICH
    assert opening(text, "rai/big 8 per=8 spares=1") == 200


def test_opening_filler_starts_on_spares_at_once() -> None:  # O1
    text = "nodes us-west/a/d1 1x8\n" + RICH + "run rai/s 8\nlease rai/s d1-n1 8 rai/e role=Spare\n"
    assert isinstance(fit(world(text), run_of("rai/f 8 per=8 opportunistic")), Fit)


def test_walk_asks_only_where_the_answer_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """300 ends, of which only the last makes room: pack is not asked 300 times."""
    lines = ["nodes us-west/a/d1 300x1", "nodes us-west/a/d2 1x8"]
    for n in range(300):
        lines += [f"run rai/r{n} 1 duration={n + 1}", f"lease rai/r{n} d1-n{n + 1} 1 rai/e start=0"]
    lines += ["run rai/last 8 per=8 duration=9000", "lease rai/last d2-n1 8 rai/e start=0"]
    asked: list[int] = []

    def counted(then: World, *args: Any, **kwargs: Any) -> Fit | Refusal:
        asked.append(then.now)
        return fit(then, *args, **kwargs)

    monkeypatch.setattr(forecast, "fit", counted)
    assert opening("\n".join(lines) + "\n" + RICH, "rai/big 8 per=8") == 9000
    assert asked == [9000]


def test_walk_waiting_for_a_payer_passes_over_what_others_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "nodes us-west/a/d1 60x8\nbudget rai org:ai:rai\nenv rai/e 8\nbudget bio org:bio\nenv bio/e 1000\n"
    for n in range(50):
        text += f"run bio/r{n} 8 per=8 duration={n + 1} owner=org:bio\nlease bio/r{n} d1-n{n + 1} 8 bio/e start=0\n"
    text += "run rai/own 8 per=8 duration=70\nlease rai/own d1-n60 8 rai/e start=0\n"
    asked: list[int] = []

    def counted(then: World, *args: Any, **kwargs: Any) -> Fit | Refusal:
        asked.append(then.now)
        return fit(then, *args, **kwargs)

    monkeypatch.setattr(forecast, "fit", counted)
    assert opening(text, "rai/big 8 per=8") == 70
    assert asked == [70]


def test_never_says_why_or_none() -> None:
    small = world("nodes us-west/a/d1 1x8\n" + RICH)
    assert forecast.never(small, run_of("rai/big 8 per=8")) is None
    no = forecast.never(small, run_of("rai/big 9 per=9"))
    assert no is not None
    assert no.reason.value == "NoTopology"


def test_never_holds_of_a_world_that_is_full() -> None:
    """What others hold and reserve now says nothing about never."""
    text = timed(4) + RICH + "run rai/later 32 per=8\nreserve rai/later at=9 nodes=d1-n1:8,d1-n2:8,d1-n3:8,d1-n4:8\n"
    assert forecast.never(World.of(snapshot(text), 0), run_of("rai/big 32 per=8")) is None
