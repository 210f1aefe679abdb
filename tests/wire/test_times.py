"""Instants, durations and quantities: read as Kubernetes and Go read them, and written one way only."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubectl_runs.wire.times import duration, go_duration, instant, quantity, rfc3339


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2026-01-05T12:00:00Z", 1767614400),
        ("2026-01-05T12:00:00.999Z", 1767614400),
        ("2026-01-05T14:00:00+02:00", 1767614400),
        ("2026-01-05T06:30:00-05:30", 1767614400),
        ("1969-12-31T23:59:59Z", -1),
    ],
)
def test_instant_of_rfc3339_text_is_unix_seconds(text: str, seconds: int) -> None:
    assert instant(text) == seconds


@pytest.mark.parametrize("text", ["", "now", "2026-01-05", "2026-01-05T12:00:00", "2026-02-30T00:00:00Z", "1767614400"])
def test_instant_of_other_text_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match=repr(text)):
        instant(text)


@given(st.integers(min_value=-62_135_596_800, max_value=253_402_300_799))
def test_instant_reads_what_rfc3339_writes(seconds: int) -> None:
    assert instant(rfc3339(seconds)) == seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("30m", 1800),
        ("1h30m", 5400),
        ("1.5h", 5400),
        ("0s", 0),
        ("100ms", 1),
        ("1m0.5s", 61),
        ("1h0m0s", 3600),
    ],
)
def test_duration_of_go_text_is_seconds_rounded_up(text: str, seconds: int) -> None:
    assert duration(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "-5s", "+5s", "2d", "1h 30m", "h", ".5h", "1H"])
def test_duration_of_other_text_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match=repr(text).replace("+", r"\+").replace(".", r"\.")):
        duration(text)


@given(st.integers(min_value=0, max_value=10**9))
def test_duration_reads_what_go_duration_writes(seconds: int) -> None:
    assert duration(go_duration(seconds)) == seconds


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (90, "1m30s"), (5400, "1h30m"), (86400, "24h"), (3601, "1h1s")]
)
def test_go_duration_is_short(seconds: int, text: str) -> None:
    assert go_duration(seconds) == text


@pytest.mark.parametrize(
    ("text", "whole", "milli"),
    [
        ("8", 8, 8000),
        (8, 8, 8000),
        ("500m", 1, 500),
        ("1.5", 2, 1500),
        ("2k", 2000, 2_000_000),
        ("1Ki", 1024, 1_024_000),
        ("1.5Gi", 1610612736, 1610612736000),
        ("1e3", 1000, 1_000_000),
        ("100n", 1, 1),
        ("1E", 10**18, 10**21),
    ],
)
def test_quantity_is_rounded_up_as_kubernetes_does(text: str | int, whole: int, milli: int) -> None:
    assert (quantity(text), quantity(text, per_unit=1000)) == (whole, milli)


@pytest.mark.parametrize("text", ["", "eight", "8 Gi", "8gi", "1e", "--1"])
def test_quantity_of_other_text_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match=repr(text)):
        quantity(text)
