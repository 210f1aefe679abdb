"""Leases as rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubectl_runs.text import span
from kubectl_runs.wire.times import rfc3339

if TYPE_CHECKING:
    from planner.model import Lease

HEADER = ("NAMESPACE", "RUN", "NODE", "GPUS", "ROLE", "PAYER", "CLASS", "START", "END", "HELD", "WHY")
WIDE = ("LEASE", "GROUP", "ATTEMPT", "POD", "OWNER", "GPU-SECONDS")
RIGHT = (3, 9)


def row(lease: Lease, now: int, *, wide: bool = False) -> tuple[str, ...]:
    """One lease; WHY is why it ended, else why it began."""
    end = now if lease.end_at is None else lease.end_at
    seed = (lease.closure or "").partition("(")[2]
    closure = f"{(lease.closure or '').partition('(')[0]}({seed[:8]}…)" if seed and not wide else lease.closure
    cells = (
        lease.namespace,
        lease.run_name,
        lease.node,
        str(lease.gpus),
        str(lease.role),
        lease.payer.name,
        str(lease.funding),
        rfc3339(lease.start_at),
        "-" if lease.end_at is None else rfc3339(lease.end_at),
        span(end - lease.start_at),
        closure or str(lease.reason),
    )
    if not wide:
        return cells
    more = (lease.name, lease.group, lease.attempt, lease.pod.name if lease.pod else "-", lease.owner)
    return (*cells, *map(str, more), str(lease.gpus * (end - lease.start_at)))
