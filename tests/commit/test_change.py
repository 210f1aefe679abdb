"""6.7, E1, E2: cancelling, shrinking and growing a run; and what its status says meanwhile."""

from __future__ import annotations

import pytest

from kubectl_runs.commit.change import cancel, grow, shrink
from kubectl_runs.commit.life import Stage
from kubectl_runs.commit.status import phase_of
from kubectl_runs.commit.steps import drive
from kubectl_runs.commit.submit import submit
from kubectl_runs.commit.sweep import sweep
from kubectl_runs.errors import NotFoundError, RunsError
from kubectl_runs.store.protocol import Create, Delete, List, Patch, Request
from kubectl_runs.store.sandbox import SandboxStore
from kubectl_runs.wire.kinds import EVENT, POD, RESERVATION, RUN
from tests.commit.simulation import manifest
from tests.commit.worlds import (
    KEY,
    Interceptor,
    appends,
    entries,
    leases,
    means,
    pods,
    reading,
    run_object,
    sandbox,
    submitted,
)

MALLEABLE = {"minTotalGPUs": 1, "maxTotalGPUs": 4, "stepGPUs": 1}


def conditions(store: SandboxStore) -> dict[str, tuple[str, str]]:
    return {each["type"]: (each["status"], each["reason"]) for each in run_object(store)["status"]["conditions"]}


def test_cancel_sets_the_field_before_the_entry() -> None:
    store = sandbox()
    submitted(store)
    spy = Interceptor(store)

    spy.run(cancel(KEY, means()))

    field = next(
        index
        for index, request in enumerate(spy.asked)
        if isinstance(request, Patch) and request.patch.get("spec") == {"canceled": True}
    )
    entry = next(index for index, request in enumerate(spy.asked) if appends(request))
    assert field < entry


def test_cancel_of_a_run_that_holds_nothing_still_appends_an_end() -> None:
    """Race 6: a sleeping submit must find its number taken."""
    store = sandbox()
    store.perform(Create(kind=RUN, object=manifest("a", 1)))

    drive(cancel(KEY, means()), store)

    assert [(entry["kind"], entry.get("ends")) for entry in entries(store)] == [("End", None)]


def test_submit_asleep_at_its_append_while_cancelled_starts_nothing() -> None:
    store = sandbox()
    cancelled: list[bool] = []

    def meanwhile(request: Request) -> None:
        if appends(request) and not cancelled:
            cancelled.append(True)
            drive(cancel(KEY, means()), store)

    late = Interceptor(store, meanwhile).run(submit(manifest("a", 2), means()))

    assert late.life.stage is Stage.CANCELED
    assert [entry["kind"] for entry in entries(store)] == ["End"]
    assert pods(store) == []


def test_cancel_frees_gpus_after_the_pods_are_gone() -> None:
    store = sandbox()
    submitted(store)
    order: list[str] = []

    def watch(request: Request) -> None:
        if appends(request) and isinstance(request, Create):
            order.append(f"{request.object['spec']['kind']} with {len(pods(store))} pods")
        if isinstance(request, Delete) and request.kind == POD:
            order.append("stop")

    Interceptor(store, watch).run(cancel(KEY, means()))

    assert order == ["End with 2 pods", "stop", "stop", "Close with 0 pods"]
    assert {lease["status"]["closureReason"] for lease in leases(store)} == {"Canceled"}
    assert conditions(store)["Failed"] == ("True", "Canceled")


def test_cancel_of_a_run_that_completed_changes_nothing() -> None:
    store = sandbox()
    submitted(store, "a", 1, after="1s")
    store.advance(5)
    drive(sweep(reading(store), means()), store)
    before = entries(store)

    changed = drive(cancel(KEY, means()), store)

    assert changed.life.stage is Stage.COMPLETED
    assert entries(store) == before
    assert "canceled" not in run_object(store)["spec"]


def test_cancel_of_a_waiting_run_gives_up_its_promise() -> None:
    store = sandbox()
    submitted(store, "x", 6)
    submitted(store, "a", 4)
    assert run_object(store)["status"]["pendingReservation"] == "a"

    drive(cancel(KEY, means()), store)

    states = {made["metadata"]["name"]: made["status"]["state"] for made in store.perform(List(kind=RESERVATION)).items}
    assert states == {"a": "Canceled"}
    assert "pendingReservation" not in run_object(store)["status"]


def test_cancel_of_nobody_is_an_error() -> None:
    with pytest.raises(NotFoundError):
        drive(cancel(KEY, means()), sandbox())


