"""6.3: Run and pods, inert, before anything is held."""

from __future__ import annotations

import pytest

from kubectl_runs.commit.steps import drive
from kubectl_runs.commit.submit import submit
from kubectl_runs.commit.sweep import sweep
from kubectl_runs.errors import RunsError
from kubectl_runs.read import read
from kubectl_runs.store.protocol import (
    Bind,
    Create,
    Delete,
    Forbidden,
    Get,
    List,
    Reply,
    Request,
    StoreError,
    Unknown,
)
from kubectl_runs.wire.kinds import LEDGER, LEDGER_ENTRY, POD, RUN, SERVICE, STORAGE_CLASS, VOLUME_CLAIM
from tests.commit.simulation import manifest
from tests.commit.test_roll_forward import Died
from tests.commit.worlds import (
    Interceptor,
    appends,
    creates,
    entries,
    leases,
    means,
    once,
    pods,
    reading,
    run_object,
    sandbox,
    submitted,
)


def makes_pod(request: Request) -> bool:
    return isinstance(request, Create) and request.kind == POD


def test_pods_carry_the_nonce_in_their_names_and_keep_their_host_names() -> None:
    store = sandbox()
    submitted(store, "a", 2)
    first = pods(store)
    submitted(store, "b", 2)

    names = [pod["metadata"]["name"] for pod in first]
    assert [pod["spec"]["hostname"] for pod in first] == ["a-0", "a-1"]
    assert len({name.split("-")[1] for name in names}) == 1
    assert {pod["spec"]["subdomain"] for pod in first} == {"run-a"}


def test_prepared_pod_is_inert() -> None:
    spy = Interceptor(sandbox())
    spy.run(submit(manifest("a", 2), means()))
    for body in creates(POD, spy.asked):
        assert body["spec"]["schedulerName"] == "kubectl-runs"
        assert "nodeName" not in body["spec"]
        assert body["spec"]["restartPolicy"] == "Never"


def test_order_is_run_then_pods_then_entry_then_leases() -> None:
    spy = Interceptor(sandbox())
    spy.run(submit(manifest("a", 2), means()))
    kinds = [request.kind.name for request in spy.asked if isinstance(request, Create)]
    assert kinds == ["Run", "Service", "Pod", "Pod", "LedgerEntry", "Lease", "Lease", "Event"]
    bound = [index for index, request in enumerate(spy.asked) if isinstance(request, Bind)]
    appended = next(index for index, request in enumerate(spy.asked) if appends(request))
    assert min(bound) > appended


def test_pods_that_are_refused_leave_nothing_behind() -> None:
    store = sandbox()
    refused = once(makes_pod, Forbidden("exceeded quota"))

    with pytest.raises(RunsError, match="exceeded quota"):
        Interceptor(store, refused).run(submit(manifest("a", 3), means()))

    assert pods(store) == []
    assert entries(store) == []
    assert leases(store) == []
    assert [list(store.perform(List(kind=kind)).items) for kind in (RUN, SERVICE)] == [[], []]


def test_refusal_leaves_a_run_that_another_submit_works_on() -> None:
    store = sandbox()

    def refuse(request: Request) -> StoreError | None:
        if makes_pod(request) and not entries(store):
            drive(submit(manifest("a", 3), means()), store)  # the other one comes first, and takes the quota
            return Forbidden("exceeded quota")
        return None

    with pytest.raises(RunsError, match="exceeded quota"):
        Interceptor(store, refuse).run(submit(manifest("a", 3), means()))

    assert "deletionTimestamp" not in run_object(store)["metadata"]
    assert [lease["spec"]["runRef"]["uid"] for lease in leases(store)] == [run_object(store)["metadata"]["uid"]] * 3


