"""Instants and spans as words, against the standard library's calendar."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from planner import instants

NOON = 1_767_614_400  # 2026-01-05T12:00:00Z


@pytest.mark.parametrize("start", [0, 951_782_399, 1_709_164_800, 4_107_542_400, NOON])
def test_rfc3339_every_day_of_five_years_agrees_with_the_calendar(start: int) -> None:
    for day in range(1_827):
        instant = start + day * 86_400 + day * 7
        assert instants.rfc3339(instant) == datetime.fromtimestamp(instant, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.mark.parametrize(
    ("instant", "words"),
    [
        (NOON - 5, "starts now"),
        (NOON, "starts now"),
        (NOON + 7_500, "starts 14:05"),
        (NOON + 7_501, "starts 14:05:01"),
        (NOON + 86_400, "starts 2026-01-06 12:00"),
    ],
)
def test_starts_says_no_more_than_needed(instant: int, words: str) -> None:
    assert instants.starts(instant, NOON) == words


@pytest.mark.parametrize(
    ("seconds", "words"), [(0, "0s"), (90, "1m30s"), (5_400, "1h30m"), (7_200, "2h"), (61, "1m1s")]
)
def test_go_duration_leaves_zero_parts_out(seconds: int, words: str) -> None:
    assert instants.go_duration(seconds) == words
