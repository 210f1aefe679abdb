"""What happens by itself in the sandbox: the clock, simulated pods and nodes, garbage."""

from __future__ import annotations

import pytest

from kubectl_runs.store.protocol import (
    Delete,
    Get,
    List,
    NotFound,
)
from kubectl_runs.store.sandbox import SandboxStore, controls
from kubectl_runs.wire.kinds import (
    API_VERSION,
    LEASE,
    NAMESPACE,
    NODE,
    POD,
    RUN,
    SERVICE,
)
from kubectl_runs.wire.times import rfc3339
from tests.store.sandboxes import is_gone, look, make, pod, run, start


@pytest.fixture
def store() -> SandboxStore:
    return SandboxStore.open(":memory:")


def test_clock_stands_still_until_time_passes(store: SandboxStore) -> None:
    before = store.now()
    make(store, POD, pod())
    assert store.now() == before
    store.advance(90)
    assert store.now() == before + 90
    store.sleep(0.4)
    store.sleep(0.7)
    assert store.now() == before + 91
    assert make(store, POD, pod("q"))["metadata"]["creationTimestamp"] == rfc3339(before + 91)


def test_bound_pod_runs_at_once_and_without_annotations_runs_on(store: SandboxStore) -> None:
    assert start(store, pod())["status"]["phase"] == "Running"
    store.advance(10 * 24 * 3600)
    assert look(store)["status"]["phase"] == "Running"


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_pod_ends_as_its_annotations_say_at_its_own_second(store: SandboxStore, phase: str) -> None:
    begun = store.now()
    start(store, pod(after="1m30s", phase=phase))
    store.advance(89)
    assert look(store)["status"]["phase"] == "Running"
    store.advance(3600)
    status = look(store)["status"]
    assert status["phase"] == phase
    assert status["containerStatuses"][0]["state"]["terminated"]["finishedAt"] == rfc3339(begun + 90)


def test_deadline_strikes_before_a_later_end(store: SandboxStore) -> None:
    start(store, pod(after="2h", spec={"activeDeadlineSeconds": 60}))
    store.advance(61)
    assert look(store)["status"]["phase"] == "Failed"
    assert look(store)["status"]["reason"] == "DeadlineExceeded"


def test_unbound_pod_never_runs(store: SandboxStore) -> None:
    make(store, POD, pod(after="1s"))
    store.advance(3600)
    assert look(store)["status"]["phase"] == "Pending"


def test_deleted_pod_goes_after_its_grace_as_time_passes(store: SandboxStore) -> None:
    start(store, pod(spec={"terminationGracePeriodSeconds": 20}))
    store.perform(Delete(kind=POD, name="p", namespace="rai"))
    store.sleep(19)
    assert "deletionTimestamp" in look(store)["metadata"]
    store.sleep(1)
    assert is_gone(store)


def test_ended_pod_goes_at_once(store: SandboxStore) -> None:
    start(store, pod(after="1s"))
    store.advance(2)
    store.perform(Delete(kind=POD, name="p", namespace="rai"))
    assert is_gone(store)


def test_pod_on_an_unready_node_neither_ends_nor_goes_until_forced(store: SandboxStore) -> None:
    start(store, pod(after="1m"))
    assert controls.fail_node(store, "d1-n1", controls.Failure.NOT_READY) == 1
    store.advance(24 * 3600)
    assert look(store)["status"]["phase"] == "Running"
    store.perform(Delete(kind=POD, name="p", namespace="rai"))
    store.advance(24 * 3600)
    assert "deletionTimestamp" in look(store)["metadata"]
    store.perform(Delete(kind=POD, name="p", namespace="rai", grace_seconds=0))
    assert is_gone(store)


@pytest.mark.parametrize("how", [controls.Failure.OUT_OF_SERVICE, controls.Failure.REMOVED])
def test_pod_on_a_failed_node_stays_until_it_is_deleted(store: SandboxStore, how: controls.Failure) -> None:
    start(store, pod(after="1m"))
    controls.fail_node(store, "d1-n1", how)
    store.advance(3600)
    assert look(store)["status"]["phase"] == "Running"
    store.perform(Delete(kind=POD, name="p", namespace="rai"))
    assert is_gone(store)


@pytest.mark.parametrize("how", [controls.Failure.OUT_OF_SERVICE, controls.Failure.REMOVED])
def test_terminating_pod_is_collected_when_its_node_fails(store: SandboxStore, how: controls.Failure) -> None:
    start(store, pod())
    store.perform(Delete(kind=POD, name="p", namespace="rai"))
    controls.fail_node(store, "d1-n1", how)
    assert is_gone(store)