@pytest.mark.parametrize(
    "volume",
    [
        {"persistentVolumeClaim": {"claimName": "data"}},
        {"ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
    ],
    ids=["claim", "ephemeral"],
)
def test_claim_that_waits_for_its_first_consumer_is_refused(volume: dict[str, object]) -> None:
    """P1: nothing is made for the run, since its pods could never mount it."""
    store = sandbox()
    run = manifest("a", 1)
    run["spec"]["template"]["spec"]["volumes"] = [{"name": "data", **volume}]
    default = {"storageclass.kubernetes.io/is-default-class": "true"}
    late = {"metadata": {"name": "late", "annotations": default}, "volumeBindingMode": "WaitForFirstConsumer"}

    def answer(request: Request) -> Reply | None:
        if isinstance(request, Get) and request.kind == VOLUME_CLAIM:
            return Reply(server_time=0, object={"spec": {"storageClassName": "late"}})
        if isinstance(request, List) and request.kind == STORAGE_CLASS:
            return Reply(server_time=0, items=[late])
        return None

    with pytest.raises(RunsError, match="data waits for its first consumer"):
        Interceptor(store, answer).run(submit(run, means()))

    assert list(store.perform(List(kind=RUN)).items) == []


def test_lost_reply_of_a_pod_is_looked_up_by_its_name() -> None:
    store = sandbox()

    def lose(request: Request) -> StoreError | None:
        if makes_pod(request) and not pods(store):
            store.perform(request)
            return Unknown("lost")
        return None

    Interceptor(store, lose).run(submit(manifest("a", 2), means()))

    assert len(pods(store)) == 2


def test_loser_of_a_race_deletes_its_own_pods_and_nobody_elses() -> None:
    """The same run, submitted by two: the second finds it started, and adopts nothing."""
    store = sandbox()
    first_to_come = [True]

    def overtake(request: Request) -> None:
        if appends(request) and first_to_come:
            first_to_come.clear()
            drive(submit(manifest("a", 2), means()), store)

    late = Interceptor(store, overtake).run(submit(manifest("a", 2), means()))

    assert late.begun is not None
    assert late.begun.entry is None
    assert len([entry for entry in entries(store) if entry["kind"] == "Start"]) == 1
    assert [pod["spec"].get("nodeName") is not None for pod in pods(store)] == [True, True]


def test_preparation_of_more_than_a_minute_is_read_and_planned_again_with_the_same_pods() -> None:
    store = sandbox()
    slept: list[bool] = []

    def sleep(request: Request) -> Reply | None:
        if makes_pod(request) and not slept:
            slept.append(True)
            store.advance(70)
        return None

    spy = Interceptor(store, sleep)
    done = spy.run(submit(manifest("a", 2), means()))

    bases = [request for request in spy.asked if isinstance(request, Get) and request.kind == LEDGER]
    assert len(bases) == 2, "read again"
    assert len(creates(POD, spy.asked)) == 2, "the pods are kept"
    assert done.begun is not None
    assert done.begun.entry is not None
    assert done.begun.entry.read_at == done.reading.read_at


def test_orphan_is_deleted_after_fifteen_minutes_and_not_before() -> None:
    store = sandbox()

    def die(request: Request) -> None:
        if appends(request):
            raise Died

    with pytest.raises(Died):
        Interceptor(store, die).run(submit(manifest("a", 2), means()))
    store.advance(14 * 60)
    drive(sweep(reading(store), means()), store)
    before = len(pods(store))
    store.advance(2 * 60)
    spy = Interceptor(store)
    spy.run(sweep(reading(store), means()))

    assert before == 2
    assert pods(store) == []
    assert all(request.uid for request in spy.asked if isinstance(request, Delete)), "by UID"


def test_pod_that_an_entry_names_is_no_orphan_however_old() -> None:
    """Race 7: a cleaner must not delete what somebody has committed and nobody has bound yet."""
    store = sandbox()

    def die(request: Request) -> None:
        if isinstance(request, Bind):
            raise Died

    with pytest.raises(Died):
        Interceptor(store, die).run(submit(manifest("a", 2), means()))
    store.advance(3600)

    drive(sweep(reading(store), means()), store)

    assert [bool(pod["spec"].get("nodeName")) for pod in pods(store)] == [True, True]


def test_run_gets_a_finalizer_and_pods_an_owner() -> None:
    store = sandbox()
    submitted(store, "a", 1)
    run = run_object(store)["metadata"]
    assert run["finalizers"] == ["rq.davidlangworthy.io/leases"]
    assert [pod["metadata"]["ownerReferences"][0]["uid"] for pod in pods(store)] == [run["uid"]]


def test_single_pod_needs_no_service() -> None:
    spy = Interceptor(sandbox())
    spy.run(submit(manifest("a", 1), means()))
    assert creates(SERVICE, spy.asked) == []


def test_run_made_with_apply_gets_its_finalizer_on_submit() -> None:
    from kubectl_runs.wire.kinds import RUN

    store = sandbox()
    store.perform(Create(kind=RUN, object=manifest("a", 1)))

    drive(submit(run_object(store), means()), store)

    assert run_object(store)["metadata"]["finalizers"] == ["rq.davidlangworthy.io/leases"]
    assert run_object(store)["status"]["phase"] == "Running"


def test_read_before_prepare_writes_nothing() -> None:
    spy = Interceptor(sandbox())
    spy.run(read(runs=("team/a",)))
    assert not [request for request in spy.asked if isinstance(request, Create)]
    assert LEDGER_ENTRY in {request.kind for request in spy.asked if isinstance(request, Get)}
