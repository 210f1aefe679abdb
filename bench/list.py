"""`list` over `kubectl get` of the same runs, and what starting costs at all."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from bench.arena import arena, furnished, timed
from bench.row import Row, seconds_of
from tests.controlplane import fleet

RUNS = 200
REPEATS = 7


def rows() -> Iterator[Row]:
    with arena() as plane:
        island = furnished(plane, nodes=1, concurrency=8)
        client = plane.client()
        with ThreadPoolExecutor(16) as pool:
            runs = [island.run(f"run-{number:03}", 8) for number in range(RUNS)]
            list(pool.map(lambda run: client.create("runs", run, island.namespace), runs))
        config = plane.kubeconfig("researcher", namespace=island.namespace)
        kubectl = [str(fleet.kubectl()), "get", "runs.rq.davidlangworthy.io"]
        theirs = seconds_of(lambda: timed(kubectl, config), REPEATS)
        ours = seconds_of(lambda: timed([*fleet.cli_command(), "list"], config), REPEATS)
        start = seconds_of(lambda: timed([*fleet.cli_command(), "version"], config), REPEATS)
        bare = seconds_of(lambda: timed([sys.executable, "-c", "pass"], config), REPEATS)
    yield Row(name="kubectl get runs", size=f"{RUNS} runs", value=theirs, unit="s")
    yield Row(
        name="list",
        size=f"{RUNS} runs",
        value=ours,
        unit="s",
        ratio_to="kubectl get",
        ratio=ours / theirs,
        limit="≤ 2.5×",
    )
    yield Row(name="version", size="", value=start, unit="s", ratio_to="bare interpreter", ratio=start / bare)
