"""Requests as HTTP: where each lives on a Kubernetes API server, and what body it carries.

Pure. Which answer means what is read in `status`; how it travels is decided in `http`.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote, urlencode

from kubectl_runs.store.protocol import Bind, Create, Delete, Get, Invalid, Object, Patch, Replace, Request
from kubectl_runs.wire.kinds import POD, Kind

FIELD_MANAGER = "kubectl-runs"
JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"


def encode(request: Request) -> tuple[str, str, bytes, str]:
    """A request as HTTP: method, target, body, content type."""
    match request:
        case Get():
            return "GET", path(request.kind, request.namespace, request.name), b"", JSON
        case Create():
            metadata = request.object.get("metadata") or {}
            if metadata.get("resourceVersion"):  # the server answers 500, which would leave the outcome unknown
                raise Invalid("resourceVersion should not be set on objects to be created", reason="BadRequest")
            target = f"{collection(request.kind, metadata.get('namespace') or '')}?{_writing(request.dry_run)}"
            return "POST", target, dump(request.object), JSON
        case Replace():
            metadata = request.object.get("metadata") or {}
            target = path(request.kind, metadata.get("namespace") or "", metadata.get("name") or "")
            return "PUT", _write_target(target, request.subresource, request.dry_run), dump(request.object), JSON
        case Patch():
            target = path(request.kind, request.namespace, request.name)
            target = _write_target(target, request.subresource, request.dry_run)
            return "PATCH", target, dump(request.patch), MERGE_PATCH
        case Delete():
            return "DELETE", path(request.kind, request.namespace, request.name), dump(_delete_options(request)), JSON
        case Bind():
            binding = {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": request.pod, "namespace": request.namespace, "uid": request.uid},
                "target": {"apiVersion": "v1", "kind": "Node", "name": request.node},
            }
            target = f"{path(POD, request.namespace, request.pod)}/binding?{_writing(False)}"
            return "POST", target, dump(binding), JSON
        case _:
            raise AssertionError(f"no single HTTP request: {request}")


def collection(kind: Kind, namespace: str) -> str:
    """The URL path of all objects of a kind, in one namespace or in all."""
    scope = f"/namespaces/{quote(namespace, safe='')}" if kind.namespaced and namespace else ""
    return f"{kind.path}{scope}/{kind.plural}"


def path(kind: Kind, namespace: str, name: str) -> str:
    """The URL path of one object."""
    return f"{collection(kind, namespace)}/{quote(name, safe='')}"


def _delete_options(request: Delete) -> Object:
    options: Object = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
    if request.uid:
        options["preconditions"] = {"uid": request.uid}
    if request.grace_seconds is not None:
        options["gracePeriodSeconds"] = request.grace_seconds
    if request.dry_run:
        options["dryRun"] = ["All"]
    return options


def _write_target(target: str, subresource: str, dry_run: bool) -> str:
    return f"{target}{'/' + subresource if subresource else ''}?{_writing(dry_run)}"


def _writing(dry_run: bool) -> str:
    return query(fieldManager=FIELD_MANAGER, fieldValidation="Strict", dryRun="All" if dry_run else "")


def query(**values: str) -> str:
    return urlencode({name: value for name, value in values.items() if value})


def dump(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
