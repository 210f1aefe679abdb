"""GPU-seconds of leases: exact whatever a window cuts through, and the same however they are told apart."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.model import DAY, FundingClass, Lease, Payer, Role
from planner.usage import HOUR, By, Meter, Window, apportion, pieces

NOW = 1_767_614_400 + 12 * HOUR


def lease(
    start: int, end: int | None, gpus: int = 8, run: str = "a", payer: str = "rai", role: Role = Role.ACTIVE
) -> Lease:
    return Lease(
        namespace="ns",
        name=f"l-{start}-{end}",
        owner="org:ai",
        run_name=run,
        run_uid=run,
        group=0,
        node="n1",
        gpus=gpus,
        role=role,
        start_at=start,
        payer=Payer(payer, "west"),
        funding=FundingClass.OWNED,
        closed=end is not None,
        end_at=end,
        closure=None if end is None else "Completed",
    )


def used(leases: list[Lease], since: int | None, until: int, by: By | None = None) -> int:
    meter = Meter(Window(since=since, until=until), by)
    for one in leases:
        meter.add(one)
    return sum(value.gpu_seconds for value in meter.sums.values())


@pytest.mark.parametrize(
    ("since", "until", "seconds"),
    [
        (None, 200, 100),  # all of it
        (0, 100, 0),  # ends where the lease begins
        (0, 101, 1),  # its first second
        (199, 300, 1),  # its last second
        (200, 300, 0),  # begins where the lease ends
        (120, 130, 10),  # inside
    ],
)
def test_window_holds_its_start_and_not_its_end(since: int | None, until: int, seconds: int) -> None:
    assert used([lease(100, 200, gpus=1)], since, until) == seconds


def test_meter_open_lease_counts_up_to_the_end_of_the_window() -> None:
    assert used([lease(100, None, gpus=3)], None, 150) == 150


def test_meter_gpus_are_those_held_at_the_end_of_the_window() -> None:
    meter = Meter(Window(since=None, until=200), None)
    for one in (lease(100, 200), lease(200, 300, gpus=4), lease(150, None, gpus=2), lease(201, None, gpus=16)):
        meter.add(one)
    assert sum(value.gpus for value in meter.sums.values()) == 6


def test_meter_spares_and_fillers_stand_apart() -> None:
    meter = Meter(Window(since=None, until=200), By.PAYER)
    for role in Role:
        meter.add(lease(100, 150, role=role))
    assert {key.role: value.gpu_seconds for key, value in meter.sums.items()} == dict.fromkeys(Role, 400)


spans = st.tuples(st.integers(NOW - 3 * DAY, NOW), st.integers(0, 3 * DAY), st.booleans(), st.integers(1, 16))


@given(st.lists(spans, max_size=4), st.lists(st.integers(NOW - 3 * DAY, NOW), min_size=2, max_size=3))
def test_meter_windows_that_follow_each_other_add_up(rows: list[tuple[int, int, bool, int]], cuts: list[int]) -> None:
    leases = [
        lease(start, None if is_open else min(NOW, start + length), gpus, run=str(gpus % 3), payer=str(gpus % 2))
        for start, length, is_open, gpus in rows
    ]
    edges = sorted(cuts)
    parts = sum(used(leases, first, last) for first, last in itertools.pairwise(edges))
    assert parts == used(leases, edges[0], edges[-1])
    for by in By:
        assert used(leases[::-1], edges[0], edges[-1], by) == parts


@given(st.integers(0, 10 * DAY), st.integers(0, 3 * DAY), st.sampled_from([HOUR, DAY]))
def test_pieces_of_an_interval_add_up_and_never_cross_a_step(start: int, length: int, step: int) -> None:
    found = list(pieces(start, start + length, step))
    assert sum(last - first for first, last in found) == length
    assert all(first // step == (last - 1) // step for first, last in found)


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=6), st.integers(0, 10_000))
def test_apportion_adds_up_and_is_never_off_by_more_than_one(amounts: list[int], units: int) -> None:
    parts = apportion(amounts, units)
    total = sum(amounts)
    assert sum(parts) == (units if total else 0)
    assert all(abs(part * total - amount * units) < max(1, total) for part, amount in zip(parts, amounts, strict=True))
