"""The planning state of a store as plain objects: what planning needs, and nothing else of anybody's.

Read in the order of 6.1, so that whatever has left the entries is in the leases. Pods keep no command line and no
environment: those may hold secrets, and no plan depends on them.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kubectl_runs.errors import RunsError
from kubectl_runs.store.protocol import List, NotFound, Reply, StoreError
from kubectl_runs.store.snapshot import SAVED_AT
from kubectl_runs.text import plural
from kubectl_runs.wire.kinds import (
    BUDGET,
    LEASE,
    LEDGER,
    LEDGER_ENTRY,
    NAMESPACE,
    NODE,
    POD,
    RESERVATION,
    RUN,
    Kind,
)
from kubectl_runs.wire.times import rfc3339

if TYPE_CHECKING:
    from kubectl_runs.store.protocol import Store

Json = dict[str, Any]

# 6.1: base, entries, runs and reservations, leases, pods, nodes, budgets, namespaces; what stands together is read
# at once.
ORDER: tuple[tuple[Kind, ...], ...] = (
    (LEDGER,),
    (LEDGER_ENTRY,),
    (RUN, RESERVATION),
    (LEASE,),
    (POD, NODE, BUDGET, NAMESPACE),
)
METADATA = (
    "name",
    "namespace",
    "uid",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "labels",
    "ownerReferences",
)
OWNER_REFERENCE = ("apiVersion", "kind", "name", "uid")
CONTAINER = ("name", "resources", "restartPolicy")
SPEC_OF_POD = ("nodeName", "schedulerName", "overhead", "initContainers", "containers")
CONTAINER_STATUS = ("name", "state")


def collect(store: Store, *, history: bool = True) -> list[Json]:
    """All planning objects, by kind, namespace and name."""
    found: list[Json] = []
    for together in ORDER:
        outcomes = store.perform_all([List(kind=kind) for kind in together])
        for kind, outcome in zip(together, outcomes, strict=True):
            found += [pruned(kind, item) for item in _items(kind, outcome)]
    return found if history else without_history(found)


def _items(kind: Kind, outcome: Reply | StoreError) -> Sequence[Json]:
    if isinstance(outcome, NotFound):
        hint = "kubectl runs install"
        raise RunsError(f"the cluster does not know the kind {kind.name} of {kind.api_version}", hint=hint)
    if isinstance(outcome, StoreError):
        raise outcome
    return outcome.items


def without_history(objects: Sequence[Json]) -> list[Json]:
    """Without closed leases and without entries that the base has taken up."""
    base: Json = next((obj["spec"] for obj in objects if obj["kind"] == "Ledger"), {})
    first, pending = (base.get("seq") or 0), frozenset(base.get("pending") or ())

    def is_current(obj: Json) -> bool:
        if obj["kind"] == "Lease":
            return (obj.get("status") or {}).get("closed") is not True
        if obj["kind"] == "LedgerEntry":
            seq = int(obj["metadata"]["name"])
            return seq >= first or seq in pending
        return True

    return [obj for obj in objects if is_current(obj)]


def pruned(kind: Kind, obj: Json) -> Json:
    """What planning reads of an object."""
    metadata = obj.get("metadata") or {}
    kept = {key: metadata[key] for key in METADATA if metadata.get(key)}
    if kind is NAMESPACE and metadata.get("annotations"):
        kept["annotations"] = {key: value for key, value in metadata["annotations"].items() if key.endswith("/owner")}
    if "ownerReferences" in kept:
        kept["ownerReferences"] = [_only(part, OWNER_REFERENCE) for part in kept["ownerReferences"]]
    made: Json = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": kept}
    spec, status = obj.get("spec"), obj.get("status")
    if kind is POD:
        spec, status = _pod_spec(spec or {}), _pod_status(status or {})
    elif kind is NODE:
        status = {
            "allocatable": (status or {}).get("allocatable") or {},
            "conditions": [
                _only(part, ("type", "status"))
                for part in (status or {}).get("conditions") or ()
                if part.get("type") == "Ready"
            ],
        }
        spec = _only(spec or {}, ("unschedulable", "taints"))
    return made | {key: value for key, value in (("spec", spec), ("status", status)) if value}


def _only(part: Json, keys: Iterable[str]) -> Json:
    return {key: part[key] for key in keys if key in part}


def _pod_spec(spec: Json) -> Json:
    kept = _only(spec, SPEC_OF_POD)
    for key in ("containers", "initContainers"):
        if key in kept:
            kept[key] = [_only(container, CONTAINER) for container in kept[key]]
    return kept


def _pod_status(status: Json) -> Json:
    kept = _only(status, ("phase",))
    if status.get("containerStatuses"):
        kept["containerStatuses"] = [_only(part, CONTAINER_STATUS) for part in status["containerStatuses"]]
    return kept


def as_list(objects: Sequence[Json], *, saved_at: int) -> Json:
    """One Kubernetes List that says when it was saved."""
    metadata = {"annotations": {SAVED_AT: rfc3339(saved_at)}}
    return {"apiVersion": "v1", "kind": "List", "metadata": metadata, "items": list(objects)}


def write(file: str, whole: Json) -> None:
    """JSON with one object a line: quick to read, and differences show by object."""
    head = json.dumps({key: value for key, value in whole.items() if key != "items"})[:-1]
    items = ",\n".join(json.dumps(item, separators=(",", ":")) for item in whole["items"])
    text = f'{head}, "items": [\n{items}\n]}}\n'
    if file == "-":
        sys.stdout.write(text)
        return
    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise RunsError(f"{file}: {(error.strerror or str(error)).lower()}") from None


def counted(objects: Sequence[Json]) -> str:
    """`2 Runs, 6 Nodes`."""
    counts = Counter(obj["kind"] for obj in objects)
    words = {"LedgerEntry": "LedgerEntries"}
    return ", ".join(plural(count, kind, words.get(kind, "")) for kind, count in sorted(counts.items())) or "nothing"
