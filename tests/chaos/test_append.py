"""The one write that commits: its reply lost, its writer asleep, its rights missing (6.4, 6.7)."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from tests.chaos.proxy import Answer, Fault, FaultProxy, Hold, writes
from tests.controlplane.fixtures import Island

GPUS = 4


@pytest.fixture
def manifest(island: Island, tmp_path: Path) -> str:
    island.add_nodes(1)
    island.add_budget(concurrency=GPUS)
    path = tmp_path / "run.json"
    path.write_text(json.dumps(island.run("once", GPUS, grace_seconds=0, resources={"gpusPerPod": 2})))
    return str(path)


@pytest.mark.parametrize("fault", [Fault.DROP_REPLY, Fault.DROP_REQUEST], ids=lambda fault: fault.name.lower())
def test_append_without_an_answer_is_read_back_and_starts_once(island: Island, manifest: str, fault: Fault) -> None:
    with FaultProxy(island.plane) as proxy:
        proxy.on(writes("ledgerentries"), fault)
        done = proxy.run("submit", "-f", manifest, namespace=island.namespace).ok()
        reads_back = [call for call in proxy.calls if call.method == "GET" and "/ledgerentries/" in call.path]
    assert "started with 4 GPUs" in done.stdout
    assert reads_back, "the number was not read back"
    assert len(starts(island)) == 1
    assert len(island.leases(open_only=True)) == 2


def test_append_that_nobody_answers_exits_75_and_the_next_submit_knows(island: Island, manifest: str) -> None:
    with FaultProxy(island.plane) as proxy:
        proxy.on(writes("ledgerentries"), Fault.DROP_REPLY, times=100)
        proxy.on(
            lambda call: "/ledgerentries/" in call.path and call.method == "GET" and any_append(proxy),
            Fault.DROP_REQUEST,
            times=10_000,
        )
        unknown = proxy.run("submit", "-f", manifest, namespace=island.namespace)
    assert unknown.exit_code == 75, unknown.stderr
    assert "unknown" in unknown.stderr
    assert "failed" not in unknown.stderr

    again = island.cli("submit", "-f", manifest).ok()

    assert "already running with 4 GPUs" in again.stdout
    assert len(starts(island)) == 1


def test_stale_submit_that_wakes_after_cancel_starts_no_pod(island: Island, manifest: str) -> None:
    hold = Hold()
    with FaultProxy(island.plane) as proxy:
        proxy.on(writes("ledgerentries"), hold)
        sleeper = proxy.start("submit", "-f", manifest, namespace=island.namespace)
        assert hold.reached.wait(60)
        island.cli("cancel", "once").ok()
        hold.release.set()
        _, stderr = sleeper.communicate(timeout=60)
    assert sleeper.returncode == 1, stderr
    assert [pod for pod in island.pods() if pod["spec"].get("nodeName")] == []
    assert island.leases() == []
    assert starts(island) == []


def test_stale_submit_that_wakes_between_append_and_bind_finds_its_pods_gone(island: Island, manifest: str) -> None:
    hold = Hold()
    with FaultProxy(island.plane) as proxy:
        # Everything after the append waits: leases and bindings.
        proxy.on(writes("leases"), hold, times=100)
        proxy.on(writes("binding"), hold, times=100)
        sleeper = proxy.start("submit", "-f", manifest, namespace=island.namespace)
        assert hold.reached.wait(60)
        waker = threading.Timer(0.1, hold.release.set)
        island.cli("cancel", "once").ok()
        waker.start()
        sleeper.communicate(timeout=60)
        waker.join()
    assert island.pods() == []
    assert {lease["status"]["closureReason"] for lease in island.leases()} == {"Canceled"}
    island.cli("verify", user="auditor").ok()


@pytest.mark.parametrize(
    "resource", ["runs", "services", "pods", "ledgerentries", "leases", "binding", "ledgers", "status"]
)
def test_write_that_is_forbidden_leaves_nothing_half_held(island: Island, manifest: str, resource: str) -> None:
    with FaultProxy(island.plane) as proxy:
        proxy.on(writes(resource), Answer(403), times=100)
        refused = proxy.run("submit", "-f", manifest, namespace=island.namespace)
    committed = bool(starts(island))
    assert committed == (resource in ("leases", "binding", "ledgers", "status"))
    assert refused.exit_code == (0 if committed else 1), refused.stderr
    if not committed:
        assert island.leases() == []
        assert [pod for pod in island.pods() if pod["spec"].get("nodeName")] == []
    # With the right back, one more command reaches what an undisturbed one reaches.
    island.cli("submit", "-f", manifest).ok()
    assert len(starts(island)) == 1
    assert len(island.leases(open_only=True)) == 2
    assert len([pod for pod in island.pods() if pod["spec"].get("nodeName")]) == 2


def any_append(proxy: FaultProxy) -> bool:
    return any(call.writes and "ledgerentries" in call.parts for call in proxy.calls)


def starts(island: Island) -> list[object]:
    entries = island.admin.list("ledgerentries")
    mine = [entry["spec"] for entry in entries if entry["spec"].get("run", {}).get("namespace") == island.namespace]
    return [spec for spec in mine if spec["kind"] == "Start"]
