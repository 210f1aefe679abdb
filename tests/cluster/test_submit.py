"""`submit` on a real API server: gangs of 1, 16 and 128 pods, idempotent, and nothing left behind when refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.controlplane.client import wait_for
from tests.controlplane.fixtures import Island


def write(folder: Path, manifest: object) -> str:
    path = folder / "run.yaml"
    path.write_text(json.dumps(manifest))
    return str(path)


@pytest.mark.parametrize(("pods", "gpus_per_pod"), [(1, 8), (16, 1), (128, 1)])
def test_submit_gang_of_any_size_binds_every_pod_under_its_lease(
    island: Island, tmp_path: Path, pods: int, gpus_per_pod: int
) -> None:
    island.add_nodes(max(1, pods * gpus_per_pod // 8))
    island.add_budget(concurrency=128)
    run = island.run("gang", pods * gpus_per_pod, resources={"gpusPerPod": gpus_per_pod})

    island.cli("submit", "-f", write(tmp_path, run)).ok()

    leases = island.leases(open_only=True)
    bound = {pod["metadata"]["name"]: pod["spec"].get("nodeName") for pod in island.pods()}
    assert len(leases) == len(bound) == pods
    for lease in leases:
        assert bound[lease["spec"]["podRef"]["name"]] == lease["spec"]["slice"]["nodes"][0]
    status = island.admin.get("runs", "gang", island.namespace)["status"]
    assert status["phase"] == "Running"
    assert status["width"]["allocated"] == pods * gpus_per_pod
    wait_for("pods to run", lambda: all(pod["status"]["phase"] == "Running" for pod in island.pods()))


def test_submit_again_says_so_and_changes_nothing(island: Island, tmp_path: Path) -> None:
    island.add_nodes(1)
    island.add_budget(concurrency=8)
    file = write(tmp_path, island.run("once", 8, resources={"gpusPerPod": 4}))
    island.cli("submit", "-f", file).ok()
    before = island.leases()

    again = island.cli("submit", "-f", file).ok()

    assert "already running with 8 GPUs" in again.stdout
    assert island.leases() == before


def test_submit_with_another_spec_is_refused(island: Island, tmp_path: Path) -> None:
    island.add_nodes(2)
    island.add_budget(concurrency=16)
    island.cli("submit", "-f", write(tmp_path, island.run("same", 8))).ok()

    other = island.cli("submit", "-f", write(tmp_path, island.run("same", 16)))

    assert other.exit_code == 1
    assert "exists with another spec" in other.stderr
    assert "spec.resources" in other.stderr


def test_submit_refused_by_quota_leaves_nothing_held(island: Island, tmp_path: Path) -> None:
    island.add_nodes(1)
    island.add_budget(concurrency=8)
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few", "namespace": island.namespace}}
    hard = {"hard": {"pods": "2"}}
    made = island.admin.create("resourcequotas", {**quota, "spec": hard}, island.namespace)
    # No quota controller runs here: what it would count is written for it, the admission plugin does the rest.
    island.admin.replace("resourcequotas", {**made, "status": {**hard, "used": {"pods": "0"}}}, "status")

    refused = island.cli("submit", "-f", write(tmp_path, island.run("many", 8)))

    assert refused.exit_code == 1
    assert "exceeded quota" in refused.stderr
    wait_for("pods to go", lambda: not island.pods())
    assert island.leases() == []
    assert [island.admin.list(kind, island.namespace) for kind in ("runs", "services")] == [[], []]


def test_submit_with_a_claim_that_waits_for_its_first_consumer_is_refused(island: Island, tmp_path: Path) -> None:
    """P1: nobody would ever bind it, since pods of a run skip the scheduler."""
    island.add_nodes(1)
    island.add_budget(concurrency=8)
    late = {"provisioner": "example.com/late", "volumeBindingMode": "WaitForFirstConsumer"}
    island.admin.create("storage.k8s.io/v1/storageclasses", {"metadata": {"name": island.namespace}, **late})
    spec = {"storageClassName": island.namespace, "accessModes": ["ReadWriteOnce"]}
    wants = {"metadata": {"name": "data"}, "spec": {**spec, "resources": {"requests": {"storage": "1Gi"}}}}
    island.admin.create("persistentvolumeclaims", wants, island.namespace)
    run = island.run("reader", 8)
    run["spec"]["template"]["spec"]["volumes"] = [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]

    refused = island.cli("submit", "-f", write(tmp_path, run))

    assert refused.exit_code == 1
    assert "volume claim data waits for its first consumer" in refused.stderr
    assert island.admin.list("runs", island.namespace) == []


def test_run_to_its_end_closes_leases_with_the_finish_time(island: Island, tmp_path: Path) -> None:
    island.add_nodes(1)
    island.add_budget(concurrency=8)
    run = island.run("short", 8, after="1s", phase="Succeeded", resources={"gpusPerPod": 4})

    ended = island.cli("submit", "-f", write(tmp_path, run), "--wait=end").ok()

    leases = island.leases()
    assert [lease["status"]["closureReason"] for lease in leases] == ["Completed", "Completed"], ended.stderr
    finished = {
        pod["metadata"]["name"]: pod["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"]
        for pod in island.pods()
    }
    for lease in leases:
        assert lease["status"]["endTime"] == finished[lease["spec"]["podRef"]["name"]]
    assert island.admin.get("runs", "short", island.namespace)["status"]["phase"] == "Completed"


def test_cancel_frees_gpus_only_after_pods_are_gone(island: Island, tmp_path: Path) -> None:
    island.add_nodes(1)
    island.add_budget(concurrency=8)
    island.cli("submit", "-f", write(tmp_path, island.run("stop", 8, resources={"gpusPerPod": 4}))).ok()

    island.cli("cancel", "stop").ok()

    assert island.pods() == []
    assert {lease["status"]["closureReason"] for lease in island.leases()} == {"Canceled"}
    assert island.cli("submit", "stop").exit_code == 1


@pytest.mark.parametrize(
    "verb", [("cancel", "first"), ("shrink", "first", "--to", "8", "--yes")], ids=lambda verb: verb[0]
)
def test_what_a_command_frees_lets_a_waiting_run_start(island: Island, tmp_path: Path, verb: tuple[str, ...]) -> None:
    island.add_nodes(2)
    island.add_budget(concurrency=16)
    malleable = {"minTotalGPUs": 8, "maxTotalGPUs": 16, "stepGPUs": 8}
    first = island.run("first", 16, resources={"gpusPerPod": 8}, malleable=malleable)
    island.cli("submit", "-f", write(tmp_path, first)).ok()
    island.cli("submit", "-f", write(tmp_path, island.run("second", 8, resources={"gpusPerPod": 8}))).ok()
    assert island.admin.get("runs", "second", island.namespace)["status"]["phase"] == "Pending"

    done = island.cli(*verb).ok()

    assert f"started run {island.namespace}/second, which was waiting" in done.stderr
    assert island.admin.get("runs", "second", island.namespace)["status"]["phase"] == "Running"


def test_deleted_run_is_kept_by_its_finalizer_until_settled(island: Island, tmp_path: Path) -> None:
    island.add_nodes(1)
    island.add_budget(concurrency=8)
    island.cli("submit", "-f", write(tmp_path, island.run("gone", 8, resources={"gpusPerPod": 8}))).ok()
    island.admin.delete("runs", "gone", island.namespace)
    assert island.admin.find("runs", "gone", island.namespace) is not None

    def settled() -> bool:
        island.cli("settle").ok()
        return island.admin.find("runs", "gone", island.namespace) is None

    wait_for("the run to go", settled)
    assert [lease["status"]["closureReason"] for lease in island.leases()] == ["Canceled"]


def test_shrink_and_grow_change_width_by_whole_groups(island: Island, tmp_path: Path) -> None:
    island.add_nodes(4)
    island.add_budget(concurrency=32)
    malleable = {"minTotalGPUs": 8, "maxTotalGPUs": 32, "stepGPUs": 8}
    run = island.run("wide", 32, resources={"gpusPerPod": 8}, malleable=malleable)
    island.cli("submit", "-f", write(tmp_path, run)).ok()

    island.cli("shrink", "wide", "--to", "16", "--yes").ok()
    groups = sorted(lease["spec"]["compPath"][0] for lease in island.leases(open_only=True))
    assert groups == ["SHARD[0]", "SHARD[1]"]
    assert island.admin.get("runs", "wide", island.namespace)["spec"]["malleable"]["desiredTotalGPUs"] == 16

    island.cli("grow", "wide", "--to", "24", "--yes").ok()
    assert sum(lease["spec"]["slice"]["gpus"] for lease in island.leases(open_only=True)) == 24
    assert island.cli("shrink", "wide", "--to", "0", "--yes").exit_code == 1
