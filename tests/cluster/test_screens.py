"""The reading commands on a real API server, as a researcher: list, get, watch, explain, plan and snapshots."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tests.controlplane import fleet
from tests.controlplane.fixtures import Island
from tests.controlplane.plane import ControlPlane


def write(folder: Path, manifest: object, name: str = "run.yaml") -> str:
    path = folder / name
    path.write_text(json.dumps(manifest))
    return str(path)


def furnished(island: Island, tmp_path: Path, **more: str) -> str:
    """One run of 8 GPUs that holds half of what its budget allows."""
    island.add_nodes(2)
    island.add_budget(concurrency=16)
    file = write(tmp_path, island.run("train", 8, resources={"gpusPerPod": 4}, **more))
    island.cli("submit", "-f", file).ok()
    return file


def test_list_and_get_show_what_leases_say_whatever_the_status_says(island: Island, tmp_path: Path) -> None:
    furnished(island, tmp_path)
    island.admin.create("runs", island.run("idea", 8), island.namespace)
    table = island.cli("list").ok().stdout.splitlines()
    assert table[0].split()[:4] == ["NAME", "PHASE", "GPUS", "PAYERS"]
    assert table[1].split()[:5] == ["idea", "Pending", "0/8", "-", "NotSubmitted"]
    assert table[2].split()[:5] == ["train", "Running", "8/8", f"{island.name}/main", "8"]
    assert island.cli("get", "train", "-o", "name").ok().stdout == "run.rq.davidlangworthy.io/train\n"
    listed = json.loads(island.cli("list", "-o", "json").ok().stdout)
    assert (listed["kind"], [item["kind"] for item in listed["items"]]) == ("List", ["Run", "Run"])


def test_watch_in_a_pipe_prints_one_line_a_change_and_ends_with_the_run(island: Island, tmp_path: Path) -> None:
    furnished(island, tmp_path, after="3s", phase="Succeeded")
    seen = island.cli("watch", "train", "--timeout", "60s").ok().stdout.splitlines()
    assert [line.split()[1:4] for line in seen] == [["train", "Running", "8/8"]] * 2
    assert seen[-1].endswith("Completed")


def test_watch_that_takes_too_long_exits_4(island: Island, tmp_path: Path) -> None:
    furnished(island, tmp_path)
    late = island.cli("watch", "train", "--timeout", "1s")
    assert late.exit_code == 4
    assert "has not ended after" in late.stderr


def test_explain_prints_the_steps_of_the_entry_that_decided(island: Island, tmp_path: Path) -> None:
    furnished(island, tmp_path)
    told = island.cli("explain", "train").ok().stdout
    assert told.startswith(f"{island.namespace}/train holds 8 GPUs since")
    assert f"{island.name}/main" in told
    raw = json.loads(island.cli("explain", "train", "-o", "json").ok().stdout)
    (entry,) = raw["entries"]
    assert entry["kind"] == "Start"
    assert {step["rule"] for step in entry["steps"]} >= {"P3", "C3.1"}
    assert sum(lease["gpus"] for lease in raw["leases"]) == 8


def test_plan_from_a_saved_snapshot_decides_what_the_cluster_decides(island: Island, tmp_path: Path) -> None:
    furnished(island, tmp_path)
    saved = str(tmp_path / "state.json")
    island.cli("snapshot", "save", saved, "--no-history").ok()
    for gpus in (8, 16):
        ask = write(tmp_path, island.run("ask", gpus), "ask.yaml")
        live = island.cli("plan", "-f", ask, "-o", "json")
        kept = island.cli("plan", "-f", ask, "--from", saved, "-o", "json")
        assert live.exit_code == kept.exit_code
        assert json.loads(live.stdout)["digest"] == json.loads(kept.stdout)["digest"]


def test_reading_commands_change_nothing(island: Island, tmp_path: Path) -> None:
    file = furnished(island, tmp_path)
    kinds = ("runs", "leases", "reservations", "pods")
    before = [island.admin.list(kind, island.namespace) for kind in kinds]
    for words in (["list"], ["get", "train"], ["plan", "-f", file], ["plan", "train"], ["explain", "train"]):
        island.cli(*words).ok()
    after = [island.admin.list(kind, island.namespace) for kind in kinds]
    assert [[item["spec"] for item in items] for items in before] == [
        [item["spec"] for item in items] for items in after
    ]


def test_cluster_without_our_kinds_says_so(fresh_control_plane: Callable[..., ControlPlane]) -> None:
    with fresh_control_plane(kwok=False, install=False) as plane:
        for words in (["list"], ["get", "x"], ["watch", "x"]):
            done = fleet.run_cli(plane, *words, user="admin", namespace="default")
            assert (done.exit_code, done.stderr) == (
                1,
                "error: the cluster does not know our kinds\n\nhint: kubectl runs install\n",
            )
