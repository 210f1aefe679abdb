"""What a plan leaves behind: the run and its leases in the snapshot, as a commit would write them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from planner.admit import Fit
from planner.model import Lease, Run, Seat, Snapshot


def leases_of(run: Run, seats: Iterable[Seat], now: int, *, prefix: str = "lease", first: int = 0) -> tuple[Lease, ...]:
    """The leases of a run that started in these seats, named `<prefix>-<number>` from `first` on."""
    return tuple(
        Lease(
            namespace=run.namespace,
            name=f"{prefix}-{first + number}",
            owner=run.owner,
            run_name=run.name,
            run_uid=run.uid,
            group=seat.group,
            node=seat.node,
            gpus=seat.gpus,
            role=seat.role,
            start_at=now,
            payer=seat.payer,
            funding=seat.funding,
        )
        for number, seat in enumerate(seats)
    )


def committed(snapshot: Snapshot, run: Run, fit: Fit, now: int) -> Snapshot:
    """The snapshot with the run started at `now`."""
    leases = leases_of(run, fit.seats, now, first=len(snapshot.leases))
    others = tuple(other for other in snapshot.runs if other.key != run.key)
    return replace(snapshot, runs=(*others, run), leases=(*snapshot.leases, *leases))
