"""Which runs have something to settle, seen from one reading without asking the server again.

A filter: whoever acts on it reads the run anew and decides from that. It looks at each lease once, so that a command
may ask however many runs there are.
"""

from __future__ import annotations

from kubectl_runs.commit.closing import OUT_OF_SERVICE
from kubectl_runs.read import Reading
from kubectl_runs.wire.kinds import LEASE, RUN
from planner.fold import lease_number, open_leases
from planner.model import Lease, Role, Run


def over(reading: Reading, namespace: str = "", *, thorough: bool = True) -> tuple[str, ...]:
    """Keys of runs that have something to end or close, by key.

    `thorough` also finds those whose status lags or whose width was lowered: others may be at work on them right now,
    so a command that only passes by leaves them alone.
    """
    held: dict[str, list[Lease]] = {}
    for lease in open_leases(reading.snapshot).values():
        held.setdefault(lease.run_uid, []).append(lease)
    gone = _gone(reading, held)
    found = []
    for run in sorted(reading.snapshot.runs, key=lambda run: run.key):
        if namespace and run.namespace != namespace:
            continue
        stopped = run.deleting or (run.canceled and run.uid in held)
        if stopped or run.uid in gone or (thorough and _lags(reading, run, held.get(run.uid, []))):
            found.append(run.key)
    return tuple(found)


def _gone(reading: Reading, held: dict[str, list[Lease]]) -> set[str]:
    """UIDs of runs that hold a lease whose pod or node is gone."""
    live = {(pod.namespace, pod.name, pod.uid) for pod in reading.snapshot.pods if pod.live}
    nodes = {
        node.name for node in reading.snapshot.nodes if not any(taint.key == OUT_OF_SERVICE for taint in node.taints)
    }
    return {
        uid
        for uid, leases in held.items()
        if any(lease.node not in nodes or _pod_gone(reading, lease, live) for lease in leases)
    }


def _pod_gone(reading: Reading, lease: Lease, live: set[tuple[str, str, str]]) -> bool:
    if lease.pod is None or (lease.namespace, lease.pod.name, lease.pod.uid) in live:
        return False
    return lease_number(lease.name) <= reading.seen or reading.object(LEASE, lease.key) is not None


def _lags(reading: Reading, run: Run, held: list[Lease]) -> bool:
    """Whether its status says something else than its leases do, or it holds more than it desires."""
    status = (reading.object(RUN, run.key) or {}).get("status") or {}
    counted = (status.get("leases") or {}).get("open") or 0
    if not held:
        # Its closed leases are not in this reading: where its status speaks of open ones, somebody has to look.
        return bool(counted) and status.get("phase") not in ("Completed", "Failed")
    width = sum(lease.gpus for lease in held if lease.role is not Role.SPARE)
    wide = run.malleable is not None and width > run.malleable.gpus_desired
    return wide or counted != len(held) or status.get("phase") != "Running"
