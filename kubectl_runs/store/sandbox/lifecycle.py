"""What a cluster does by itself: kubelets, the garbage collectors, and namespaces that empty.

Decides when simulated pods run and end (by the virtual clock), what goes when its owner goes, and when something
marked for deletion is really gone. A pod ends as its annotations say; one on a failed node does nothing any more.
"""

from __future__ import annotations

from kubectl_runs.store.protocol import Object
from kubectl_runs.store.sandbox import metadata as meta
from kubectl_runs.store.sandbox import objects
from kubectl_runs.store.sandbox.database import Transaction
from kubectl_runs.wire.kinds import GROUP, NAMESPACE, NODE, POD, Kind
from kubectl_runs.wire.times import duration, instant, rfc3339

AFTER = f"sim.{GROUP}/after"
PHASE = f"sim.{GROUP}/phase"
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
GRACE_SECONDS = 30
ENDED = ("Succeeded", "Failed")


def keep(tx: Transaction, value: Object) -> Object:
    """Write an object, and come back to it when something is due."""
    value = tx.put(value)
    if meta.kind_of(value) == POD and (due := _due(value)) is not None:
        tx.schedule(value, due)
    return value


def let_pass(tx: Transaction, milliseconds: int) -> None:
    """Move the clock, doing on the way what is due, each thing at its own second."""
    end_ms = tx.clock_ms + milliseconds
    while True:
        moment, pods = tx.due(end_ms // 1000)
        if not pods:
            break
        tx.set_clock(moment * 1000)
        for pod in pods:
            tx.schedule(pod, None)
            _fall_due(tx, pod)
    tx.set_clock(end_ms)


def born(pod: Object) -> Object:
    """A new pod: the server's defaults, and Pending."""
    defaults = {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "schedulerName": "default-scheduler",
    }
    return {**pod, "spec": {**defaults, **pod["spec"]}, "status": {"phase": "Pending"}}


def started(tx: Transaction, pod: Object) -> Object:
    """A pod as it is once bound: running at once, if there is a kubelet that answers."""
    node = tx.get(NODE, "", pod["spec"].get("nodeName") or "")
    if not pod["spec"].get("nodeName") or pod["status"]["phase"] != "Pending":
        return pod
    conditions = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": rfc3339(tx.now)}]
    if not _healthy(node):
        return {**pod, "status": {"phase": "Pending", "conditions": conditions}}
    conditions.append({"type": "Ready", "status": "True", "lastTransitionTime": rfc3339(tx.now)})
    containers = [
        {
            "name": container["name"],
            "image": container.get("image", ""),
            "ready": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": rfc3339(tx.now)}},
        }
        for container in pod["spec"]["containers"]
    ]
    status = {"phase": "Running", "conditions": conditions, "startTime": rfc3339(tx.now)}
    return {**pod, "status": {**status, "containerStatuses": containers}}


def ended(tx: Transaction, pod: Object, phase: str, reason: str = "") -> Object:
    """A pod whose containers have exited, now."""
    code = 0 if phase == "Succeeded" else 1
    word = "Completed" if phase == "Succeeded" else "Error"
    containers = []
    for container in pod["status"].get("containerStatuses") or ():
        begun = (container["state"].get("running") or {}).get("startedAt", rfc3339(tx.now))
        end = {"exitCode": code, "reason": word, "startedAt": begun, "finishedAt": rfc3339(tx.now)}
        containers.append({**container, "ready": False, "state": {"terminated": end}})
    status = {**pod["status"], "phase": phase, "containerStatuses": containers}
    status["conditions"] = [
        {**condition, "status": "False"} if condition["type"] == "Ready" else condition
        for condition in pod["status"].get("conditions") or ()
    ]
    return {**pod, "status": {**status, "reason": reason} if reason else status}


def delete(tx: Transaction, kind: Kind, value: Object, grace_seconds: int | None = None) -> Object:
    """Begin the end of an object: at once where nothing holds it, else marked."""
    if kind == NAMESPACE:
        return _delete_namespace(tx, value)
    grace = _grace(tx, value, grace_seconds) if kind == POD else 0
    marked = objects.doomed(tx, value, grace)
    if grace == 0 and not value["metadata"].get("finalizers"):
        return gone(tx, marked)
    return value if marked == value else keep(tx, marked)


def gone(tx: Transaction, value: Object) -> Object:
    """Take an object out, and what depended on it alone; the last one out closes its namespace."""
    last = tx.remove(value)
    for dependent in tx.owned_by(value["metadata"]["uid"]):
        if _orphaned(tx, dependent, value["metadata"]["uid"]):
            delete(tx, meta.kind_of(dependent), dependent)
    _close_namespace(tx, value["metadata"].get("namespace") or "")
    return last


def released(tx: Transaction, kind: Kind, value: Object) -> bool:
    """Whether nothing holds a marked object any more: no finalizer, and no containers in their grace."""
    metadata = value["metadata"]
    if "deletionTimestamp" not in metadata or metadata.get("finalizers"):
        return False
    return kind not in (POD, NAMESPACE) or (kind == POD and instant(metadata["deletionTimestamp"]) <= tx.now)


def node_changed(tx: Transaction, name: str) -> None:
    """After a node failed or went: the pod collector takes terminating pods that no kubelet will end."""
    if not _failed(tx.get(NODE, "", name)):
        return
    for pod in tx.all(POD):
        leaving = "deletionTimestamp" in pod["metadata"] and not pod["metadata"].get("finalizers")
        if leaving and pod["spec"].get("nodeName") == name:
            gone(tx, pod)


def _due(pod: Object) -> int | None:
    """When something happens to a pod by itself."""
    if "deletionTimestamp" in pod["metadata"]:
        return instant(pod["metadata"]["deletionTimestamp"])
    if pod["status"]["phase"] != "Running":
        return None
    return min((moment for moment, _, _ in _ends(pod)), default=None)


def _ends(pod: Object) -> list[tuple[int, str, str]]:
    """How a running pod would end: moment, phase, reason; the earliest counts."""
    begun = instant(pod["status"]["startTime"])
    annotations = pod["metadata"].get("annotations") or {}
    ends = []
    if AFTER in annotations:
        ends.append((begun + duration(annotations[AFTER]), annotations.get(PHASE, "Succeeded"), ""))
    if deadline := pod["spec"].get("activeDeadlineSeconds"):
        ends.append((begun + int(deadline), "Failed", "DeadlineExceeded"))
    return ends


def _fall_due(tx: Transaction, pod: Object) -> None:
    node = tx.get(NODE, "", pod["spec"].get("nodeName") or "")
    if "deletionTimestamp" in pod["metadata"]:
        # A kubelet ends it; on a node known to have failed the pod collector does. Otherwise nobody can tell (S1).
        if (_healthy(node) or _failed(node)) and not pod["metadata"].get("finalizers"):
            gone(tx, pod)
    elif _healthy(node):
        _, phase, reason = min(_ends(pod))
        keep(tx, ended(tx, pod, phase, reason))


def _grace(tx: Transaction, pod: Object, asked_seconds: int | None) -> int:
    """Nothing runs in a pod that is not bound, has ended or was on a node that failed: it needs no grace."""
    name = pod["spec"].get("nodeName")
    if not name or pod["status"]["phase"] in ENDED or _failed(tx.get(NODE, "", name)):
        return 0
    if asked_seconds is not None:
        return asked_seconds
    return int(pod["spec"].get("terminationGracePeriodSeconds", GRACE_SECONDS))


def _delete_namespace(tx: Transaction, namespace: Object) -> Object:
    name = namespace["metadata"]["name"]
    if "deletionTimestamp" not in namespace["metadata"]:
        namespace = keep(tx, {**objects.doomed(tx, namespace), "status": {"phase": "Terminating"}})
    for value in tx.in_namespace(name):
        kind = meta.kind_of(value)
        if tx.get(kind, name, value["metadata"]["name"]):  # not gone with its owner
            delete(tx, kind, value)
    _close_namespace(tx, name)
    return namespace


def _close_namespace(tx: Transaction, name: str) -> None:
    """A terminating namespace goes when nothing is left in it."""
    namespace = tx.get(NAMESPACE, "", name)
    if namespace and "deletionTimestamp" in namespace["metadata"] and not tx.in_namespace(name):
        tx.remove(namespace)


def _orphaned(tx: Transaction, value: Object, uid: str) -> bool:
    """Whether this object was owned by the one that went, and by nobody else who is left."""
    owners = value["metadata"].get("ownerReferences") or ()
    if not any(owner.get("uid") == uid for owner in owners):
        return False
    namespace = value["metadata"].get("namespace", "")
    return not any(_alive(tx, owner, namespace) for owner in owners)


def _alive(tx: Transaction, owner: Object, namespace: str) -> bool:
    name = str(owner.get("name"))
    kind = meta.kind_of({**owner, "metadata": {}})
    found = tx.get(kind, namespace, name) or tx.get(kind, "", name)  # an owner may be cluster-scoped
    return found is not None and found["metadata"]["uid"] == owner.get("uid")


def _healthy(node: Object | None) -> bool:
    conditions = ((node or {}).get("status") or {}).get("conditions") or ()
    return not _failed(node) and all(item["status"] == "True" for item in conditions if item["type"] == "Ready")


def _failed(node: Object | None) -> bool:
    """S1: only the out-of-service taint or the Node's absence says that a node failed."""
    taints = (node.get("spec") or {}).get("taints") or () if node else ()
    return node is None or any(taint.get("key") == OUT_OF_SERVICE for taint in taints)
