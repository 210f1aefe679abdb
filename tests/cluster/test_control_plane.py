"""The test control plane itself: rights, simulated lifecycles, restarts, and that nothing outlives its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.controlplane import fleet
from tests.controlplane.client import Client, Object, Refused, wait_for
from tests.controlplane.plane import USERS, ControlPlane

ROOT = Path(__file__).parents[2]


def bound_pod(client: Client, namespace: str, name: str, node: str, **simulated: str) -> Object:
    """Create a pod and bind it, as our commit does."""
    annotations = {f"sim.rq.davidlangworthy.io/{key}": value for key, value in simulated.items()}
    spec = {
        "schedulerName": "nobody",
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "main", "image": "example/train:1"}],
    }
    pod = {"metadata": {"name": name, "annotations": annotations}, "spec": spec}
    made = client.create("pods", pod, namespace)
    binding = {
        "metadata": {"name": name, "uid": made["metadata"]["uid"]},
        "target": {"kind": "Node", "name": node},
    }
    client.request("POST", f"/api/v1/namespaces/{namespace}/pods/{name}/binding", binding)
    return made


def phase_of(client: Client, namespace: str, name: str) -> str:
    found = client.find("pods", name, namespace)
    return str(found["status"]["phase"]) if found else "gone"


def test_users_by_certificate_and_token_are_who_they_say(bare_control_plane: ControlPlane) -> None:
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    for key, user in USERS.items():
        client = bare_control_plane.client(key)
        said = client.create("authentication.k8s.io/v1/selfsubjectreviews", review)["status"]["userInfo"]
        assert (said["username"], set(said["groups"])) == (user.name, {*user.groups, "system:authenticated"})
        by_token = subprocess.run(
            ["kubectl", "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"],
            executable=str(fleet.kubectl()),
            env={**os.environ, "KUBECONFIG": str(bare_control_plane.kubeconfig(key, token=True))},
            capture_output=True,
            text=True,
        )
        assert by_token.stdout == user.name, by_token.stderr


def test_stranger_may_read_no_pods(bare_control_plane: ControlPlane) -> None:
    with pytest.raises(Refused) as refused:
        bare_control_plane.client("stranger").list("pods", "default")
    assert refused.value.status == 403


def test_bound_pods_live_as_their_annotations_say(bare_control_plane: ControlPlane) -> None:
    client = bare_control_plane.client()
    (node,) = fleet.add_nodes(bare_control_plane, 1, prefix="lifecycle")
    fleet.add_namespace(bare_control_plane, "lifecycle")
    bound_pod(client, "lifecycle", "runs-on", node)
    bound_pod(client, "lifecycle", "succeeds", node, after="1s", phase="Succeeded")
    bound_pod(client, "lifecycle", "fails", node, after="1s", phase="Failed")
    for name, phase in (("runs-on", "Running"), ("succeeds", "Succeeded"), ("fails", "Failed")):
        wait_for(f"{name} to be {phase}", lambda: phase_of(client, "lifecycle", name) == phase)  # noqa: B023
    ended = client.get("pods", "fails", "lifecycle")["status"]["containerStatuses"][0]["state"]["terminated"]
    assert ended["exitCode"] == 1
    assert ended["startedAt"] < ended["finishedAt"]
    client.delete("pods", "runs-on", "lifecycle")
    assert client.get("pods", "runs-on", "lifecycle")["metadata"]["deletionTimestamp"], "its grace is not over"
    wait_for("the deleted pod to go", lambda: phase_of(client, "lifecycle", "runs-on") == "gone")


def test_unbound_pod_stays_pending_and_not_ready_node_stays_so(bare_control_plane: ControlPlane) -> None:
    client = bare_control_plane.client()
    (node,) = fleet.add_nodes(bare_control_plane, 1, prefix="quiet")
    fleet.add_namespace(bare_control_plane, "quiet")
    spec = {"schedulerName": "nobody", "containers": [{"name": "main", "image": "example/train:1"}]}
    client.create("pods", {"metadata": {"name": "unbound"}, "spec": spec}, "quiet")
    not_ready = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    client.patch("nodes", node, not_ready, subresource="status")
    bound_pod(client, "quiet", "marker", node)  # when KWOK has seen this one, it has seen the others
    wait_for("the marker to run", lambda: phase_of(client, "quiet", "marker") == "Running")
    assert phase_of(client, "quiet", "unbound") == "Pending"
    assert [each["status"] for each in client.get("nodes", node)["status"]["conditions"]] == ["False"]


def test_namespace_deleted_is_gone_with_its_pods(bare_control_plane: ControlPlane) -> None:
    client = bare_control_plane.client()
    fleet.add_namespace(bare_control_plane, "short-lived")
    client.create("configmaps", {"metadata": {"name": "one"}}, "short-lived")
    client.delete("namespaces", "short-lived")
    wait_for("the namespace to go", lambda: client.find("namespaces", "short-lived") is None)


def test_api_server_restarted_keeps_data_and_address(fresh_control_plane: Callable[..., ControlPlane]) -> None:
    with fresh_control_plane(kwok=False, install=False) as plane:
        fleet.add_namespace(plane, "kept", owner="org:kept")
        before = plane.server
        plane.stop_api_server()
        with pytest.raises(OSError, match="refused"):
            plane.client().get("namespaces", "kept")
        plane.start_api_server()
        assert plane.server == before
        assert plane.client().get("namespaces", "kept")["metadata"]["annotations"][fleet.OWNER] == "org:kept"


def test_parent_killed_leaves_no_process_and_no_data() -> None:
    script = (
        "import sys, time\n"
        "from tests.controlplane.plane import ControlPlane\n"
        "plane = ControlPlane.start(kwok=False)\n"
        "print(plane.folder, *plane.process_ids(), flush=True)\n"
        "time.sleep(600)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    folder, *process_ids = parent.stdout.readline().split()
    assert len(process_ids) == 2
    assert all(Path(f"/proc/{each}").exists() for each in process_ids) or not Path("/proc/self").exists()
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    wait_for("the guards to end", lambda: not any(_alive(int(each)) for each in process_ids))
    assert not (Path(folder) / "etcd").exists()


def _alive(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    return True
