"""A co-funded run on a real API server, from its first borrowed GPU to the bill; and the audit of what it left."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.client import Object, wait_for
from tests.controlplane.fixtures import Island, make_island
from tests.controlplane.plane import ControlPlane


def write(folder: Path, manifest: object) -> str:
    path = folder / "run.json"
    path.write_text(json.dumps(manifest))
    return str(path)


def answer(island: Island, *arguments: str, user: str = "researcher") -> Any:
    return json.loads(island.cli(*arguments, "-o", "json", user=user).ok().stdout)


@pytest.fixture
def cofunded(island: Island, tmp_path: Path) -> Island:
    """A malleable run of 128 GPUs: 96 of its own, 32 borrowed."""
    island.add_nodes(16)
    island.add_budget(concurrency=96)
    lending = {"allow": True, "to": [f"{island.owner}*"], "maxConcurrency": 48}
    island.add_budget(concurrency=64, name=f"{island.name}-lender", owner=f"lab:{island.name}", lending=lending)
    run = island.run(
        "train",
        128,
        resources={"gpusPerPod": 8},
        malleable={"minTotalGPUs": 64, "maxTotalGPUs": 128, "stepGPUs": 32},
        funding={"allowBorrow": True, "maxBorrowGPUs": 32, "sponsors": [f"lab:{island.name}"]},
    )
    island.cli("submit", "-f", write(tmp_path, run)).ok()
    return island


def gpus_by_class(bill: Any) -> dict[str, int]:
    found: dict[str, int] = {}
    for row in bill["rows"]:
        found[row["class"]] = found.get(row["class"], 0) + row["gpus"]
    return found


def test_cofunded_run_shows_its_split_and_shrinks_the_borrowed_part_first(cofunded: Island) -> None:
    lender = f"lab:{cofunded.name}"
    bill = answer(cofunded, "who-pays", "train")
    assert gpus_by_class(bill) == {"owned": 96, "borrowed": 32}
    assert bill["total"]["gpus"] == 128

    # The lender's view agrees: the same GPUs, seen from the other side.
    lent = answer(cofunded, "who-pays", "--owner", lender)
    assert [(row["run"], row["gpus"], row["class"]) for row in lent["rows"]] == [
        (f"{cofunded.namespace}/train", 32, "borrowed")
    ]
    (budget,) = answer(cofunded, "budgets", lender)["budgets"]
    assert [(line["held"], line["lent"], line["headroom"]) for line in budget["envelopes"]] == [(32, 32, 32)]
    (sponsor,) = answer(cofunded, "sponsors", "list", "--for", "train")["lenders"]
    assert (sponsor["lends"], sponsor["lent"], sponsor["left"]) == (48, 32, 16)
    assert (sponsor["mayBorrow"], sponsor["reason"]) == (False, "BorrowLimit")

    cofunded.cli("shrink", "train", "--to", "96", "--yes").ok()

    assert gpus_by_class(answer(cofunded, "who-pays", "train"))["borrowed"] == 0
    assert gpus_by_class(answer(cofunded, "who-pays", "train"))["owned"] == 96
    (budget,) = answer(cofunded, "budgets", lender)["budgets"]
    assert [(line["held"], line["lent"]) for line in budget["envelopes"]] == [(0, 0)]
    ended = answer(cofunded, "leases", "--run", "train", "--reason", "Shrink")["items"]
    assert {lease["spec"]["class"] for lease in ended} == {"borrowed"}
    assert sum(lease["spec"]["slice"]["gpus"] for lease in ended) == 32


def test_bill_of_a_run_is_the_sum_of_its_leases(cofunded: Island) -> None:
    cofunded.cli("shrink", "train", "--to", "96", "--yes").ok()
    cofunded.cli("cancel", "train").ok()
    leases = cofunded.leases()
    assert len(leases) == 16

    bill = answer(cofunded, "who-pays", "train")

    assert bill["total"] == {"gpus": 0, "gpuSeconds": sum(map(_gpu_seconds, leases))}
    exported = csv.DictReader(io.StringIO(cofunded.cli("export", "-n", cofunded.namespace).ok().stdout))
    assert sum(int(row["gpuSeconds"]) for row in exported) == bill["total"]["gpuSeconds"]


def _gpu_seconds(lease: Object) -> int:
    from kubectl_runs.wire.times import instant

    held = instant(lease["status"]["endTime"]) - instant(lease["spec"]["interval"]["start"])
    return int(lease["spec"]["slice"]["gpus"]) * held


def test_sponsors_added_to_a_waiting_run_let_it_start(island: Island, tmp_path: Path) -> None:
    island.add_nodes(4)
    island.add_budget(concurrency=8)
    lending = {"allow": True, "to": [f"{island.owner}*"]}
    island.add_budget(concurrency=16, name=f"{island.name}-lender", owner=f"lab:{island.name}", lending=lending)
    run = island.run("poor", 16, resources={"gpusPerPod": 8})
    island.admin.create("runs", run, island.namespace)
    before = answer(island, "plan", "poor") if island.cli("plan", "poor").exit_code == 0 else None
    assert before is None or before["decision"] != "start"

    added = island.cli("sponsors", "add", "poor", f"lab:{island.name}").ok()
    assert "planned now: start" in added.stdout

    island.cli("submit", "poor").ok()
    assert gpus_by_class(answer(island, "who-pays", "poor")) == {"owned": 8, "borrowed": 8}


def test_verify_holds_on_a_ledger_that_lived(fresh_control_plane: Callable[..., ControlPlane], tmp_path: Path) -> None:
    """Start, complete, shrink, cancel; then the whole list, on the cluster and offline from a saved file."""
    with fresh_control_plane() as plane:
        island = make_island(plane)
        island.add_nodes(4)
        island.add_budget(concurrency=32)
        island.cli("submit", "-f", write(tmp_path, island.run("short", 8, after="1s", phase="Succeeded"))).ok()
        shape = {"minTotalGPUs": 8, "maxTotalGPUs": 16, "stepGPUs": 8}
        wide = island.run("wide", 16, resources={"gpusPerPod": 8}, malleable=shape)
        island.cli("submit", "-f", write(tmp_path, wide)).ok()
        island.cli("shrink", "wide", "--to", "8", "--yes").ok()
        wait_for("short to end", lambda: _phases(island) == {"Succeeded", "Running"})
        island.cli("settle").ok()
        island.cli("cancel", "wide").ok()

        found = answer(island, "verify", user="operator")

        assert [finding for finding in found["findings"] if finding["severity"] != "info"] == []
        assert found["ok"]
        examined = {check["name"]: check["examined"] for check in found["checks"]}
        assert examined["chain"] >= 5
        assert examined["closed-leases"] == 8 + 2  # 8 pods of one GPU, 2 of eight
        assert answer(island, "verify", user="auditor")["checks"] == found["checks"]
        saved = tmp_path / "saved.json"
        island.cli("snapshot", "save", str(saved), user="operator").ok()
        offline = json.loads(island.cli("verify", "--from", str(saved), "-o", "json").ok().stdout)
        assert offline["checks"] == found["checks"]
        doctor = json.loads(island.cli("doctor", "-o", "json", user="operator").stdout)
        assert [finding for finding in doctor["findings"] if finding["check"] in ("install", "leases", "pods")] == []


def _phases(island: Island) -> set[str]:
    return {pod["status"]["phase"] for pod in island.pods()}
