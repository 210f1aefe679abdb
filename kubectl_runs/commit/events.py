"""Events on runs and pods: what was decided, for `kubectl describe`. Best effort; nothing depends on them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from kubectl_runs.commit.steps import Steps, all_of
from kubectl_runs.store.protocol import Create, Object, Request
from kubectl_runs.wire.encode import Json
from kubectl_runs.wire.kinds import API_VERSION, EVENT
from kubectl_runs.wire.times import rfc3339
from planner.model import Entry, Lease

COMPONENT = "kubectl-runs"
MESSAGE_MAX = 1000
PODS_MAX = 16  # events on pods of one decision: more would only bury each other


def run_event(run: Object, reason: str, message: str, *, now: int, nonce: str, warning: bool = False) -> Json:
    metadata = run["metadata"]
    subject = {
        "apiVersion": API_VERSION,
        "kind": "Run",
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
    }
    return _event(subject, reason, message, now=now, nonce=nonce, warning=warning)


def pod_event(namespace: str, name: str, uid: str, reason: str, message: str, *, now: int, nonce: str) -> Json:
    subject = {"apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": name, "uid": uid}
    return _event(subject, reason, message, now=now, nonce=nonce, warning=False)


def pods_stopped(entry: Entry, held: Mapping[str, Lease], why: str, nonce: Callable[[], str]) -> list[Json]:
    """Why pods are stopped, on the pods themselves."""
    leases = [held.get(f"{end.namespace}/{end.lease}") for end in entry.ends]
    stopped = {lease.pod.uid: lease for lease in leases if lease is not None and lease.pod is not None}
    reasons = {f"{end.namespace}/{end.lease}": end.reason for end in entry.ends}
    return [
        pod_event(
            lease.namespace, lease.pod.name, uid, reasons[lease.key], f"stopped: {why}", now=entry.time, nonce=nonce()
        )
        for uid, lease in list(stopped.items())[:PODS_MAX]
        if lease.pod is not None
    ]


def record(events: Iterable[Json]) -> Steps[None]:
    """Write them down; one that cannot be written is left out."""
    yield from all_of(event_writes(events))


def event_writes(events: Iterable[Json]) -> list[Request]:
    return [Create(kind=EVENT, object=event) for event in events]


def _event(subject: Json, reason: str, message: str, *, now: int, nonce: str, warning: bool) -> Json:
    at = rfc3339(now)
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{subject['name']}.{nonce[-16:]}", "namespace": subject["namespace"]},
        "involvedObject": subject,
        "reason": reason.partition("(")[0],
        "message": message[:MESSAGE_MAX],
        "type": "Warning" if warning else "Normal",
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
    }
