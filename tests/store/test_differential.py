"""The same story told to an API server and to the sandbox: every outcome must be the same, whatever the story."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest

from kubectl_runs.store import open_cluster
from kubectl_runs.store.protocol import (
    Bind,
    Create,
    Delete,
    List,
    Object,
    Patch,
    Replace,
    Reply,
    Request,
    Store,
)
from kubectl_runs.store.sandbox import SandboxStore
from kubectl_runs.wire.kinds import LEASE, NODE, POD, RUN, Kind
from tests.controlplane.plane import ControlPlane
from tests.store.doors import CLOSED, Door

KINDS: dict[str, Kind] = {"run": RUN, "lease": LEASE, "pod": POD}
# What each room chooses for itself.
OWN = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "deletionTimestamp", "namespace")


@dataclass(frozen=True)
class Step:
    """One thing to do to one object; `stale` does it with what was read first instead of last."""

    verb: str
    kind: str
    name: str
    stale: bool = False


VERBS = {
    "run": ("create", "label", "cancel", "widen", "status", "hold", "release", "delete", "forge", "blind", "twice"),
    "lease": ("create", "label", "status", "reopen", "respell", "delete"),
    "pod": ("create", "label", "bind", "hold", "release", "respell", "delete"),
}
PATCHES: dict[str, Object] = {
    "cancel": {"spec": {"canceled": True}, "status": {"phase": "Failed"}},
    "widen": {"spec": {"resources": {"totalGPUs": 16}}},
    "respell": {"spec": {"node": "n2", "hostNetwork": True, "nodeName": "n9"}},
    "reopen": {"status": {"closed": None, "endTime": None}},
    "hold": {"metadata": {"finalizers": ["example.com/hold"]}},
    "release": {"metadata": {"finalizers": None}},
}
NAMES = {"run": ("a", "b"), "lease": ("l-7-0", "odd"), "pod": ("a", "b")}
STORIES = 16
LENGTH = 45


def story(number: int) -> list[Step]:
    """A story begins with something to tell about, and goes on at random, the same each time."""
    chance = random.Random(number)
    begin = [Step(verb="create", kind=kind, name=NAMES[kind][0]) for kind in sorted(KINDS)]
    kinds = [chance.choice(sorted(KINDS)) for _ in range(LENGTH)]
    return begin + [
        Step(verb=chance.choice(VERBS[kind]), kind=kind, name=chance.choice(NAMES[kind]), stale=chance.random() < 0.2)
        for kind in kinds
    ]


class Teller:
    """Tells a story to one store, remembering what it was told about each object."""

    def __init__(self, store: Store, namespace: str) -> None:
        self.door = Door(store=store, another=lambda _: store, namespace=namespace)
        self.door.make_namespace()
        store.perform_all([Create(kind=NODE, object={"metadata": {"name": "n1"}})])
        self._first: dict[tuple[str, str], Object] = {}
        self._last: dict[tuple[str, str], Object] = {}

    def tell(self, step: Step) -> Any:
        (outcome,) = self.door.store.perform_all([self._request(step)])
        if not isinstance(outcome, Reply):
            return type(outcome).__name__
        value = outcome.object
        if value.get("kind") == KINDS[step.kind].name and step.verb != "delete":
            self._first.setdefault((step.kind, step.name), value)
            self._last[step.kind, step.name] = value
        return "done" if step.verb in ("delete", "bind") else plain(value)

    def ending(self) -> list[Any]:
        """Everything that is there in the end."""
        found = [self.door.store.perform(List(kind=kind, namespace=self.door.namespace)) for kind in KINDS.values()]
        return [plain(item) for reply in found for item in reply.items]

    def _request(self, step: Step) -> Request:
        kind = KINDS[step.kind]
        known = (self._first if step.stale else self._last).get((step.kind, step.name)) or self._made(step)
        metadata = {"name": step.name, "namespace": self.door.namespace, **known["metadata"]}
        target: dict[str, Any] = {"kind": kind, "name": step.name, "namespace": self.door.namespace}
        if step.verb in PATCHES:
            return Patch(**target, patch=PATCHES[step.verb], subresource="status" if step.verb == "reopen" else "")
        match step.verb:
            case "create":
                return Create(kind=kind, object=self._made(step))
            case "label":
                return Replace(kind=kind, object={**known, "metadata": {**metadata, "labels": {"n": str(len(known))}}})
            case "twice":
                return Replace(kind=kind, object={**known, "metadata": metadata})
            case "blind":
                return Replace(kind=kind, object=self._made(step))
            case "status":
                status = CLOSED if step.kind == "lease" else {"phase": "Running", "message": step.name}
                return Replace(
                    kind=kind, object={**known, "metadata": metadata, "status": status}, subresource="status"
                )
            case "forge":
                return Patch(**target, patch={"metadata": {"uid": known["metadata"].get("uid", "forged")}})
            case "bind":
                uid = known["metadata"].get("uid", "unknown")
                return Bind(namespace=self.door.namespace, pod=step.name, uid=uid, node="n1")
            case _:
                return Delete(**target, uid=known["metadata"].get("uid", ""), grace_seconds=5)

    def _made(self, step: Step) -> Object:
        if step.kind == "lease":
            return self.door.lease(step.name)
        return self.door.run(step.name) if step.kind == "run" else self.door.pod(step.name)


def plain(value: Object) -> Object:
    """An object without what each room chooses for itself; of a pod only where it is, since here nothing runs it."""
    metadata = {key: item for key, item in value["metadata"].items() if key not in OWN}
    metadata["leaving"] = "deletionTimestamp" in value["metadata"]
    if value["kind"] == "Pod":
        return {"metadata": {**metadata, "generation": 0}, "nodeName": value["spec"].get("nodeName")}
    spec = {key: item for key, item in value["spec"].items() if key != "owner"}
    return {"metadata": metadata, "spec": spec, "status": value.get("status")}


@pytest.mark.cluster
def test_story_told_to_both_rooms_has_the_same_outcomes(own_plane: ControlPlane) -> None:
    cluster = open_cluster(kubeconfig=str(own_plane.kubeconfig()))
    sandbox = SandboxStore.empty()
    seen: Counter[str] = Counter()
    for number in range(STORIES):
        real, simulated = Teller(cluster, f"d{number}"), Teller(sandbox, f"d{number}")
        for place, step in enumerate(story(number)):
            outcome = real.tell(step)
            assert simulated.tell(step) == outcome, f"story {number}, step {place}: {step}"
            seen[outcome if isinstance(outcome, str) else "object"] += 1
        assert simulated.ending() == real.ending()
    told = ("object", "done", "AlreadyExists", "Conflict", "Forbidden", "Invalid", "NotFound")
    assert {word: seen[word] for word in told if seen[word] < STORIES // 4} == {}, seen
