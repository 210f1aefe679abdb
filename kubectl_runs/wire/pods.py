"""A run's pods: the user's own template plus what the gang needs, and the headless service they find each other by.

Decides what is set (scheduling fields, labels, the GPU request, the ranks' environment) and what of a template is
refused (section 4). A pod carries no node: it is inert until its entry is in the ledger and somebody binds it (6.3).
"""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from typing import Any

from kubectl_runs.errors import WireError
from kubectl_runs.wire import encode, times
from kubectl_runs.wire.kinds import API_VERSION, GROUP
from planner.model import Role
from planner.values import dataclass

Json = dict[str, Any]

SCHEDULER_NAME = "kubectl-runs"
FINALIZER = f"{GROUP}/leases"
GPU_RESOURCE = "nvidia.com/gpu"
MASTER_PORT = 29500
NONCE_DIGITS = 8  # of the preparation's nonce, in the pods' names


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """One pod of a gang: which one it is, and how wide the gang is that it belongs to."""

    rank: int
    group: int
    role: Role
    pods: int  # of the whole run
    attempt: int


def check_template(run: Json) -> None:
    """What section 4 refuses in a template, with the field's name: the plugin alone places pods and counts GPUs."""
    spec = _template(run).get("spec") or {}
    for name in ("nodeName", "schedulerName"):
        if spec.get(name):
            raise _refusal(run, f"spec.template.spec.{name}", f"{name} is set by the plugin")
    if spec.get("restartPolicy") == "Always":
        raise _refusal(run, "spec.template.spec.restartPolicy", "Always is refused, use Never or OnFailure")
    containers = spec.get("containers") or []
    if not containers:
        raise _refusal(run, "spec.template.spec.containers", "a run needs at least one container")
    _gpu_container(run, containers)


def pod_object(run: Json, rank: Rank, nonce: str, gpu_resource: str = GPU_RESOURCE) -> Json:
    """One pod of a run, with the preparation's nonce in its name and a stable host name (6.3)."""
    namespace, name = run["metadata"]["namespace"], run["metadata"]["name"]
    template = copy.deepcopy(_template(run))
    metadata = template.get("metadata") or {}
    spec: Json = template.get("spec") or {}
    own_labels = encode.labels(run=name, group=str(rank.group), role=rank.role.value)
    spec["schedulerName"] = SCHEDULER_NAME
    spec.setdefault("restartPolicy", "Never")
    spec.setdefault("hostname", host_name(name, rank.rank))
    if rank.pods > 1:
        spec.setdefault("subdomain", service_name(name))
    if duration := (run["spec"].get("duration") or ""):
        spec["activeDeadlineSeconds"] = max(1, times.duration(duration))
    _request_gpus(run, spec["containers"], gpu_resource)
    for container in spec["containers"]:
        _add_env(container, _environment(run, rank))
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod_name(name, nonce, rank.rank),
            "namespace": namespace,
            "labels": {**(metadata.get("labels") or {}), **own_labels},
            "ownerReferences": [owner_reference(run)],
            **({"annotations": metadata["annotations"]} if metadata.get("annotations") else {}),
        },
        "spec": spec,
    }


def pod_name(run: str, nonce: str, rank: int) -> str:
    return f"{run}-{nonce[:NONCE_DIGITS]}-{rank}"


def host_name(run: str, rank: int) -> str:
    """The same for every attempt: `MASTER_ADDR` and peers' addresses do not change with a pod's name."""
    return f"{run.replace('.', '-')}-{rank}"


def service_name(run: str) -> str:
    """Begins with a letter, as the name of a Service must, whatever the run is called."""
    return f"run-{run.replace('.', '-')}"


def service_object(run: Json) -> Json:
    """The headless service for rendezvous; addresses are published before pods are ready, since ranks wait for it."""
    name = run["metadata"]["name"]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": service_name(name),
            "namespace": run["metadata"]["namespace"],
            "labels": encode.labels(run=name),
            "ownerReferences": [owner_reference(run)],
        },
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": encode.labels(run=name),
            "ports": [{"name": "rendezvous", "port": MASTER_PORT}],
        },
    }


