"""What reservations hold, at an instant and for a piece of work (F3).

A hold counts against new work unless that work ends before the hold begins. Holds that follow one another on the same
GPUs count once: what matters is the most that is held at any one time while the work runs.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Iterable
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

    __slots__ = ("_held", "_holds", "_instants", "_most_after")

    def __init__(self, holds: Iterable[Hold]) -> None:
        self._holds = tuple(holds)
        changes: dict[int, int] = {}
        for hold in self._holds:
            changes[hold.start_at] = changes.get(hold.start_at, 0) + hold.gpus
            changes[hold.finish_at] = changes.get(hold.finish_at, 0) - hold.gpus
        self._instants = sorted(changes)
        # Held from each instant on, until the next one; nothing before the first.
        self._held = [0, *accumulate(changes[instant] for instant in self._instants)]
        self._most_after = [*accumulate(reversed(self._held), max)][::-1]

    def held(self, now: int, horizon: int, without: Collection[Hold] = (), beside: Collection[Hold] = ()) -> int:
        """F3: the most that is held at any one time from now until the horizon.

        `without` are holds that do not count, a run's own; `beside` are those that count only for this question.
        """
        if without or beside:
            return self._changed(without, beside).held(now, horizon)
        first = bisect_right(self._instants, now)
        last = bisect_left(self._instants, horizon)
        if last == len(self._instants):
            return self._most_after[first]
        return max(self._held[first : max(first, last) + 1])

    def _changed(self, without: Collection[Hold], beside: Collection[Hold]) -> Timeline:
        left = Counter(self._holds)
        left.subtract(without)
        return Timeline((*left.elements(), *beside))


def horizon(now: int, duration: int | None, opportunistic: bool) -> int:
    """F3: holds that begin before this count against the work.

    Work that ends by then may use them; opportunistic work may, since it goes first; work of unknown length may not.
    """
    if opportunistic:
        return now + 1
    return FOREVER if duration is None else now + max(1, duration)
