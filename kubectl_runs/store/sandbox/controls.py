"""What only a simulated cluster can be told to do: fail a node, end a run's pods, say what happened meanwhile."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum

from kubectl_runs.store.protocol import Object
from kubectl_runs.store.sandbox import lifecycle, objects
from kubectl_runs.store.sandbox.database import Transaction
from kubectl_runs.store.sandbox.store import SandboxStore
from kubectl_runs.wire.kinds import NODE, POD, RUN


class Failure(StrEnum):
    """How a node fails. Only the first two say so (S1); an unready node may come back."""

    OUT_OF_SERVICE = "out-of-service"
    REMOVED = "removed"
    NOT_READY = "not-ready"


def fail_node(store: SandboxStore, name: str, how: Failure) -> int:
    """Fail a node; how many live pods were on it. They stay as they are: nobody can tell them anything any more."""
    with store.database.writing() as tx:
        node = objects.found(tx, NODE, "", name)
        lost = [pod for pod in tx.all(POD) if pod["spec"].get("nodeName") == name and _live(pod)]
        if how is Failure.REMOVED:
            lifecycle.delete(tx, NODE, node)
        else:
            lifecycle.keep(tx, _failed(node, how))
        lifecycle.node_changed(tx, name)
        return len(lost)


def complete(store: SandboxStore, namespace: str, run: str, phase: str) -> int:
    """End all running pods of a run now; how many there were."""
    with store.database.writing() as tx:
        uid = objects.found(tx, RUN, namespace, run)["metadata"]["uid"]
        pods = [pod for pod in tx.all(POD, namespace) if _owned(pod, uid) and pod["status"]["phase"] == "Running"]
        for pod in pods:
            lifecycle.keep(tx, lifecycle.ended(tx, pod, phase))
        return len(pods)


def advance(store: SandboxStore, seconds: int) -> tuple[int, Counter[str]]:
    """Let time pass; the time it is then, and how many pods succeeded, failed or went meanwhile."""
    with store.database.writing() as tx:
        before = tx.version
        lifecycle.let_pass(tx, seconds * 1000)
        return tx.now, _happened(tx, before)


def _happened(tx: Transaction, version: int) -> Counter[str]:
    seen: Counter[str] = Counter()
    for change in tx.changes(version, POD):
        if change.after is None:
            seen["gone"] += 1
        elif change.after["status"]["phase"] in lifecycle.ENDED:
            seen[change.after["status"]["phase"].lower()] += 1
    return seen


def _failed(node: Object, how: Failure) -> Object:
    spec, status = dict(node.get("spec") or {}), dict(node.get("status") or {})
    if how is Failure.OUT_OF_SERVICE:
        taint = {"key": lifecycle.OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute"}
        spec["taints"] = [item for item in spec.get("taints") or () if item["key"] != taint["key"]] + [taint]
    conditions = [item for item in status.get("conditions") or () if item["type"] != "Ready"]
    status["conditions"] = [*conditions, {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]
    return {**node, "spec": spec, "status": status}


def _live(pod: Object) -> bool:
    return pod["status"]["phase"] not in lifecycle.ENDED


def _owned(pod: Object, uid: str) -> bool:
    return any(owner.get("uid") == uid for owner in pod["metadata"].get("ownerReferences") or ())
