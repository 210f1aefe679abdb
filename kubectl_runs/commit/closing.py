"""Which leases may be closed, when, and why (6.6). A GPU is free only by a Close, after its pod is gone.

Gone means absent in a direct read, or in phase Succeeded or Failed: containers that ended may restart. Whatever is
not known counts as held.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kubectl_runs.commit.draft import Draft
from kubectl_runs.commit.life import Life
from kubectl_runs.read import Reading
from kubectl_runs.wire import encode
from kubectl_runs.wire.kinds import LEASE
from planner.digest import digest
from planner.fold import lease_number
from planner.model import Closed, Closure, EntryKind, Lease, Pod, Role, RunRef
from planner.values import dataclass

OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """A lease whose pod is gone: why, and when it finished if that is known."""

    lease: Lease
    reason: str
    finished_at: int | None = None


def gone_leases(reading: Reading, life: Life) -> tuple[Gone, ...]:
    """The run's leases whose pods are gone; spares follow when the run has nothing else left."""
    ends = first_ends(reading)
    pods = {(pod.namespace, pod.name, pod.uid): pod for pod in reading.snapshot.pods}
    found = []
    for lease in life.held:
        if lease.role is Role.SPARE and lease.pod is None:
            if lease.key in ends:
                found.append(Gone(lease=lease, reason=ends[lease.key]))
        elif _known(lease, reading):
            gone = _gone(lease, reading, pods, ends)
            found += [gone] if gone else []
    return (*found, *_spares_left(life, found))


def _spares_left(life: Life, gone: Sequence[Gone]) -> list[Gone]:
    """S3: when a run ends, its spares close with the same reason."""
    closing = {each.lease.key for each in gone}
    if any(lease.key not in closing for lease in life.held if lease.role is not Role.SPARE):
        return []
    working = [lease for lease in life.leases if lease.role is not Role.SPARE and lease.attempt == life.attempt]
    reasons = [each.reason for each in gone if each.lease.role is not Role.SPARE]
    reasons += [lease.closure or "" for lease in working if lease.closed]
    if not reasons:
        return []
    worst = next((reason for reason in reasons if reason != Closure.COMPLETED), Closure.COMPLETED)
    left = [lease for lease in life.held if lease.role is Role.SPARE and lease.key not in closing]
    return [Gone(lease=lease, reason=worst) for lease in left]


def _known(lease: Lease, reading: Reading) -> bool:
    """Whether pods were listed after this lease's pod existed; else an absent pod says nothing (races 9)."""
    number = lease_number(lease.name)
    written = reading.object(LEASE, lease.key) is not None
    return written or number <= reading.seen


def _gone(
    lease: Lease, reading: Reading, pods: Mapping[tuple[str, str, str], Pod], ends: Mapping[str, str]
) -> Gone | None:
    if lease.pod is None:
        return None
    pod = pods.get((lease.namespace, lease.pod.name, lease.pod.uid))
    if pod is None:
        if not _listed(lease.namespace, reading):
            return None
        return Gone(lease=lease, reason=ends.get(lease.key) or _lost(lease, reading))
    if pod.live:
        return None
    by_itself = Closure.COMPLETED if pod.phase == "Succeeded" else _lost(lease, reading)
    # 6.6: the first `ends` gives the reason.
    return Gone(lease=lease, reason=ends.get(lease.key) or by_itself, finished_at=pod.finished_at)


def _listed(namespace: str, reading: Reading) -> bool:
    """Where foreign pods are not visible, a namespace whose pods were not listed tells nothing: unknown means held."""
    return reading.snapshot.pods_visible or namespace in reading.pod_namespaces


def _lost(lease: Lease, reading: Reading) -> str:
    """S1: a node failed only if its Node object is gone or it carries the out-of-service taint."""
    return Closure.NODE_FAILURE if failed_node(lease.node, reading) else Closure.FAIL


def failed_node(name: str, reading: Reading) -> bool:
    node = next((node for node in reading.snapshot.nodes if node.name == name), None)
    return node is None or any(taint.key == OUT_OF_SERVICE for taint in node.taints)


def first_ends(reading: Reading) -> dict[str, str]:
    """Why each lease is to end: the first entry that ends it says so (6.6)."""
    reasons: dict[str, str] = {}
    for entry in sorted(reading.snapshot.entries, key=lambda entry: entry.seq):
        for end in entry.ends if not entry.void else ():
            reasons.setdefault(f"{end.namespace}/{end.lease}", end.reason)
    return reasons


def close_draft(run: RunRef, gone: Iterable[Gone], reading: Reading) -> Draft:
    """One Close entry of one run."""
    closes = tuple(sorted((_closed(each, reading) for each in gone), key=lambda close: lease_number(close.lease)))
    return Draft(kind=EntryKind.CLOSE, run=run, closes=closes)


def _closed(gone: Gone, reading: Reading) -> Closed:
    """6.6: `at` = finishedAt, else server time of the read, clamped to [lease start, that time]."""
    lease = gone.lease
    at = reading.read_at if gone.finished_at is None else gone.finished_at
    at = max(lease.start_at, min(at, reading.read_at))
    return Closed(
        namespace=lease.namespace,
        lease=lease.name,
        at=at,
        reason=gone.reason,
        gpu_seconds=lease.gpus * (at - lease.start_at),
        payer=lease.payer,
        funding=lease.funding,
        spec=lease_digest(lease, reading),
    )


def lease_digest(lease: Lease, reading: Reading) -> str:
    """Digest of the lease's spec as it is written, or as its entry has it written."""
    written = reading.object(LEASE, lease.key)
    if written is not None:
        return digest(encode.without_nulls(written["spec"]))
    entry = next(entry for entry in reading.snapshot.entries if entry.seq == lease_number(lease.name))
    open_ = next(open_ for open_ in entry.opens if open_.lease == lease.name)
    return digest(encode.lease_spec(entry, open_))