def test_shrink_lowers_what_is_desired_before_it_ends_anything() -> None:
    """Else a crash between the two would let it grow back."""
    store = sandbox()
    submitted(store, "a", 4, malleable=MALLEABLE)
    spy = Interceptor(store)

    spy.run(shrink(KEY, 2, means()))

    writes = [
        request for request in spy.asked if appends(request) or (isinstance(request, Patch) and "spec" in request.patch)
    ]
    assert isinstance(writes[0], Patch)
    assert writes[0].patch["spec"] == {"malleable": {"desiredTotalGPUs": 2}}
    assert run_object(store)["status"]["width"]["allocated"] == 2
    assert sorted(lease["status"].get("closureReason", "-") for lease in leases(store) if lease.get("status")) == [
        "Shrink",
        "Shrink",
    ]


def test_width_that_was_lowered_by_hand_is_kept_to_by_settle() -> None:
    store = sandbox()
    submitted(store, "a", 4, malleable=MALLEABLE)
    store.perform(Patch(kind=RUN, namespace="team", name="a", patch={"spec": {"malleable": {"desiredTotalGPUs": 1}}}))
    for _ in range(2):
        drive(sweep(reading(store), means()), store)
        store.advance(40)
    drive(sweep(reading(store), means()), store)

    assert run_object(store)["status"]["width"]["allocated"] == 1


def test_grow_goes_step_by_step_as_far_as_somebody_pays() -> None:
    store = sandbox()
    submitted(store, "a", 1, malleable={"minTotalGPUs": 1, "maxTotalGPUs": 8, "stepGPUs": 1})

    changed = drive(grow(KEY, 8, means()), store)

    assert changed.life.width == 6
    assert [entry["kind"] for entry in entries(store)] == ["Start", *["Grow"] * 5]
    assert {lease["spec"]["reason"] for lease in leases(store)} == {"Start", "Grow"}


def test_resubmit_with_another_spec_is_refused() -> None:
    store = sandbox()
    submitted(store, "a", 2)
    with pytest.raises(RunsError, match=r"spec\.resources"):
        submitted(store, "a", 3)


def test_resubmit_after_shrink_is_the_same_run() -> None:
    store = sandbox()
    submitted(store, "a", 4, malleable=MALLEABLE)
    drive(shrink(KEY, 2, means()), store)

    again = submitted(store, "a", 4, malleable=MALLEABLE)

    assert again.life.stage is Stage.HOLDS
    assert again.life.width == 2


def test_waiting_run_keeps_its_place_when_submitted_again() -> None:
    """F2: the promise stands; no second entry is made for it."""
    store = sandbox()
    submitted(store, "x", 6)
    submitted(store, "a", 4)
    before = entries(store)
    store.advance(60)

    submitted(store, "a", 4)

    assert entries(store) == before


def test_waiting_run_starts_as_soon_as_somebody_settles() -> None:
    store = sandbox()
    submitted(store, "x", 6, after="10s")
    submitted(store, "a", 4)
    store.advance(20)

    swept = drive(sweep(reading(store), means()), store)

    assert swept.started == [KEY]
    assert run_object(store)["status"]["phase"] == "Running"
    states = [made["status"]["state"] for made in store.perform(List(kind=RESERVATION)).items]
    assert states == ["Released"]


def test_failed_pod_ends_the_gang_and_is_tried_again() -> None:
    store = sandbox()
    submitted(store, "a", 2, after="5s", phase="Failed", runtime={"maxRetries": 1})
    for _ in range(8):
        store.advance(20)
        drive(sweep(reading(store), means()), store)

    attempts = {lease["spec"]["runRef"].get("attempt", 1) for lease in leases(store)}
    assert attempts == {1, 2}
    assert {lease["status"]["closureReason"] for lease in leases(store)} == {"Fail"}
    assert run_object(store)["status"]["phase"] == "Failed"


def test_status_follows_the_life_of_a_run() -> None:
    store = sandbox()
    submitted(store, "a", 2, after="10s")
    running = conditions(store)
    store.advance(20)
    drive(sweep(reading(store), means()), store)

    assert running["Running"] == ("True", "Bound")
    assert conditions(store)["Running"] == ("False", "Completed")
    assert conditions(store)["Completed"] == ("True", "Completed")
    status = run_object(store)["status"]
    assert status["observedGeneration"] == run_object(store)["metadata"]["generation"]
    assert status["leases"] == {"open": 0, "names": []}
    assert [each["reason"] for each in store.perform(List(kind=EVENT)).items] == ["Start", "Completed"]


@pytest.mark.parametrize(
    ("true", "phase"),
    [
        ((), "Pending"),
        (("Reserved",), "Pending"),
        (("Running",), "Running"),
        (("Completed",), "Completed"),
        (("Failed", "Running"), "Failed"),
    ],
)
def test_phase_is_derived_from_conditions(true: tuple[str, ...], phase: str) -> None:
    names = ("Running", "Reserved", "Completed", "Failed")
    assert phase_of([{"type": name, "status": "True" if name in true else "False"} for name in names]) == phase
