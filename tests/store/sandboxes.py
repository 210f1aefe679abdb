"""Objects for tests of the sandbox, and how to start and look at them."""

from __future__ import annotations

from kubectl_runs.store.protocol import (
    Bind,
    Create,
    Get,
    NotFound,
    Object,
)
from kubectl_runs.store.sandbox import SandboxStore
from kubectl_runs.wire.kinds import (
    API_VERSION,
    POD,
    Kind,
)

SIM = "sim.rq.davidlangworthy.io"


def pod(name: str = "p", *, owner: Object | None = None, spec: Object | None = None, **annotations: str) -> Object:
    metadata: Object = {"name": name, "namespace": "rai"}
    metadata["annotations"] = {f"{SIM}/{key}": value for key, value in annotations.items()}
    if owner:
        metadata["ownerReferences"] = [
            {
                "apiVersion": API_VERSION,
                "kind": "Run",
                "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"],
            }
        ]
    whole = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}], **(spec or {})}
    return {"metadata": metadata, "spec": whole}


def run(name: str = "train") -> Object:
    template = {"spec": {"containers": [{"name": "main", "image": "x"}]}}
    spec = {"resources": {"gpuType": "H100", "totalGPUs": 8}, "template": template}
    return {"metadata": {"name": name, "namespace": "rai"}, "spec": spec}


def make(store: SandboxStore, kind: Kind, value: Object) -> Object:
    return store.perform(Create(kind=kind, object=value)).object


def start(store: SandboxStore, value: Object, node: str = "d1-n1") -> Object:
    made = make(store, POD, value)["metadata"]
    store.perform(Bind(namespace="rai", pod=made["name"], uid=made["uid"], node=node))
    return look(store, made["name"])


def look(store: SandboxStore, name: str = "p", kind: Kind = POD) -> Object:
    return store.perform(Get(kind=kind, name=name, namespace="rai")).object


def is_gone(store: SandboxStore, name: str = "p", kind: Kind = POD) -> bool:
    try:
        look(store, name, kind)
    except NotFound:
        return True
    return False
