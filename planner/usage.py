"""What leases add up to: GPU-seconds by payer, run, day or flavor, exact whatever a window cuts through.

An interval holds its start and not its end, in whole seconds, so that parts of a lease add up to the lease. The class
of a payment is what the lease says: history stays when the organisation changes. Nothing here reads or rounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from planner.model import DAY, FundingClass, Lease, Payer, Role

HOUR = 3600


class By(StrEnum):
    """What rows are told apart by, besides payer, class and role."""

    PAYER = "payer"
    RUN = "run"
    DAY = "day"
    FLAVOR = "flavor"


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """From `since` (None: from the beginning) up to `until`, which is never in the future."""

    since: int | None
    until: int

    def part(self, lease: Lease) -> tuple[int, int]:
        """The part of a lease inside the window; its end is its start where there is none."""
        start = lease.start_at if self.since is None else max(lease.start_at, self.since)
        end = self.until if lease.end_at is None else min(lease.end_at, self.until)
        return start, max(start, end)

    def holds(self, lease: Lease) -> bool:
        """Whether the lease holds its GPUs at the end of the window."""
        return lease.start_at <= self.until and (lease.end_at is None or lease.end_at > self.until)


class Key(NamedTuple):
    """What one row is about; empty where rows are not told apart by it."""

    payer: Payer
    funding: FundingClass
    role: Role
    run: str = ""
    day: int | None = None


@dataclass(slots=True)
class Sum:
    gpus: int = 0  # held at the end of the window
    gpu_seconds: int = 0


class Meter:
    """Folds leases one by one, in any order, and keeps nothing of them but the sums."""

    def __init__(self, window: Window, by: By | None) -> None:
        self.window = window
        self._runs = by in (None, By.RUN)
        self._days = by is By.DAY
        self.sums: dict[Key, Sum] = {}

    def add(self, lease: Lease) -> None:
        start, end = self.window.part(lease)
        holds = self.window.holds(lease)
        if start == end and not holds:
            return
        run = lease.run_key if self._runs else ""
        if not self._days:
            self._sum(Key(lease.payer, lease.funding, lease.role, run)).gpu_seconds += lease.gpus * (end - start)
            if holds:
                self._sum(Key(lease.payer, lease.funding, lease.role, run)).gpus += lease.gpus
            return
        for first, last in pieces(start, end, DAY):
            key = Key(lease.payer, lease.funding, lease.role, run, first - first % DAY)
            self._sum(key).gpu_seconds += lease.gpus * (last - first)
        if holds:
            today = self.window.until - self.window.until % DAY
            self._sum(Key(lease.payer, lease.funding, lease.role, run, today)).gpus += lease.gpus

    def _sum(self, key: Key) -> Sum:
        found = self.sums.get(key)
        if found is None:
            found = self.sums[key] = Sum()
        return found


def pieces(start: int, end: int, step: int) -> Iterator[tuple[int, int]]:
    """An interval cut at every whole step (hour, day) of UTC."""
    while start < end:
        stop = min(end, start - start % step + step)
        yield start, stop
        start = stop


def apportion(amounts: Iterable[int], units: int) -> tuple[int, ...]:
    """Whole units in proportion to amounts, adding up to `units`: the largest remainders are rounded up.

    So that percentages on one screen add up to 100, and rounded hours to the rounded total.
    """
    parts = tuple(amounts)
    total = sum(parts)
    if total == 0:
        return tuple(0 for _ in parts)
    floors = [part * units // total for part in parts]
    by_remainder = sorted(range(len(parts)), key=lambda index: (-(parts[index] * units % total), index))
    for index in by_remainder[: units - sum(floors)]:
        floors[index] += 1
    return tuple(floors)
