"""`who-pays` over 100,000 leases on a real API server: time, memory, and how both grow with the ledger.

The leases are put into etcd as the API server stores them, each a copy of one that it wrote itself, so that size and
content are real and filling takes seconds. The ratio is to a bare client that lists and decodes the same leases.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.arena import arena, furnished
from bench.row import Row, seconds_of
from tests.controlplane import fleet
from tests.controlplane.fixtures import Island
from tests.controlplane.plane import ControlPlane

LEASES = 100_000
OWNERS = 20
RUNS = 1_000
PREFIX = "/registry/rq.davidlangworthy.io/leases"
REPEATS = 3
MEGABYTE = 1024  # ru_maxrss counts kilobytes


def rows() -> Iterator[Row]:
    with arena() as plane:
        island = furnished(plane, nodes=1, concurrency=8)
        for number in range(OWNERS):
            island.add_budget(concurrency=8, name=f"b{number}", owner=f"org:o{number}")
        fill(plane, island, LEASES)
        config = plane.kubeconfig("admin", namespace=island.namespace)
        bare = seconds_of(
            lambda: run([sys.executable, "-c", BARE, str(plane.port), str(plane.folder)], config), REPEATS
        )
        yield Row(name="bare list and decode", size=f"{LEASES:,} leases", value=bare, unit="s")
        for name, words in (("one owner", ["--owner", "org:o1"]), ("everybody", ["--used-by", "*", "--by", "payer"])):
            command = [*fleet.cli_command(), "who-pays", *words, "-o", "json"]
            took = seconds_of(lambda command=command: run(command, config), REPEATS)  # type: ignore[misc]
            yield Row(
                name=f"who-pays, {name}",
                size=f"{LEASES:,} leases",
                value=took,
                unit="s",
                ratio_to="bare",
                ratio=took / bare,
                limit="≤ 2 s" if name == "one owner" else "",
            )
            yield Row(
                name=f"who-pays, {name}, memory",
                size=f"{LEASES:,} leases",
                value=memory(command, config),
                unit="MB",
                limit="≤ 250 MB",
            )


BARE = """
import gc, http.client, json, ssl, sys
gc.disable()
port, folder = int(sys.argv[1]), sys.argv[2]
tls = ssl.create_default_context(cafile=f"{folder}/ca.crt")
tls.load_cert_chain(f"{folder}/admin.crt", f"{folder}/admin.key")
link = http.client.HTTPSConnection("127.0.0.1", port, context=tls)
token, total = "", 0
while True:
    link.request("GET", f"/apis/rq.davidlangworthy.io/v1/leases?limit=500&continue={token}")
    answer = link.getresponse()
    page = json.loads(answer.read())
    assert answer.status == 200, page
    total += sum(item["spec"]["slice"]["gpus"] for item in page["items"])
    token = page["metadata"].get("continue") or ""
    if not token:
        break
print(total)
"""


def run(command: list[str], config: Path) -> str:
    done = subprocess.run(command, env=fleet.cli_environment(config), capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[-6:])} ended with {done.returncode}: {done.stderr}")
    return done.stdout


def memory(command: list[str], config: Path) -> float:
    """The most memory that one process held, in MB."""
    process = subprocess.Popen(command, env=fleet.cli_environment(config), stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command[-6:])} ended with {process.returncode}")
    assert isinstance(usage, resource.struct_rusage)
    return usage.ru_maxrss / MEGABYTE


def fill(plane: ControlPlane, island: Island, count: int) -> None:
    """Closed leases of many runs and payers, as the API server itself stores one."""
    template = stored_lease(plane, island)
    link = http.client.HTTPConnection(plane.etcd_url.removeprefix("http://"))
    for first in range(0, count, 100):
        puts = [put(template, island, number) for number in range(first, min(count, first + 100))]
        etcd(link, "txn", {"success": puts})
    link.close()
    wait_until_served(plane, island, count)


def stored_lease(plane: ControlPlane, island: Island) -> Any:
    """One lease through the front door, closed, and then as etcd holds it."""
    spec = {
        "owner": island.owner,
        "runRef": {"name": "seed", "uid": "0" * 36, "attempt": 1},
        "podRef": {"name": "seed-0", "uid": "0" * 36},
        "compPath": ["SHARD[0]"],
        "slice": {"nodes": ["n1"], "gpus": 8, "role": "Active"},
        "node": "n1",
        "interval": {"start": "2026-01-05T12:00:00Z"},
        "paidByBudget": "b0",
        "paidByEnvelope": "main",
        "class": "owned",
        "reason": "Start",
    }
    body = {"apiVersion": "rq.davidlangworthy.io/v1", "kind": "Lease", "metadata": {"name": "l-1-0"}, "spec": spec}
    island.admin.create("leases", body, island.namespace)
    status = {"closed": True, "endTime": "2026-01-05T13:00:00Z", "closureReason": "Completed"}
    plane.kubectl(
        *("patch", "gl", "l-1-0", "-n", island.namespace, "--subresource=status", "--type=merge"),
        *("-p", json.dumps({"status": status})),
    )
    link = http.client.HTTPConnection(plane.etcd_url.removeprefix("http://"))
    key = f"{PREFIX}/{island.namespace}/l-1-0"
    found = etcd(link, "range", {"key": text(key)})
    link.close()
    return json.loads(base64.b64decode(found["kvs"][0]["value"]))


def put(template: Any, island: Island, number: int) -> Any:
    name = f"l-{number + 2}-0"
    start, end = 1_767_600_000 + number % 40_000, 1_767_650_000 + number % 9_999
    lease = {
        **template,
        "metadata": {**template["metadata"], "name": name, "uid": f"{number:036d}"},
        "spec": {
            **template["spec"],
            "owner": f"org:o{number % OWNERS}",
            "runRef": {"name": f"run-{number % RUNS}", "uid": f"{number % RUNS:036d}", "attempt": 1},
            "interval": {"start": stamp(start)},
            "paidByBudget": f"b{number % OWNERS}",
        },
        "status": {**template["status"], "endTime": stamp(end)},
    }
    value = json.dumps(lease, separators=(",", ":"))
    return {"requestPut": {"key": text(f"{PREFIX}/{island.namespace}/{name}"), "value": text(value)}}


def stamp(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def text(words: str) -> str:
    return base64.b64encode(words.encode()).decode()


def etcd(link: http.client.HTTPConnection, verb: str, body: Any) -> Any:
    link.request("POST", f"/v3/kv/{verb}", json.dumps(body), {"Content-Type": "application/json"})
    answer = link.getresponse()
    data = json.loads(answer.read())
    if answer.status != 200:
        raise RuntimeError(f"etcd: {data}")
    return data


def wait_until_served(plane: ControlPlane, island: Island, count: int) -> None:
    """The server's cache follows etcd: wait until it holds the last one."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        cached = f"resourceVersion=0&fieldSelector=metadata.name%3Dl-{count + 1}-0"
        path = f"/apis/rq.davidlangworthy.io/v1/namespaces/{island.namespace}/leases?{cached}"
        if plane.client().request("GET", path)["items"]:
            return
        time.sleep(0.5)
    raise RuntimeError("the leases never arrived")
