"""Submits at once, in processes of their own, against one budget: no cap passed, nobody told a lie."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.controlplane.fixtures import Island

GPUS = 2


def submit_at_once(island: Island, folder: Path, names: list[str]) -> dict[int, tuple[str, str, int]]:
    """Start one process for each name (a name may come twice) and wait for all: run, stdout and exit code."""
    processes: list[tuple[str, subprocess.Popen[str]]] = []
    for name in names:
        file = folder / f"{name}.json"
        file.write_text(json.dumps(island.run(name, GPUS, resources={"gpusPerPod": GPUS})))
        processes.append((name, island.start_cli("submit", "-f", str(file))))
    ended = {}
    for index, (name, process) in enumerate(processes):
        stdout, stderr = process.communicate(timeout=280)
        ended[index] = (name, stdout + stderr, process.returncode)
    return ended


def held(island: Island) -> dict[str, int]:
    gpus: dict[str, int] = {}
    for lease in island.leases(open_only=True):
        name = lease["spec"]["runRef"]["name"]
        gpus[name] = gpus.get(name, 0) + lease["spec"]["slice"]["gpus"]
    return gpus


def test_two_submits_of_one_run_at_once_start_it_once(island: Island, tmp_path: Path) -> None:
    island.add_nodes(2)
    island.add_budget(concurrency=16)

    ended = submit_at_once(island, tmp_path, ["same", "same"])

    assert [code for _, _, code in ended.values()] == [0, 0], ended
    assert held(island) == {"same": GPUS}
    entries = [entry["spec"] for entry in island.admin.list("ledgerentries")]
    starts = [spec for spec in entries if spec["kind"] == "Start" and spec["run"]["namespace"] == island.namespace]
    assert len(starts) == 1
    bound = [pod for pod in island.pods() if pod["spec"].get("nodeName")]
    assert len(bound) == 1


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("processes", "fitting"), [(2, 1), (50, 20)])
def test_submits_at_once_that_only_some_fit_pass_no_cap(
    island: Island, tmp_path: Path, processes: int, fitting: int
) -> None:
    island.add_nodes(-(-processes * GPUS // 8))
    island.add_budget(concurrency=fitting * GPUS)

    ended = submit_at_once(island, tmp_path, [f"r{index}" for index in range(processes)])

    holding = held(island)
    assert sum(holding.values()) == fitting * GPUS
    for name, said, code in ended.values():
        assert code == 0, said
        # A truthful answer: who was told that it started holds its GPUs, who was told to wait holds none.
        assert (f"{name} started" in said) == (name in holding), said
        assert (f"{name} waits" in said) == (name not in holding), said
    promised = {each["metadata"]["name"] for each in island.admin.list("reservations", island.namespace)}
    assert promised == {name for name, _, _ in ended.values()} - set(holding)
    island.cli("verify", user="auditor").ok()
