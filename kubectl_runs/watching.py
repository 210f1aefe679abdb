"""One run as it stands at an instant, and what changed between two instants. Reads only.

Decides when a run is over for somebody who watches: its status says so, or every pod of its leases has ended and it
will not be tried again, although nobody may have settled it yet (without a daemon somebody has to run a command).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kubectl_runs.errors import NotFoundError
from kubectl_runs.overview import Overview, overviews
from kubectl_runs.store.protocol import Get, List, NotFound, Reply, Request, Store, StoreError
from kubectl_runs.wire import decode
from kubectl_runs.wire.encode import LABEL_RUN
from kubectl_runs.wire.kinds import LEASE, POD, RESERVATION, RUN
from planner.model import Lease, Pod, Role

Json = dict[str, Any]

ENDED = ("Completed", "Failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What is to be seen of a run."""

    at: int  # server time
    row: Overview
    leases: tuple[Lease, ...]
    pods: tuple[tuple[str, str], ...]  # UID and phase of its pods
    gpus_min: int | None
    gpus_step: int | None
    outcome: str  # "Completed" or "Failed" once it is over, else empty
    unsettled: bool  # over, but its leases are still open

    @property
    def held(self) -> tuple[Lease, ...]:
        return tuple(lease for lease in self.leases if not lease.closed)


def look(store: Store, namespace: str, name: str) -> View:
    """The run, its leases, its promise and its pods."""
    requests: tuple[Request, ...] = (
        Get(kind=RUN, name=name, namespace=namespace),
        List(kind=LEASE, namespace=namespace, fields=f"spec.runRef.name={name}"),
        Get(kind=RESERVATION, name=name, namespace=namespace),
        List(kind=POD, namespace=namespace, labels=f"{LABEL_RUN}={name}"),
    )
    run, leases, promise, pods = store.perform_all(requests)
    if isinstance(run, NotFound):
        raise NotFoundError(f"run {name} not found in namespace {namespace}", hint="kubectl runs list -A")
    promises = [] if isinstance(promise, NotFound) else [_good(promise).object]
    seen = [decode.pod(item) for item in _good(pods).items]
    return view(_good(run).object, list(_good(leases).items), promises, seen, at=_good(run).server_time)


def _good(outcome: Reply | StoreError) -> Reply:
    if isinstance(outcome, StoreError):
        raise outcome
    return outcome


def view(run: Json, leases: Sequence[Json], promises: Sequence[Json], pods: Sequence[Pod], *, at: int) -> View:
    """What follows from the objects."""
    uid = run["metadata"].get("uid") or ""
    own = [lease for lease in decode.leniently(decode.lease, leases) if not uid or lease.run_uid == uid]
    own.sort(key=lambda lease: (lease.group, lease.start_at, lease.name))
    (row,) = overviews([run], leases, promises)
    outcome = _outcome(run, row, own, pods)
    malleable = (run.get("spec") or {}).get("malleable") or {}
    return View(
        at=at,
        row=row,
        leases=tuple(own),
        pods=tuple(sorted((pod.uid, pod.phase) for pod in pods)),
        gpus_min=malleable.get("minTotalGPUs"),
        gpus_step=malleable.get("stepGPUs"),
        outcome=outcome,
        unsettled=bool(outcome) and any(not lease.closed for lease in own),
    )


def _outcome(run: Json, row: Overview, own: Sequence[Lease], pods: Sequence[Pod]) -> str:
    held = [lease for lease in own if not lease.closed]
    if row.phase in ENDED and not held:
        return row.phase
    phases = {pod.uid: pod.phase for pod in pods}
    working = [phases.get(lease.pod.uid, "Unknown") for lease in held if lease.pod is not None]
    if working and all(phase == "Succeeded" for phase in working):
        return "Completed"
    policy = (run.get("spec") or {}).get("runtime") or {}
    final = not policy.get("maxRetries") and not policy.get("checkpoint") and not run["spec"].get("malleable")
    if final and any(phase == "Failed" for phase in working):
        return "Failed"
    return ""


def changes(before: View | None, now: View) -> Iterator[str]:
    """What happened between two looks, a few words each; nothing if nothing did."""
    if before is None:
        yield _standing(now)
        return
    known = {lease.name: lease for lease in before.leases}
    opened = Counter(lease.reason.value for lease in now.leases if lease.name not in known for _ in range(lease.gpus))
    yield from (f"+{gpus} {reason}" for reason, gpus in sorted(opened.items()))
    closed: Counter[str] = Counter()
    for lease in now.leases:
        earlier = known.get(lease.name)
        if lease.closed and (earlier is None or not earlier.closed):
            closed[lease.closure or ""] += lease.gpus
    yield from (f"-{gpus} {reason}" for reason, gpus in sorted(closed.items()))
    if (now.row.reason, now.row.earliest_start) != (before.row.reason, before.row.earliest_start) and now.row.reason:
        yield _standing(now)
    if now.outcome and not before.outcome:
        yield now.outcome
    elif now.row.phase != before.row.phase and not opened and not closed:
        yield now.row.phase


def _standing(now: View) -> str:
    from kubectl_runs.wire.times import rfc3339

    if now.outcome:
        return now.outcome
    if now.row.reason:
        start = now.row.earliest_start
        return now.row.reason + (f" until {rfc3339(start)}" if start is not None else "")
    return "since " + rfc3339(min((lease.start_at for lease in now.held), default=now.at))


def spares(now: View) -> int:
    return sum(lease.gpus for lease in now.held if lease.role is Role.SPARE)
