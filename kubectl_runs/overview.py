"""How runs stand, from the facts: open leases say width and payers, reservations say when and why not yet.

A run's own status is only asked where facts do not say it (how it ended). Nothing here plans.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kubectl_runs.store.protocol import List, Reply, Request
from kubectl_runs.wire import decode
from kubectl_runs.wire.kinds import LEASE, RESERVATION, RUN
from planner.model import Lease, Reservation, Role

if TYPE_CHECKING:
    from kubectl_runs.session import Session

Json = dict[str, Any]

OPEN = "status.closed!=true"


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """One run as a row: what it is, what it holds, what it waits for."""

    namespace: str
    name: str
    phase: str
    gpus: int  # active GPUs it holds
    gpus_wanted: int
    spare_gpus: int
    payers: tuple[tuple[str, int], ...]  # `budget/envelope` and GPUs, most first
    reason: str
    earliest_start: int | None
    owner: str
    flavor: str
    created_at: int | None
    message: str

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


def read(session: Session, *, labels: str = "", namespace: str | None = None) -> tuple[list[Json], list[Overview]]:
    """The runs of a namespace (empty: all; None: the session's scope), as objects and as rows."""
    where = session.scope if namespace is None else namespace
    requests: tuple[Request, ...] = (
        List(kind=RUN, namespace=where, labels=labels),
        # How a run ended is in its status on a cluster; a file may hold nothing but its leases.
        List(kind=LEASE, namespace=where, fields="" if session.is_file else OPEN),
        List(kind=RESERVATION, namespace=where),
    )
    runs, held, promises = (_good(outcome) for outcome in session.store.perform_all(requests))
    rows = overviews(runs.items, decode.leniently(decode.lease, held.items), promises.items)
    return list(runs.items), rows


def _good(outcome: Any) -> Reply:
    if not isinstance(outcome, Reply):
        raise outcome
    return outcome


def overviews(runs: Sequence[Json], leases: Iterable[Lease], reservations: Iterable[Json]) -> list[Overview]:
    """One row a run, by namespace and name."""
    by_run: dict[str, list[Lease]] = defaultdict(list)
    for lease in leases:
        by_run[lease.run_key].append(lease)
    promised = {
        promise.run_key: promise for promise in decode.leniently(decode.reservation, reservations) if promise.open
    }
    rows = [_overview(run, by_run, promised) for run in runs]
    return sorted(rows, key=lambda row: (row.namespace, row.name))


def _overview(run: Json, by_run: Mapping[str, list[Lease]], promised: Mapping[str, Reservation]) -> Overview:
    metadata, spec, status = run["metadata"], run.get("spec") or {}, run.get("status") or {}
    key = f"{metadata.get('namespace') or 'default'}/{metadata['name']}"
    uid = str(metadata.get("uid") or "")
    own = [lease for lease in by_run.get(key, ()) if not uid or lease.run_uid == uid]
    held = [lease for lease in own if not lease.closed]
    phase = str(status.get("phase") or _phase(spec, own))
    waiting = promised.get(key) if phase == "Pending" else None
    resources = spec.get("resources") or {}
    wanted = (spec.get("malleable") or {}).get("desiredTotalGPUs") or resources.get("totalGPUs") or 0
    return Overview(
        namespace=key.partition("/")[0],
        name=metadata["name"],
        phase=phase,
        gpus=sum(lease.gpus for lease in held if lease.role is not Role.SPARE),
        gpus_wanted=wanted,
        spare_gpus=sum(lease.gpus for lease in held if lease.role is Role.SPARE),
        payers=_payers(held),
        reason=_reason(phase, spec, status, own, waiting),
        earliest_start=waiting.earliest_start if waiting else None,
        owner=str(spec.get("owner") or ""),
        flavor=str(resources.get("gpuType") or ""),
        created_at=decode.lenient_instant(metadata.get("creationTimestamp")),
        message=str(status.get("message") or ""),
    )


def _phase(spec: Json, own: Sequence[Lease]) -> str:
    """Where nobody has written a status: what the leases say."""
    if any(not lease.closed for lease in own):
        return "Running"
    ended = [lease.closure or "" for lease in sorted(own, key=lambda lease: (lease.attempt, lease.end_at or 0))]
    if ended and spec.get("canceled") is not True:
        return "Completed" if ended[-1] == "Completed" else "Failed"
    return "Failed" if spec.get("canceled") is True else "Pending"


def _payers(held: Iterable[Lease]) -> tuple[tuple[str, int], ...]:
    shares: Counter[str] = Counter()
    for lease in held:
        shares[lease.payer.name] += lease.gpus
    return tuple(sorted(shares.items(), key=lambda share: (-share[1], share[0])))


def _reason(phase: str, spec: Json, status: Json, own: Sequence[Lease], waiting: Reservation | None) -> str:
    """One word why a run is not simply running."""
    if waiting is not None:
        return waiting.reason or waiting.state
    if phase == "Running":
        return "Canceling" if spec.get("canceled") is True else ""
    if phase == "Completed":
        return ""
    if phase == "Failed":
        if spec.get("canceled") is True:
            return "Canceled"
        return _condition(status, phase) or next((lease.closure or "" for lease in reversed(own)), "").partition("(")[0]
    return _condition(status, "Running") or "NotSubmitted"


def _condition(status: Json, kind: str) -> str:
    found = [part for part in status.get("conditions") or () if isinstance(part, dict) and part.get("type") == kind]
    return str(found[-1].get("reason") or "") if found else ""