def test_failed_node_carries_the_taint_or_is_absent(store: SandboxStore) -> None:
    controls.fail_node(store, "d1-n1", controls.Failure.OUT_OF_SERVICE)
    controls.fail_node(store, "d1-n2", controls.Failure.REMOVED)
    nodes = {item["metadata"]["name"]: item for item in store.perform(List(kind=NODE)).items}
    assert [taint["key"] for taint in nodes["d1-n1"]["spec"]["taints"]] == ["node.kubernetes.io/out-of-service"]
    assert "d1-n2" not in nodes


def test_pod_bound_to_a_node_that_is_not_there_waits(store: SandboxStore) -> None:
    assert start(store, pod(), node="no-such-node")["status"]["phase"] == "Pending"


def test_what_a_run_owned_goes_with_it(store: SandboxStore) -> None:
    owner = make(store, RUN, run())
    other = make(store, RUN, run("other"))
    make(store, POD, pod("mine", owner=owner))
    make(store, POD, pod("theirs", owner=other))
    make(store, SERVICE, {**pod("gang", owner=owner), "spec": {"clusterIP": "None"}})
    lease = {"apiVersion": API_VERSION, "kind": "Lease", "metadata": {"name": "l-1-0", "namespace": "rai"}}
    lease["spec"] = {
        "owner": "org:ai:rai",
        "runRef": {"name": "train", "uid": owner["metadata"]["uid"]},
        "compPath": ["SHARD[0]"],
        "slice": {"nodes": ["d1-n1"], "gpus": 8, "role": "Active"},
        "interval": {"start": rfc3339(store.now())},
        "paidByBudget": "rai",
        "paidByEnvelope": "h100",
        "class": "owned",
        "reason": "Start",
    }
    make(store, LEASE, lease)
    store.perform(Delete(kind=RUN, name="train", namespace="rai"))
    assert is_gone(store, "mine")
    assert is_gone(store, "gang", SERVICE)
    assert not is_gone(store, "theirs")
    assert not is_gone(store, "l-1-0", LEASE)  # history survives its run


def test_namespace_goes_when_its_last_pod_is_gone(store: SandboxStore) -> None:
    start(store, pod(spec={"terminationGracePeriodSeconds": 5}))
    make(store, POD, pod("unbound"))
    store.perform(Delete(kind=NAMESPACE, name="rai"))
    assert is_gone(store, "unbound")
    assert store.perform(Get(kind=NAMESPACE, name="rai")).object["status"]["phase"] == "Terminating"
    store.advance(5)
    with pytest.raises(NotFound):
        store.perform(Get(kind=NAMESPACE, name="rai"))


def test_complete_ends_the_pods_of_one_run_only(store: SandboxStore) -> None:
    owner, other = make(store, RUN, run()), make(store, RUN, run("other"))
    for number in range(3):
        start(store, pod(f"p{number}", owner=owner))
    start(store, pod("q", owner=other))
    assert controls.complete(store, "rai", "train", "Succeeded") == 3
    assert {look(store, f"p{number}")["status"]["phase"] for number in range(3)} == {"Succeeded"}
    assert look(store, "q")["status"]["phase"] == "Running"
    assert controls.complete(store, "rai", "train", "Failed") == 0


def test_advance_tells_what_became_of_pods(store: SandboxStore) -> None:
    begun = store.now()
    start(store, pod("a", after="10s"))
    start(store, pod("b", after="20s", phase="Failed"))
    start(store, pod("c", after="1h"))
    now, happened = controls.advance(store, 60)
    assert now == begun + 60
    assert dict(happened) == {"succeeded": 1, "failed": 1}


def test_logs_tell_when_a_simulated_pod_began_and_ended(store: SandboxStore) -> None:
    start(store, pod(after="10s"))
    assert len(list(store.logs("rai", "p"))) == 1
    store.advance(10)
    lines = list(store.logs("rai", "p"))
    assert "main runs on d1-n1" in lines[0]
    assert lines[1].endswith("main ended with exit code 0")
    assert list(store.logs("rai", "p", tail=1)) == lines[1:]


def test_watch_in_memory_lets_time_pass_and_ends(store: SandboxStore) -> None:
    started = start(store, pod(after="30s"))
    version = started["metadata"]["resourceVersion"]
    changes = list(store.watch(POD, "rai", resource_version=version, seconds=60))
    assert [change.object["status"]["phase"] for change in changes] == ["Succeeded"]