def owner_reference(run: Json) -> Json:
    """Pods go with their run; leases never do, since history survives it."""
    return {
        "apiVersion": API_VERSION,
        "kind": "Run",
        "name": run["metadata"]["name"],
        "uid": run["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": False,
    }


def claims(run: Json) -> tuple[str, ...]:
    """Names of the volume claims that the template mounts."""
    volumes = (_template(run).get("spec") or {}).get("volumes") or []
    names = [(volume.get("persistentVolumeClaim") or {}).get("claimName") for volume in volumes]
    return tuple(name for name in names if name)


def _template(run: Json) -> Json:
    template: Json = (run.get("spec") or {}).get("template") or {}
    return template


def _gpus_per_pod(run: Json) -> int:
    return int(run["spec"]["resources"].get("gpusPerPod") or 1)


def _environment(run: Json, rank: Rank) -> dict[str, str]:
    """Ranks as torchrun and its like expect them; `RANK` and `WORLD_SIZE` count GPUs (section 4)."""
    name, per_pod = run["metadata"]["name"], _gpus_per_pod(run)
    master = host_name(name, 0) + (f".{service_name(name)}" if rank.pods > 1 else "")
    return {
        "MASTER_ADDR": master,
        "MASTER_PORT": str(MASTER_PORT),
        "NODE_RANK": str(rank.rank),
        "NNODES": str(rank.pods),
        "NPROC_PER_NODE": str(per_pod),
        "RANK": str(rank.rank * per_pod),
        "WORLD_SIZE": str(rank.pods * per_pod),
    }


def _add_env(container: Json, values: dict[str, str]) -> None:
    """The user's own env wins, and comes after ours, so that it may refer to it."""
    own = container.get("env") or []
    taken = {variable.get("name") for variable in own}
    container["env"] = [{"name": name, "value": value} for name, value in values.items() if name not in taken] + own


def _request_gpus(run: Json, containers: Sequence[Json], gpu_resource: str) -> None:
    container = _gpu_container(run, containers, gpu_resource)
    resources = container.setdefault("resources", {})
    for kind in ("requests", "limits"):
        resources[kind] = {**(resources.get(kind) or {}), gpu_resource: str(_gpus_per_pod(run))}


def _gpu_container(run: Json, containers: Sequence[Json], gpu_resource: str = GPU_RESOURCE) -> Json:
    """The first container, or the only one that asks for GPUs; an equal request is accepted, another one refused."""
    asking = [index for index, container in enumerate(containers) if _gpu_requests(container, gpu_resource)]
    if len(asking) > 1:
        where = f"spec.template.spec.containers[{asking[1]}].resources"
        raise _refusal(run, where, f"only one container may ask for {gpu_resource}")
    index = asking[0] if asking else 0
    for asked in _gpu_requests(containers[index], gpu_resource):
        if times.quantity(asked) != _gpus_per_pod(run):
            where = f"spec.template.spec.containers[{index}].resources"
            raise _refusal(run, where, f"asks for {asked} {gpu_resource}, but gpusPerPod is {_gpus_per_pod(run)}")
    return containers[index]


def _gpu_requests(container: Json, gpu_resource: str) -> list[Any]:
    resources = container.get("resources") or {}
    amounts = [(resources.get(kind) or {}).get(gpu_resource) for kind in ("requests", "limits")]
    return [amount for amount in amounts if amount is not None and re.fullmatch(r"[0-9].*", str(amount))]


def _refusal(run: Json, path: str, problem: str) -> WireError:
    metadata = run.get("metadata") or {}
    key = f"{metadata.get('namespace') or 'default'}/{metadata.get('name') or metadata.get('generateName') or '?'}"
    return WireError(object=f"Run {key}", path=path, problem=problem)
