"""A run's pods: the user's template plus what the gang needs (section 4)."""

from __future__ import annotations

from typing import Any

import pytest

from kubectl_runs.errors import WireError
from kubectl_runs.wire.pods import Rank, check_template, host_name, pod_object, service_name, service_object
from planner.model import Role


def run(*containers: dict[str, Any], name: str = "train", **pod: Any) -> dict[str, Any]:
    spec = {"containers": list(containers) or [{"name": "main", "image": "x"}], **pod}
    return {
        "metadata": {"name": name, "namespace": "team", "uid": "u"},
        "spec": {"resources": {"gpuType": "H100", "totalGPUs": 16, "gpusPerPod": 8}, "template": {"spec": spec}},
    }


def rank(number: int = 1, pods: int = 2) -> Rank:
    return Rank(rank=number, group=3, role=Role.ACTIVE, pods=pods, attempt=1)


def env(pod: dict[str, Any], container: int = 0) -> dict[str, str]:
    return {each["name"]: each.get("value", "") for each in pod["spec"]["containers"][container]["env"]}


def test_ranks_count_pods_and_gpus() -> None:
    assert env(pod_object(run(), rank(), "abcdef0123456789")) == {
        "MASTER_ADDR": "train-0.run-train",
        "MASTER_PORT": "29500",
        "NODE_RANK": "1",
        "NNODES": "2",
        "NPROC_PER_NODE": "8",
        "RANK": "8",
        "WORLD_SIZE": "16",
    }


def test_users_own_env_wins() -> None:
    own = {"name": "main", "image": "x", "env": [{"name": "MASTER_PORT", "value": "1234"}]}
    assert env(pod_object(run(own), rank(), "a" * 32))["MASTER_PORT"] == "1234"


def test_single_pod_is_its_own_master_without_a_service() -> None:
    pod = pod_object(run(), rank(0, pods=1), "a" * 32)
    assert env(pod)["MASTER_ADDR"] == "train-0"
    assert "subdomain" not in pod["spec"]


def test_gpu_request_goes_to_the_first_container() -> None:
    pod = pod_object(run({"name": "main"}, {"name": "side"}), rank(), "a" * 32)
    assert pod["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "8"}
    assert "resources" not in pod["spec"]["containers"][1]


def test_gpu_request_goes_to_the_only_container_that_asks() -> None:
    asking = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": 8, "cpu": "4"}}}
    pod = pod_object(run({"name": "side"}, asking), rank(), "a" * 32)
    assert "resources" not in pod["spec"]["containers"][0]
    assert pod["spec"]["containers"][1]["resources"]["limits"] == {"nvidia.com/gpu": "8", "cpu": "4"}


@pytest.mark.parametrize(
    ("template", "path"),
    [
        pytest.param(run(nodeName="n1"), "spec.template.spec.nodeName", id="nodeName"),
        pytest.param(run(schedulerName="mine"), "spec.template.spec.schedulerName", id="schedulerName"),
        pytest.param(run(restartPolicy="Always"), "spec.template.spec.restartPolicy", id="restartPolicy"),
        pytest.param(
            run({"name": "m", "resources": {"limits": {"nvidia.com/gpu": "4"}}}),
            "spec.template.spec.containers[0].resources",
            id="another GPU request",
        ),
        pytest.param(
            run(
                {"name": "m", "resources": {"limits": {"nvidia.com/gpu": "8"}}},
                {"name": "n", "resources": {"requests": {"nvidia.com/gpu": "8"}}},
            ),
            "spec.template.spec.containers[1].resources",
            id="two that ask",
        ),
    ],
)
def test_template_that_places_itself_is_refused_with_the_field(template: dict[str, Any], path: str) -> None:
    with pytest.raises(WireError) as raised:
        check_template(template)
    assert raised.value.path == path


def test_equal_gpu_request_is_accepted() -> None:
    check_template(run({"name": "m", "resources": {"limits": {"nvidia.com/gpu": "8"}}}, restartPolicy="OnFailure"))


def test_duration_becomes_the_deadline_and_the_template_stays_the_users() -> None:
    template = run(tolerations=[{"key": "gpu"}], restartPolicy="OnFailure")
    template["spec"]["duration"] = "90m"
    template["spec"]["template"]["metadata"] = {"labels": {"team": "x"}, "annotations": {"note": "y"}}
    pod = pod_object(template, rank(), "abcdef0123456789")
    assert pod["spec"]["activeDeadlineSeconds"] == 5400
    assert pod["spec"]["restartPolicy"] == "OnFailure"
    assert pod["spec"]["tolerations"] == [{"key": "gpu"}]
    assert pod["metadata"]["labels"] == {
        "team": "x",
        "rq.davidlangworthy.io/run": "train",
        "rq.davidlangworthy.io/group-index": "3",
        "rq.davidlangworthy.io/role": "Active",
    }
    assert pod["metadata"]["annotations"] == {"note": "y"}
    assert pod["metadata"]["name"] == "train-abcdef01-1"
    assert "nodeName" not in pod["spec"]


def test_names_with_dots_and_digits_are_legal_hosts() -> None:
    assert host_name("v1.2", 7) == "v1-2-7"
    assert service_name("7b.chat") == "run-7b-chat"
    assert service_object(run(name="7b"))["spec"]["clusterIP"] == "None"
