"""Nodes and pods as the planner sees them (P1), read leniently: a strange one never stops the others.

Decides what a node offers and what a pod asks for; which of them takes work is the planner's affair. What cannot be
read counts as not stated, but for GPUs of a pod, which count as far as they can be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from kubectl_runs.wire import times
from planner.model import Domain, LabelRequirement, Node, Pod, PodNeeds, Taint, Toleration
from planner.values import dataclass

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """Which labels say where a node is and what it has; set at `install`, kept in the `Ledger` (P1)."""

    region: str = "region"
    cluster: str = "cluster"
    fabric: str = "fabric.domain"
    rack: str = "rack"
    flavor: str = "gpu.flavor"
    resource: str = "nvidia.com/gpu"


DEFAULT = Topology()


def node(obj: Json, topology: Topology = DEFAULT) -> Node:
    """A node; its domain is None if one of the three labels is missing or empty."""
    metadata, spec, status = _dict(obj.get("metadata")), _dict(obj.get("spec")), _dict(obj.get("status"))
    labels = {str(key): str(value) for key, value in _dict(metadata.get("labels")).items()}
    where = [labels.get(key, "") for key in (topology.region, topology.cluster, topology.fabric)]
    allocatable = _dict(status.get("allocatable"))
    return Node(
        name=str(metadata.get("name", "")),
        domain=Domain(*where) if all(where) else None,
        flavor=labels.get(topology.flavor) or None,
        rack=labels.get(topology.rack) or None,
        gpus=_quantity(allocatable.get(topology.resource)) or 0,
        cpu_milli=_quantity(allocatable.get("cpu"), per_unit=1000),
        memory_bytes=_quantity(allocatable.get("memory")),
        pods=_quantity(allocatable.get("pods")),
        cordoned=spec.get("unschedulable") is True,
        ready=_is_ready(status),
        taints=tuple(_taint(taint) for taint in _dicts(spec.get("taints"))),
        labels=labels,
    )


def _is_ready(status: Json) -> bool:
    """A node that states no Ready condition counts as ready: simulated fleets often leave it out."""
    states = [str(c.get("status")) for c in _dicts(status.get("conditions")) if c.get("type") == "Ready"]
    return not states or states[-1] == "True"


def _taint(taint: Json) -> Taint:
    return Taint(
        key=str(taint.get("key") or ""), value=str(taint.get("value") or ""), effect=str(taint.get("effect") or "")
    )


def pod(obj: Json, topology: Topology = DEFAULT) -> Pod:
    """A pod, ours or foreign, with what it asks of its node."""
    metadata, spec, status = _dict(obj.get("metadata")), _dict(obj.get("spec")), _dict(obj.get("status"))
    return Pod(
        namespace=str(metadata.get("namespace") or "default"),
        name=str(metadata.get("name", "")),
        uid=str(metadata.get("uid") or ""),
        node=str(spec.get("nodeName") or ""),
        gpus=request(spec, topology.resource) or 0,
        cpu_milli=request(spec, "cpu", per_unit=1000) or 0,
        memory_bytes=request(spec, "memory") or 0,
        phase=str(status.get("phase") or "Pending"),
        terminating=bool(metadata.get("deletionTimestamp")),
        finished_at=_finished_at(status),
        run_uid=_run_uid(metadata),
        created_at=lenient_instant(metadata.get("creationTimestamp")) or 0,
    )


def _run_uid(metadata: Json) -> str:
    for owner in _dicts(metadata.get("ownerReferences")):
        if owner.get("kind") == "Run":
            return str(owner.get("uid") or "")
    return ""


def _finished_at(status: Json) -> int | None:
    """When the last container of the pod ended; None while one has not."""
    ends = []
    for container in _dicts(status.get("containerStatuses")):
        ended = _dict(_dict(container.get("state")).get("terminated"))
        ends.append(lenient_instant(ended.get("finishedAt")))
    known = [end for end in ends if end is not None]
    return max(known) if known and len(known) == len(ends) else None


def request(spec: Json, resource: str, *, per_unit: int = 1) -> int | None:
    """What a pod needs of a resource, as Kubernetes counts it; None if no container states it.

    The larger of what runs together (containers and sidecars, which are init containers that restart always) and each
    init container with the sidecars started before it; plus the overhead.
    """
    together = [_asked(container, resource, per_unit) for container in _dicts(spec.get("containers"))]
    sidecars, peak, stated = 0, 0, any(amount is not None for amount in together)
    for container in _dicts(spec.get("initContainers")):
        amount = _asked(container, resource, per_unit)
        stated = stated or amount is not None
        if container.get("restartPolicy") == "Always":
            sidecars += amount or 0
            peak = max(peak, sidecars)
        else:
            peak = max(peak, sidecars + (amount or 0))
    overhead = _quantity(_dict(spec.get("overhead")).get(resource), per_unit=per_unit)
    if not stated and overhead is None:
        return None
    return max(peak, sidecars + sum(amount or 0 for amount in together)) + (overhead or 0)


def _asked(container: Json, resource: str, per_unit: int) -> int | None:
    """A request, or the limit where only that is given, as the API server defaults it."""
    resources = _dict(container.get("resources"))
    for key in ("requests", "limits"):
        amount = _quantity(_dict(resources.get(key)).get(resource), per_unit=per_unit)
        if amount is not None:
            return amount
    return None


def needs(template: Any) -> PodNeeds:
    """What one pod of a run asks of a node besides GPUs: the template's requests, selector, affinity, tolerations."""
    spec = _dict(_dict(template).get("spec"))
    required = _dict(
        _dict(_dict(spec.get("affinity")).get("nodeAffinity")).get("requiredDuringSchedulingIgnoredDuringExecution")
    )
    selector = _dict(spec.get("nodeSelector"))
    return PodNeeds(
        cpu_milli=request(spec, "cpu", per_unit=1000) or 0,
        memory_bytes=request(spec, "memory") or 0,
        node_selector=tuple(sorted((str(key), str(value)) for key, value in selector.items())),
        affinity=tuple(map(_term, _dicts(required.get("nodeSelectorTerms")))) if required else None,
        tolerations=tuple(map(_toleration, _dicts(spec.get("tolerations")))),
    )


