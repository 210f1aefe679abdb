"""How good forecasts were: promised against actual start (F5).

Judges promises that were kept or broken; makes none. What is promised is `plan`; who shows the score is the caller's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from planner.model import Lease, Reservation, Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One promise and what became of it."""

    run: str
    promised_at: int
    started_at: int

    @property
    def late(self) -> int:
        """Seconds after the promised start; negative where the run started before it."""
        return self.started_at - self.promised_at


def scores(reservations: Iterable[Reservation], leases: Iterable[Lease]) -> tuple[Score, ...]:
    """F5: promises with a start whose run has started since, by run; the start is that of its first Active lease."""
    begun: dict[tuple[str, str], list[int]] = {}
    for lease in leases:
        if lease.role is not Role.SPARE:
            begun.setdefault((lease.run_key, lease.run_uid), []).append(lease.start_at)
    found = []
    for made in reservations:
        after = [start for start in begun.get((made.run_key, made.run_uid), ()) if start >= made.created_at]
        if made.earliest_start is not None and after:
            found.append(Score(run=made.run_key, promised_at=made.earliest_start, started_at=min(after)))
    return tuple(sorted(found, key=lambda score: (score.run, score.promised_at)))


def mean_error(kept: Sequence[Score]) -> int | None:
    """The mean distance between promised and actual start in whole seconds; None where nothing was promised."""
    return sum(abs(score.late) for score in kept) // len(kept) if kept else None
