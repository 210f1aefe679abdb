"""`submit` of 128 pods until all are bound, over what a raw parallel client takes for the same writes.

The raw client repeats, with 16 threads on kept connections, what a finished submit left on the server: the Run, the
Service, every pod, the entry (as a ConfigMap of the same content: a second entry would need a number of its own), every
lease, every binding. It neither reads, plans nor starts an interpreter; that is what the ratio is about.
"""

from __future__ import annotations

import copy
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench.arena import arena, furnished, timed
from bench.row import Row
from tests.controlplane import fleet
from tests.controlplane.client import Client
from tests.controlplane.fixtures import Island
from tests.controlplane.plane import ControlPlane

PODS = 128
REPEATS = 3
THREADS = 16

Object = dict[str, Any]


def rows() -> Iterator[Row]:
    pairs = []
    for _ in range(REPEATS):
        # A control plane for each: the raw leases have no pods of their own, and the next submit would settle them.
        with arena() as plane:
            pairs.append(_one(plane))
    submit = statistics.median(pair[0] for pair in pairs)
    raw = statistics.median(pair[1] for pair in pairs)
    ratio = statistics.median(pair[0] / pair[1] for pair in pairs)
    yield Row(name="raw parallel client", size=f"{PODS} pods", value=raw, unit="s")
    yield Row(
        name="submit", size=f"{PODS} pods", value=submit, unit="s", ratio_to="raw client", ratio=ratio, limit="≤ 1.5×"
    )


def _one(plane: ControlPlane) -> tuple[float, float]:
    """One submit and one raw repetition of its writes, right after each other."""
    island = furnished(plane, nodes=PODS // 8, concurrency=PODS)
    submitted = _submit(island)
    bound = [pod for pod in island.pods() if pod["spec"].get("nodeName")]
    assert len(bound) == PODS, f"{len(bound)} of {PODS} pods are bound"
    return submitted, _raw(plane, island)


def _submit(island: Island) -> float:
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(island.run("wide", PODS), file)
        file.flush()
        config = island.plane.kubeconfig("researcher", namespace=island.namespace)
        return timed([*fleet.cli_command(), "submit", "-f", file.name], Path(config))


def _raw(plane: ControlPlane, done: Island) -> float:
    """The same objects once more, in a namespace of their own, on the same nodes."""
    client = plane.client()
    namespace = fleet.add_namespace(plane, f"{done.namespace}-raw", owner=done.owner)
    runs, services = client.list("runs", done.namespace), client.list("services", done.namespace)
    pods, leases = client.list("pods", done.namespace), client.list("leases", done.namespace)
    nodes = {pod["metadata"]["name"]: pod["spec"].pop("nodeName") for pod in pods}
    entry = max(client.list("ledgerentries"), key=lambda each: len(json.dumps(each)))
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(lambda _: client.list("runs", namespace), range(THREADS)))  # open the connections
        started = time.perf_counter()
        _all(pool, lambda each: client.create(*each), _again("runs", runs, namespace))
        _all(pool, lambda each: client.create(*each), _again("services", services, namespace))
        made = _all(pool, lambda each: client.create(*each), _again("pods", pods, namespace))
        content = {"metadata": {"name": "entry"}, "data": {"spec": json.dumps(entry["spec"])}}
        client.create("configmaps", content, namespace)
        _all(pool, lambda each: client.create(*each), _again("leases", leases, namespace))
        _all(pool, lambda pod: _bind(client, pod, nodes[pod["metadata"]["name"]]), made)
        return time.perf_counter() - started


def _all(pool: ThreadPoolExecutor, work: Callable[[Any], Object], items: Iterable[Any]) -> list[Object]:
    return list(pool.map(work, items))


def _again(plural: str, objects: list[Object], namespace: str) -> list[tuple[str, Object, str]]:
    """What was created, as it would be sent."""
    sent = []
    for each in copy.deepcopy(objects):
        kept = {key: each["metadata"][key] for key in ("name", "labels", "annotations") if key in each["metadata"]}
        if plural == "services":
            each["spec"] = {key: value for key, value in each["spec"].items() if key in ("ports", "selector")}
            each["spec"]["clusterIP"] = "None"
        sent.append((plural, {**each, "metadata": kept, "status": {}}, namespace))
    return sent


def _bind(client: Client, pod: Object, node: str) -> Object:
    meta = pod["metadata"]
    binding = {"metadata": {"name": meta["name"], "uid": meta["uid"]}, "target": {"kind": "Node", "name": node}}
    return client.request("POST", f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/binding", binding)
