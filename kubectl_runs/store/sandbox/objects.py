"""The API server's ways with objects: what a create, a replace, a patch and a delete make of what they are given.

Decides versions, generations, the status subresource, finalizers and preconditions, for any kind. The rules of our
own kinds and of admission stand in `admission`; pods and nodes come to life in `lifecycle`.
"""

from __future__ import annotations

from typing import Any

from kubectl_runs.store.protocol import AlreadyExists, Forbidden, Invalid, NotFound, Object
from kubectl_runs.store.sandbox import metadata as meta
from kubectl_runs.store.sandbox.database import Transaction
from kubectl_runs.wire.kinds import NAMESPACE, POD, Kind
from kubectl_runs.wire.times import rfc3339

# What the server sets; whatever a client sends there is replaced by what stands.
SERVERS_OWN = ("uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds")
GENERATE_TRIES = 8
# Kinds whose status is kept at creation: a kubelet registers a node with it, events have none.
STATUS_AT_CREATION = ("Node", "Event")
# The only parts of a pod's spec that may change after creation.
POD_MAY_CHANGE = ("activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds", "schedulingGates")


def created(tx: Transaction, kind: Kind, given: Object) -> Object:
    """The object as it will be stored: named, stamped, without what a creator cannot set."""
    given_metadata = dict(given.get("metadata") or {})
    if given.get("kind") not in (None, kind.name) or given.get("apiVersion") not in (None, kind.api_version):
        raise Invalid(f"the object is a {given.get('apiVersion')} {given.get('kind')}, not a {kind.name}")
    if given_metadata.get("resourceVersion"):
        raise Invalid("resourceVersion should not be set on objects to be created", reason="BadRequest")
    namespace = str(given_metadata.get("namespace") or "") if kind.namespaced else ""
    if kind.namespaced:
        _check_namespace(tx, namespace)
    name = _name(tx, kind, namespace, given_metadata)
    kept = {key: given_metadata[key] for key in _KEPT if given_metadata.get(key)}
    metadata = {"name": name, **({"namespace": namespace} if namespace else {}), **kept}
    metadata |= {"uid": meta.uid(tx.version + 1, kind), "creationTimestamp": rfc3339(tx.now), "generation": 1}
    value = {**_plain(kind, given), "apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata}
    if kind.has_status and kind.name not in STATUS_AT_CREATION:
        value.pop("status", None)
    meta.check(kind, value)
    if tx.get(kind, namespace, name):
        raise AlreadyExists(f'{meta.resource(kind)} "{name}" already exists')
    return value


_KEPT = ("generateName", "labels", "annotations", "ownerReferences", "finalizers")


def replaced(tx: Transaction, kind: Kind, given: Object, subresource: str) -> tuple[Object, Object]:
    """The object as it stands and as it will; `Conflict` when it moved on."""
    given_metadata = given.get("metadata") or {}
    old = found(tx, kind, given_metadata.get("namespace") or "", str(given_metadata.get("name") or ""))
    version = given_metadata.get("resourceVersion")
    if not version and meta.ours(kind):
        raise meta.invalid(kind, old["metadata"]["name"], "metadata.resourceVersion", "must be specified for an update")
    _check_preconditions(kind, old, uid=given_metadata.get("uid"), version=version)
    return old, _successor(kind, old, _plain(kind, given), subresource)


def patched(
    tx: Transaction, kind: Kind, namespace: str, name: str, patch: Object, subresource: str
) -> tuple[Object, Object]:
    """The object as it stands and with a JSON merge patch applied."""
    old = found(tx, kind, namespace, name)
    wanted = patch.get("metadata") or {}
    _check_preconditions(kind, old, uid=wanted.get("uid"), version=wanted.get("resourceVersion"))
    return old, _successor(kind, old, merged(old, patch), subresource)


def found(tx: Transaction, kind: Kind, namespace: str, name: str) -> Object:
    value = tx.get(kind, namespace if kind.namespaced else "", name)
    if value is None:
        raise meta.not_found(kind, name)
    return value


def check_uid(kind: Kind, value: Object, uid: str) -> None:
    """A UID names one object for ever: another one under the same name is not meant."""
    if uid and value["metadata"]["uid"] != uid:
        why = f"the UID in the precondition ({uid}) does not match the UID in record ({value['metadata']['uid']})"
        raise meta.conflict(kind, value["metadata"]["name"], why)


def doomed(tx: Transaction, value: Object, grace_seconds: int = 0) -> Object:
    """The object marked for deletion: it goes when its grace is over and its finalizers are off."""
    metadata = dict(value["metadata"])
    moment = rfc3339(tx.now + grace_seconds)
    if "deletionTimestamp" in metadata and metadata["deletionTimestamp"] <= moment:
        return value
    if "deletionTimestamp" not in metadata and "generation" in metadata:
        metadata["generation"] += 1
    metadata |= {"deletionTimestamp": moment, "deletionGracePeriodSeconds": grace_seconds}
    return {**value, "metadata": metadata}


def merged(target: Any, patch: Any) -> Any:
    """RFC 7396: objects are merged, null removes, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, change in patch.items():
        if change is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), change)
    return result


def _plain(kind: Kind, given: Object) -> Object:
    """Without nulls: the server drops them. What becomes of one in an object of ours is for its schema to say."""
    return given if meta.ours(kind) else without_nulls(given)


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


def _successor(kind: Kind, old: Object, new: Object, subresource: str) -> Object:
    """What the update makes of the object: a status write touches only status, any other write never does."""
    if subresource == "status":
        if not kind.has_status:
            raise NotFound("the server could not find the requested resource")
        return _with(old, status=new.get("status"))
    if subresource:
        raise NotFound("the server could not find the requested resource")
    metadata = {**(new.get("metadata") or {})}
    for key in (*SERVERS_OWN, "name", "namespace", "resourceVersion"):
        metadata.pop(key, None)
        if key in old["metadata"]:
            metadata[key] = old["metadata"][key]
    metadata = {key: item for key, item in metadata.items() if item not in (None, {}, [])}
    value = {**new, "apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata}
    if kind.has_status:
        value = _with(value, status=old.get("status"))
    meta.check(kind, value)
    _check_update(kind, old, value)
    if kind.name != "Event" and _body(kind, value) != _body(kind, old):
        metadata["generation"] = int(old["metadata"].get("generation") or 0) + 1
    return value


def _check_update(kind: Kind, old: Object, value: Object) -> None:
    name = old["metadata"]["name"]
    if "deletionTimestamp" in old["metadata"]:
        before, after = (set(item["metadata"].get("finalizers") or ()) for item in (old, value))
        if after - before:
            why = "no new finalizers can be added if the object is being deleted"
            raise meta.invalid(kind, name, "metadata.finalizers", why)
    if kind == POD and _frozen_pod(old) != _frozen_pod(value):
        why = f"pod updates may not change fields other than {', '.join(POD_MAY_CHANGE)} and images"
        raise meta.invalid(kind, name, "spec", why)


def _frozen_pod(pod: Object) -> Object:
    spec = {key: item for key, item in pod.get("spec", {}).items() if key not in POD_MAY_CHANGE}
    spec["containers"] = [{**container, "image": ""} for container in spec.get("containers") or ()]
    return spec


def _body(kind: Kind, value: Object) -> Object:
    """What `generation` counts the changes of: all but metadata, and status where it is a subresource."""
    aside = ("metadata", "status") if kind.has_status else ("metadata",)
    return {key: item for key, item in value.items() if key not in aside}


def _with(value: Object, *, status: Any) -> Object:
    value = {key: item for key, item in value.items() if key != "status"}
    return value if status is None else {**value, "status": status}


def _check_preconditions(kind: Kind, old: Object, *, uid: str | None, version: str | None) -> None:
    check_uid(kind, old, uid or "")
    if version and version != old["metadata"]["resourceVersion"]:
        why = "the object has been modified; please apply your changes to the latest version and try again"
        raise meta.conflict(kind, old["metadata"]["name"], why)


def _check_namespace(tx: Transaction, namespace: str) -> None:
    found_namespace = tx.get(NAMESPACE, "", namespace)
    if found_namespace is None:
        raise meta.not_found(NAMESPACE, namespace)
    if "deletionTimestamp" in found_namespace["metadata"]:
        details = {"causes": [{"reason": "NamespaceTerminating", "field": "metadata.namespace"}]}
        raise Forbidden(f"namespace {namespace} is being terminated", details=details)


def _name(tx: Transaction, kind: Kind, namespace: str, metadata: Object) -> str:
    if name := metadata.get("name"):
        return str(name)
    prefix = metadata.get("generateName")
    if not prefix:
        raise meta.invalid(kind, "", "metadata.name", "name or generateName is required")
    for attempt in range(GENERATE_TRIES):
        name = meta.generated_name(str(prefix), tx.version + 1 + attempt)
        if tx.get(kind, namespace, name) is None:
            return name
    raise AlreadyExists(
        f'{meta.resource(kind)} "{prefix}" already exists, the server was not able to generate a unique name'
    )
