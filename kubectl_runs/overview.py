"""How runs stand, from the facts: open leases say width and payers, reservations say when and why not yet.

A run's own status is only asked where facts do not say it (how it ended). Nothing here plans, and nothing is decoded
further than a row needs: `list` has to be about as quick as `kubectl get`, and the planner's words cost more to load
than the rest of it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kubectl_runs.store.protocol import List, Reply, Request
from kubectl_runs.wire import times
from kubectl_runs.wire.kinds import LEASE, RESERVATION, RUN

if TYPE_CHECKING:
    from kubectl_runs.session import Session

Json = dict[str, Any]

OPEN = "status.closed!=true"
STANDING = ("Pending", "Active", "Blocked")


class Overview(NamedTuple):
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


class Share(NamedTuple):
    """What a row needs of a lease."""

    run_key: str
    run_uid: str
    owner: str
    gpus: int
    spare: bool
    payer: str
    closed: bool
    closure: str
    ended: tuple[int, str]  # attempt and end: the last one tells how the run ended


def read(session: Session, *, labels: str = "", namespace: str | None = None) -> tuple[list[Json], list[Overview]]:
    """The runs of a namespace (empty: all; None: the session's scope), as objects and as rows."""
    where = session.scope if namespace is None else namespace
    requests: tuple[Request, ...] = (
        List(kind=RUN, namespace=where, labels=labels),
        List(kind=RESERVATION, namespace=where),
        List(kind=LEASE, namespace=where, fields=OPEN),
    )
    runs, promises, held = (_good(outcome).items for outcome in session.store.perform_all(requests))
    if not session.is_file:
        return list(runs), overviews(runs, held, promises)
    # Nobody writes a file's leases and statuses: its entries, closed leases and promises have to tell all.
    from kubectl_runs.past import Past

    facts = [obj for obj, _ in Past(session).found(lambda _: True, namespace=where)]
    rows = overviews(runs, facts, promises)
    by_key = {row.key: row for row in rows}
    return [_with_status(run, by_key[f"{_namespace(run)}/{run['metadata']['name']}"]) for run in runs], rows


def _with_status(run: Json, row: Overview) -> Json:
    """The run with the status that its row shows, where the file has none."""
    if (run.get("status") or {}).get("phase"):
        return run
    wanted = row.gpus_wanted
    elastic = (run.get("spec") or {}).get("malleable") or {}
    status: Json = {
        "phase": row.phase,
        "width": {
            "min": elastic.get("minTotalGPUs", wanted),
            "max": elastic.get("maxTotalGPUs", wanted),
            "desired": wanted,
            "allocated": row.gpus,
            "pending": max(0, wanted - row.gpus) if row.phase in ("Pending", "Running") else 0,
        },
    }
    if row.reason:
        status["message"] = row.reason
    if row.earliest_start is not None:
        status["earliestStart"] = times.rfc3339(row.earliest_start)
    return {**run, "status": {**status, **(run.get("status") or {})}}


def _good(outcome: Any) -> Reply:
    if not isinstance(outcome, Reply):
        raise outcome
    return outcome


def overviews(runs: Iterable[Json], leases: Iterable[Json], reservations: Iterable[Json]) -> list[Overview]:
    """One row a run, by namespace and name."""
    by_run: dict[str, list[Share]] = defaultdict(list)
    for share in map(_share, leases):
        by_run[share.run_key].append(share)
    promised = {}
    for promise in reservations:
        if ((promise.get("status") or {}).get("state") or "Pending") in STANDING:
            promised[f"{_namespace(promise)}/{promise['spec']['runRef']['name']}"] = promise
    rows = [_overview(run, by_run, promised) for run in runs]
    return sorted(rows, key=lambda row: (row.namespace, row.name))


def _namespace(obj: Json) -> str:
    return str(obj["metadata"].get("namespace") or "default")


def _share(lease: Json) -> Share:
    spec, status = lease["spec"], lease.get("status") or {}
    return Share(
        run_key=f"{_namespace(lease)}/{spec['runRef']['name']}",
        run_uid=str(spec["runRef"].get("uid") or ""),
        owner=str(spec.get("owner") or ""),
        gpus=spec["slice"]["gpus"],
        spare=spec["slice"]["role"] == "Spare",
        payer=f"{spec['paidByBudget']}/{spec['paidByEnvelope']}",
        closed=status.get("closed") is True,
        closure=str(status.get("closureReason") or "").partition("(")[0],
        ended=(spec["runRef"].get("attempt") or 1, str(status.get("endTime") or "")),
    )


def _overview(run: Json, by_run: Mapping[str, list[Share]], promised: Mapping[str, Json]) -> Overview:
    metadata, spec, status = run["metadata"], run.get("spec") or {}, run.get("status") or {}
    key = f"{_namespace(run)}/{metadata['name']}"
    uid = str(metadata.get("uid") or "")
    own = [share for share in by_run.get(key, ()) if not uid or share.run_uid == uid]
    held = [share for share in own if not share.closed]
    phase = str(status.get("phase") or _phase(spec, own))
    waiting = promised.get(key) if phase == "Pending" else None
    resources = spec.get("resources") or {}
    return Overview(
        namespace=_namespace(run),
        name=metadata["name"],
        phase=phase,
        gpus=sum(share.gpus for share in held if not share.spare),
        gpus_wanted=(spec.get("malleable") or {}).get("desiredTotalGPUs") or resources.get("totalGPUs") or 0,
        spare_gpus=sum(share.gpus for share in held if share.spare),
        payers=_payers(held),
        reason=_reason(phase, spec, status, own, waiting),
        earliest_start=_instant(waiting["spec"].get("earliestStart")) if waiting else None,
        # Where the spec is silent the owner is the namespace's; leases have recorded it.
        owner=str(spec.get("owner") or next((share.owner for share in own), "")),
        flavor=str(resources.get("gpuType") or ""),
        created_at=_instant(metadata.get("creationTimestamp")),
        message=str(status.get("message") or ""),
    )


def _instant(value: Any) -> int | None:
    try:
        return times.instant(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _phase(spec: Json, own: Sequence[Share]) -> str:
    """Where nobody has written a status: what the leases say."""
    if any(not share.closed for share in own):
        return "Running"
    if spec.get("canceled") is True:
        return "Failed"
    if not own:
        return "Pending"
    return "Completed" if max(own, key=lambda share: share.ended).closure == "Completed" else "Failed"


def _payers(held: Iterable[Share]) -> tuple[tuple[str, int], ...]:
    shares: Counter[str] = Counter()
    for share in held:
        shares[share.payer] += share.gpus
    return tuple(sorted(shares.items(), key=lambda share: (-share[1], share[0])))


def _reason(phase: str, spec: Json, status: Json, own: Sequence[Share], waiting: Json | None) -> str:
    """One word why a run is not simply running."""
    if waiting is not None:
        told = waiting.get("status") or {}
        return str(told.get("reason") or told.get("state") or "Reserved")
    canceled = spec.get("canceled") is True
    if phase == "Running":
        return "Canceling" if canceled else ""
    if phase == "Completed":
        return ""
    if phase == "Failed":
        last = max(own, key=lambda share: share.ended).closure if own else ""
        return "Canceled" if canceled else _condition(status, phase) or last
    return _condition(status, "Running") or "NotSubmitted"


def _condition(status: Json, kind: str) -> str:
    found = [part for part in status.get("conditions") or () if isinstance(part, dict) and part.get("type") == kind]
    return str(found[-1].get("reason") or "") if found else ""
