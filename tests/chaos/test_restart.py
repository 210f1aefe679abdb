"""The API server goes away in the middle of a submit and comes back: the run starts once, whoever finishes it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.chaos.proxy import Call, FaultProxy, Hold, writes
from tests.controlplane.client import wait_for
from tests.controlplane.fixtures import Island, make_island
from tests.controlplane.fleet import Finished
from tests.controlplane.plane import ControlPlane

GPUS = 4


@pytest.fixture
def plane(fresh_control_plane: Callable[..., ControlPlane]) -> Iterator[ControlPlane]:
    """One for each test: a restart would disturb others, and policies need seconds to find their parameter again."""
    with fresh_control_plane() as plane:
        yield plane


@pytest.fixture
def island(plane: ControlPlane) -> Island:
    island = make_island(plane)
    island.add_nodes(1)
    island.add_budget(concurrency=GPUS)
    return island


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param(writes("pods"), id="while-preparing"),
        pytest.param(writes("ledgerentries"), id="before-the-append"),
        pytest.param(writes("leases"), id="while-rolling-forward"),
        pytest.param(writes("binding"), id="while-binding"),
    ],
)
def test_api_server_restarted_in_the_middle_run_starts_once(
    plane: ControlPlane, island: Island, tmp_path: Path, moment: Callable[[Call], bool]
) -> None:
    manifest = tmp_path / "run.json"
    manifest.write_text(json.dumps(island.run("steady", GPUS)))
    hold = Hold()
    with FaultProxy(plane) as proxy:
        proxy.on(moment, hold)
        releaser = threading.Thread(target=restart_while_held, args=(plane, hold))
        releaser.start()
        first = proxy.run("submit", "-f", str(manifest), namespace=island.namespace)
        releaser.join(120)
    assert hold.reached.is_set(), "the moment never came"
    assert first.exit_code in (0, 1, 75), first.stderr
    # For some seconds after its start the server refuses entries and leases: the policies' parameter is not yet found.
    wait_for("one more submit to finish it", lambda: is_finished(island.cli("submit", "-f", str(manifest))))
    assert_started_once(island)


def is_finished(again: Finished) -> bool:
    return again.exit_code == 0 and "unfinished" not in again.stderr


def restart_while_held(plane: ControlPlane, hold: Hold) -> None:
    """Stop the server while one call is on its way, let that call meet nobody, then start the server."""
    if not hold.reached.wait(30):
        return
    plane.stop_api_server()
    hold.release.set()
    plane.start_api_server()


def assert_started_once(island: Island) -> None:
    leases = island.leases(open_only=True)
    bound = {pod["metadata"]["uid"]: pod["spec"]["nodeName"] for pod in island.pods() if pod["spec"].get("nodeName")}
    assert sum(lease["spec"]["slice"]["gpus"] for lease in leases) == GPUS
    assert {lease["spec"]["podRef"]["uid"]: lease["spec"]["slice"]["nodes"][0] for lease in leases} == bound
    starts = [
        entry
        for entry in island.admin.list("ledgerentries")
        if entry["spec"]["kind"] == "Start" and entry["spec"]["run"]["namespace"] == island.namespace
    ]
    assert len(starts) == 1
    island.wait_for_phase("steady", "Running")
    island.cli("verify", user="auditor").ok()
