"""Fifty submits at once, in fifty processes: all decided and bound, none over the cap.

The measure is fifty kubectls at once that create one object each: what the machine needs for fifty processes that
speak to an API server and decide nothing.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.arena import arena, furnished
from bench.row import Row
from tests.controlplane import fleet
from tests.controlplane.fixtures import Island
from tests.controlplane.plane import ControlPlane

PROCESSES = 50
GPUS = 4


def rows() -> Iterator[Row]:
    with arena() as plane:
        kubectls = _kubectls(plane)
        yield Row(name="kubectl create", size=f"{PROCESSES} processes", value=kubectls, unit="s")
        for fitting, limit in ((PROCESSES, "≤ 5 s"), (PROCESSES // 2, "")):
            took = _submits(plane, fitting)
            yield Row(
                name="submit at once",
                size=f"{PROCESSES} processes, {fitting} fit",
                value=took,
                unit="s",
                ratio_to="kubectl create",
                ratio=took / kubectls,
                limit=limit,
            )


def _submits(plane: ControlPlane, fitting: int) -> float:
    """All at once; every process must say the truth, and what is held must be exactly what fits."""
    island = furnished(plane, nodes=PROCESSES * GPUS // 8, concurrency=fitting * GPUS)
    config = plane.kubeconfig("researcher", namespace=island.namespace)
    with tempfile.TemporaryDirectory() as folder:
        commands = []
        for number in range(PROCESSES):
            file = Path(folder) / f"{number}.json"
            file.write_text(json.dumps(island.run(f"run-{number}", GPUS, resources={"gpusPerPod": GPUS})))
            commands.append([*fleet.cli_command(), "submit", "-f", str(file)])
        took, codes = _at_once(commands, config)
    assert set(codes) <= {0, 1}, f"exit codes {sorted(codes)}"
    _check(island, fitting)
    return took


def _check(island: Island, fitting: int) -> None:
    held = sum(lease["spec"]["slice"]["gpus"] for lease in island.leases(open_only=True))
    bound = sum(1 for pod in island.pods() if pod["spec"].get("nodeName"))
    assert (held, bound) == (fitting * GPUS, fitting), (
        f"{held} GPUs held and {bound} pods bound, not {fitting} × {GPUS}"
    )


def _kubectls(plane: ControlPlane) -> float:
    config = plane.kubeconfig("admin")
    command = [str(fleet.kubectl()), "create", "configmap", "--from-literal=a=b"]
    took, codes = _at_once([[*command, f"one-{number}"] for number in range(PROCESSES)], config)
    assert set(codes) == {0}, f"exit codes {sorted(codes)}"
    return took


def _at_once(commands: list[list[str]], config: Path) -> tuple[float, list[int]]:
    started = time.perf_counter()
    processes = [
        subprocess.Popen(
            command, env=fleet.cli_environment(config), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for command in commands
    ]
    codes = [process.wait(timeout=120) for process in processes]
    return time.perf_counter() - started, codes
