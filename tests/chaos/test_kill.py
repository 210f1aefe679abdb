"""`kill -9` of the real CLI before and after every write of submit, shrink and cancel, then one more command.

Whatever was cut off, the second command must reach the state that an undisturbed one reaches, with nothing held twice
and nothing bound without a lease. Who is dead does nothing between two writes: a kill after one leaves the server as a
kill before the next does, and a kill at a read as one at the next write. So a kill is tried before every write and
after the last one; `KILL_AT=all` tries before and after every call, reads as well.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.proxy import Call, Fault, FaultProxy
from tests.controlplane.fixtures import Island, make_island
from tests.controlplane.plane import ControlPlane

GPUS = 2
GPUS_SHRUNK = 1
ALL_CALLS = os.environ.get("KILL_AT") == "all"


@dataclass(frozen=True)
class Story:
    """A command to be killed, what comes before it undisturbed, and what is typed after the kill."""

    before: Sequence[tuple[str, ...]] = ()
    killed: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


STORIES = {
    "submit": Story(killed=("submit", "-f", "FILE"), after=("submit", "-f", "FILE")),
    "shrink": Story(
        before=[("submit", "-f", "FILE")],
        killed=("shrink", "RUN", "--to", str(GPUS_SHRUNK), "--yes"),
        after=("shrink", "RUN", "--to", str(GPUS_SHRUNK), "--yes"),
    ),
    "cancel": Story(before=[("submit", "-f", "FILE")], killed=("cancel", "RUN"), after=("cancel", "RUN")),
}


@dataclass
class Nth:
    """Matches the n-th call that counts, from 1."""

    number: int
    seen: int = field(default=0)

    def __call__(self, call: Call) -> bool:
        if not (call.writes or ALL_CALLS):
            return False
        self.seen += 1
        return self.seen == self.number


@pytest.fixture(scope="module")
def island(fresh_control_plane: Callable[..., ControlPlane]) -> Iterator[Island]:
    """Room for every attempt at once: each has a run of its own."""
    with fresh_control_plane() as plane:
        island = make_island(plane)
        island.add_nodes(40)
        island.add_budget(concurrency=400)
        yield island


@pytest.mark.timeout(900)
@pytest.mark.parametrize("verb", STORIES)
def test_killed_at_any_write_then_repeated_reaches_the_same_state(island: Island, tmp_path: Path, verb: str) -> None:
    undisturbed, calls = play(island, tmp_path, f"{verb}-0", STORIES[verb])
    assert calls >= 5, "the story writes too little to be worth it"
    wrong = []
    for number, fault in moments(calls):
        run = f"{verb}-{fault.name.lower().replace('_', '-')}-{number}"
        state, _ = play(island, tmp_path, run, STORIES[verb], kill_at=number, fault=fault)
        if state != undisturbed:
            wrong.append(f"{fault.name} {number} of {calls}: {state}")
    assert wrong == [], f"undisturbed: {undisturbed}"
    island.cli("verify", user="auditor").ok()


def moments(calls: int) -> list[tuple[int, Fault]]:
    """When to kill: the number of the call, and whether before or after it."""
    before = [(number, Fault.KILL_BEFORE) for number in range(1, calls + 1)]
    after = [(number, Fault.KILL_AFTER) for number in range(1 if ALL_CALLS else calls, calls + 1)]
    return before + after


def play(
    island: Island, folder: Path, run: str, story: Story, kill_at: int = 0, fault: Fault = Fault.KILL_BEFORE
) -> tuple[dict[str, Any], int]:
    """Tell a story, killing its command at the n-th call that counts; the state at its end, and the calls it made."""
    file = folder / f"{run}.json"
    elastic = {"minTotalGPUs": 1, "maxTotalGPUs": GPUS, "stepGPUs": 1}
    file.write_text(json.dumps(island.run(run, GPUS, malleable=elastic, grace_seconds=0)))

    def words(command: tuple[str, ...]) -> list[str]:
        return [{"FILE": str(file), "RUN": run}.get(word, word) for word in command]

    for command in story.before:
        island.cli(*words(command)).ok()
    with FaultProxy(island.plane) as proxy:
        if kill_at:
            proxy.on(Nth(kill_at), fault)
        killed = proxy.run(*words(story.killed), namespace=island.namespace)
        calls = sum(1 for call in proxy.calls if call.writes or ALL_CALLS)
    assert killed.exit_code == (-9 if kill_at else 0), killed.stderr
    island.cli(*words(story.after)).ok()
    return state_of(island, run), calls


def state_of(island: Island, run: str) -> dict[str, Any]:
    """What must be the same however it came about: names, nodes and times left out."""
    leases = [each for each in island.leases() if each["spec"]["runRef"]["name"] == run]
    opened = [each for each in leases if not each.get("status", {}).get("closed")]
    label = f"rq.davidlangworthy.io/run={run}"
    bound = {
        pod["metadata"]["uid"]: pod["spec"]["nodeName"]
        for pod in island.admin.list("pods", island.namespace, labels=label)
        if pod["spec"].get("nodeName")
    }
    entries = [each for each in island.admin.list("ledgerentries") if each["spec"].get("run", {}).get("name") == run]
    return {
        "phase": island.admin.get("runs", run, island.namespace).get("status", {}).get("phase"),
        "open": Counter((lease["spec"]["slice"]["gpus"], lease["spec"]["slice"]["role"]) for lease in opened),
        "closed": Counter(lease["status"]["closureReason"] for lease in leases if lease not in opened),
        "starts": sum(1 for entry in entries if entry["spec"]["kind"] == "Start"),
        "bound as leased": bound
        == {lease["spec"]["podRef"]["uid"]: lease["spec"]["slice"]["nodes"][0] for lease in opened},
        "kinds": sorted({entry["spec"]["kind"] for entry in entries}),
    }
