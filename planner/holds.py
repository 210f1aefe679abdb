"""What reservations hold, at an instant and for a piece of work (F3).

A hold counts against new work unless that work ends before the hold begins. Sums are kept sorted by time, so asking
costs a bisection whatever the number of promises.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from itertools import accumulate
from typing import NamedTuple

FOREVER = 1 << 62


class Hold(NamedTuple):
    """GPUs of one node or envelope, promised from `start_at`; `finish_at` is when their run will have ended."""

    start_at: int
    finish_at: int
    gpus: int


class Timeline:
    """The holds on one node or one envelope, ready to be asked at any instant."""

    __slots__ = ("_finish_sums", "_finishes", "_start_sums", "_starts")

    def __init__(self, holds: Iterable[Hold]) -> None:
        begun = sorted(holds)
        ended = sorted(begun, key=lambda hold: hold.finish_at)
        self._starts = [hold.start_at for hold in begun]
        self._start_sums = [0, *accumulate(hold.gpus for hold in begun)]
        self._finishes = [hold.finish_at for hold in ended]
        self._finish_sums = [0, *accumulate(hold.gpus for hold in ended)]

    def held(self, now: int, horizon: int) -> int:
        """F3: GPUs of holds that begin before the horizon and are not over by now."""
        begun = self._start_sums[bisect_left(self._starts, horizon)]
        return begun - self._finish_sums[bisect_right(self._finishes, now)]


def held(hold: Hold, now: int, horizon: int) -> int:
    """The same for one hold alone: what a run's own reservation must not count against it."""
    return hold.gpus if hold.start_at < horizon and hold.finish_at > now else 0


def horizon(now: int, duration: int | None, opportunistic: bool) -> int:
    """F3: holds that begin before this count against the work.

    Work that ends by then may use them; opportunistic work may, since it goes first; work of unknown length may not.
    """
    if opportunistic:
        return now + 1
    return FOREVER if duration is None else now + max(1, duration)
