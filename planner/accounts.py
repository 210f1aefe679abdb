"""Running sums over leases, by payer: what is held, what is settled, and what open leases will still use (C2).

Sums know no caps and no calendar; what they leave of an envelope is `books`.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.model import Lease, Role


@dataclass(slots=True)
class Sums:
    """Running sums over leases. Timed leases have a known end, endless ones accrue with the clock."""

    gpus: int = 0  # in concurrency: fillers do not count (O1)
    settled: int = 0  # GPU-seconds of ended leases
    timed_gpus: int = 0
    timed_starts: int = 0  # sum of gpus x start
    timed_ends: int = 0
    endless_gpus: int = 0
    endless_starts: int = 0

    def open(self, lease: Lease, end_at: int | None, sign: int = 1) -> None:
        """Takes an open lease in, or out again with sign -1."""
        gpus = sign * lease.gpus
        if lease.role is not Role.FILLER:  # O1
            self.gpus += gpus
        if end_at is None:
            self.endless_gpus += gpus
            self.endless_starts += gpus * lease.start_at
        else:
            self.timed_gpus += gpus
            self.timed_starts += gpus * lease.start_at
            self.timed_ends += gpus * end_at

    def elapsed(self, now: int) -> int:
        """GPU-seconds that open leases have used so far."""
        return (self.timed_gpus + self.endless_gpus) * now - self.timed_starts - self.endless_starts

    def spent(self, now: int, ahead: int) -> int:
        """C2: settled, used, and the remaining look-ahead of what is open, in GPU-seconds."""
        timed = self.timed_ends - self.timed_starts
        return self.settled + timed + self.endless_gpus * (now + ahead) - self.endless_starts

    def copy(self) -> Sums:
        return Sums(
            self.gpus,
            self.settled,
            self.timed_gpus,
            self.timed_starts,
            self.timed_ends,
            self.endless_gpus,
            self.endless_starts,
        )


@dataclass(slots=True)
class Account:
    """One envelope's sums, and those of them that are loans."""

    total: Sums
    lent: Sums

    def copy(self) -> Account:
        return Account(self.total.copy(), self.lent.copy())
