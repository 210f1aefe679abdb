"""A control plane for benchmarks, with islands of nodes that no other measurement uses."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.controlplane import fleet
from tests.controlplane.fixtures import Island, make_island
from tests.controlplane.plane import ControlPlane


@contextmanager
def arena() -> Iterator[ControlPlane]:
    """A fresh control plane with our CRDs installed."""
    with ControlPlane.start() as plane:
        fleet.install(plane)
        yield plane


def furnished(plane: ControlPlane, *, nodes: int, concurrency: int, gpus_per_node: int = 8) -> Island:
    """An island with nodes and a budget."""
    island = make_island(plane)
    island.add_nodes(nodes, gpus=gpus_per_node)
    island.add_budget(concurrency=concurrency)
    return island


def timed(command: list[str], kubeconfig: Path) -> float:
    """The wall time of one process that must succeed."""
    started = time.perf_counter()
    done = subprocess.run(command, env=fleet.cli_environment(kubeconfig), capture_output=True, text=True)
    took = time.perf_counter() - started
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr}")
    return took