def _term(term: Json) -> tuple[LabelRequirement, ...]:
    """All of a term's requirements; an empty term matches nothing, as in Kubernetes."""
    found = [
        LabelRequirement(
            key=str(part.get("key") or ""),
            operator=str(part.get("operator") or ""),
            values=tuple(str(value) for value in part.get("values") or ()),
            is_field=key == "matchFields",
        )
        for key in ("matchExpressions", "matchFields")
        for part in _dicts(term.get(key))
    ]
    return tuple(found) or (LabelRequirement(key="", operator="In"),)


def _toleration(part: Json) -> Toleration:
    return Toleration(
        key=str(part.get("key") or ""),
        operator=str(part.get("operator") or "Equal"),
        value=str(part.get("value") or ""),
        effect=str(part.get("effect") or ""),
    )


def lenient_instant(value: Any) -> int | None:
    """A time of a foreign object or of metadata; None if it cannot be read."""
    try:
        return times.instant(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _quantity(value: Any, *, per_unit: int = 1) -> int | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    return _amount(value, per_unit)


@lru_cache(maxsize=4096)  # the nodes of a fleet are much alike
def _amount(value: str | int | float, per_unit: int) -> int | None:
    try:
        return max(0, times.quantity(value if isinstance(value, str | int) else repr(value), per_unit=per_unit))
    except ValueError:
        return None


def _dict(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def _dicts(value: Any) -> Iterable[Json]:
    return [part for part in value if isinstance(part, dict)] if isinstance(value, list) else []
