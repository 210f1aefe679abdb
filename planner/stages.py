"""The stages of yielding: one candidate after another until the goal is reached, then back what was not needed (R2).

The goal is the resolver's: that pack succeeds in a domain, or that a budget is within its caps. This module decides in
which order candidates are taken and which of them are given back, and counts leases as sets, never twice (R5).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from planner.candidates import Candidate
from planner.model import Lease


class Goal(Protocol):
    """What taking candidates is for.

    `lacks` and `gain_max` are cheap bounds in one unit: what is missing at the very least, and what a candidate could
    add at the very most. They spare most of the questions to `reached`, which alone decides.
    """

    def free(self, leases: Iterable[Lease]) -> None: ...

    def unfree(self, leases: Iterable[Lease]) -> None: ...

    def lacks(self) -> int: ...

    def gain_max(self, candidate: Candidate) -> int: ...

    def reached(self) -> bool: ...


class Taking:
    """What has been taken so far toward one goal, in order."""

    def __init__(self, goal: Goal) -> None:
        self._goal = goal
        self._freed: Counter[str] = Counter()  # R5: a lease in two candidates is freed once
        self._taken: dict[tuple[int, str], Candidate] = {}
        self.given_back: list[Candidate] = []

    @property
    def taken(self) -> tuple[Candidate, ...]:
        return tuple(self._taken.values())

    def reached(self) -> bool:
        return self._goal.lacks() <= 0 and self._goal.reached()

    def take_sized(self, candidates: Sequence[Candidate]) -> None:
        """R2 (1) and (2): the smallest that is enough alone, else the largest, asked again after each take."""
        waiting = sorted(candidates, key=lambda candidate: (candidate.gpus, candidate.key))
        gains = {candidate.key: self._goal.gain_max(candidate) for candidate in waiting}
        gain_most = max(gains.values(), default=0)
        while waiting and not self.reached():
            chosen = self._first_enough(waiting, gains) if gain_most >= self._goal.lacks() else None
            if chosen is None:
                chosen = bisect_left(waiting, waiting[-1].gpus, key=lambda candidate: candidate.gpus)
            self._take(waiting.pop(chosen))

    def take_listed(self, candidates: Iterable[Candidate]) -> None:
        """R2 (3) and (4): in the order given, until it is enough."""
        for candidate in candidates:
            if self.reached():
                return
            self._take(candidate)

    def give_back(self) -> None:
        """R2: each that turned out unnecessary, last taken first."""
        for candidate in reversed(self.taken):
            self._unfree(candidate)
            if self.reached():
                del self._taken[candidate.stage, candidate.key]
                self.given_back.append(candidate)
            else:
                self._free(candidate)

    def would_reach(self, candidates: Iterable[Candidate]) -> bool:
        """Whether it would be enough if all of these were taken too."""
        together = tuple(candidates)
        for candidate in together:
            self._free(candidate)
        enough = self.reached()
        for candidate in together:
            self._unfree(candidate)
        return enough

    def gpus(self) -> int:
        """GPUs of all leases taken, each once (R5)."""
        return sum({lease.key: lease.gpus for candidate in self.taken for lease in candidate.leases}.values())

    def last_stage(self) -> int:
        return max((candidate.stage for candidate in self.taken), default=0)

    def _take(self, candidate: Candidate) -> None:
        self._free(candidate)
        self._taken[candidate.stage, candidate.key] = candidate

    def _free(self, candidate: Candidate) -> None:
        self._goal.free([lease for lease in candidate.leases if not self._freed[lease.key]])
        self._freed.update(lease.key for lease in candidate.leases)

    def _unfree(self, candidate: Candidate) -> None:
        self._freed.subtract(lease.key for lease in candidate.leases)
        self._goal.unfree([lease for lease in candidate.leases if not self._freed[lease.key]])

    def _first_enough(self, waiting: Sequence[Candidate], gains: Mapping[str, int]) -> int | None:
        """The place of the first that is enough alone; most are ruled out by what they could add at the very most."""
        lacks = self._goal.lacks()
        for place, candidate in enumerate(waiting):
            if gains[candidate.key] >= lacks and self.would_reach((candidate,)):
                return place
        return None
