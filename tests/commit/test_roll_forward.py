"""6.5: writing down what an entry decided, by anyone, any number of times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from kubectl_runs.commit.append import Appended, append
from kubectl_runs.commit.change import cancel, shrink
from kubectl_runs.commit.settle import roll_entry
from kubectl_runs.commit.steps import drive
from kubectl_runs.commit.submit import submit
from kubectl_runs.commit.sweep import sweep
from kubectl_runs.read import Reading
from kubectl_runs.store.protocol import Bind, Create, Delete, Forbidden, Get, List, Patch, Request, StoreError, Unknown
from kubectl_runs.store.sandbox import SandboxStore
from kubectl_runs.wire import decode, encode
from kubectl_runs.wire.kinds import LEASE, LEDGER_ENTRY, NAMESPACE, POD
from planner.model import Entry
from tests.commit.simulation import manifest
from tests.commit.test_append import start
from tests.commit.worlds import (
    KEY,
    Interceptor,
    base,
    creates,
    entries,
    leases,
    means,
    pods,
    reading,
    run_object,
    sandbox,
    submitted,
)


class Died(Exception):
    """The client is gone."""


def submit_that_dies_at(store: SandboxStore, dies: Callable[[Request], bool]) -> None:
    """A submit that is killed at the first request that matches."""

    def answer(request: Request) -> None:
        if dies(request):
            raise Died

    with pytest.raises(Died):
        Interceptor(store, answer).run(submit(manifest("a", 2), means()))


def writes_lease(request: Request) -> bool:
    return isinstance(request, Create) and request.kind == LEASE


def binds(request: Request) -> bool:
    return isinstance(request, Bind)


@pytest.mark.parametrize("dies", [writes_lease, binds])
def test_submit_cut_off_after_its_append_is_finished_by_any_later_command(dies: Callable[[Request], bool]) -> None:
    store = sandbox()
    submit_that_dies_at(store, dies)
    assert len(entries(store)) == 1

    drive(sweep(reading(store), means()), store)

    assert [pod["spec"].get("nodeName") for pod in pods(store)] == [
        lease["spec"]["slice"]["nodes"][0] for lease in leases(store)
    ]
    assert run_object(store)["status"]["phase"] == "Running"
    assert base(store)["seq"] == 1
    assert "pending" not in base(store)


def test_rolling_forward_twice_changes_nothing() -> None:
    store = sandbox()
    submitted(store)
    seen = reading(store)
    before = leases(store), pods(store)
    entry = first_entry(store)

    rolled = drive(roll_entry(entry, seen), store)

    assert rolled.unfinished == ()
    assert (leases(store), pods(store)) == before


def first_entry(store: SandboxStore) -> Entry:
    return decode.entry(store.perform(List(kind=LEDGER_ENTRY)).items[0])


def test_lease_that_is_another_ones_is_no_success() -> None:
    """`AlreadyExists` counts only if run UID, node and payer match."""
    store = sandbox()
    submit_that_dies_at(store, writes_lease)
    entry = first_entry(store)
    forged = encode.lease_object(entry, entry.opens[0])
    forged["spec"] = {**forged["spec"], "paidByEnvelope": "other"}
    store.perform(Create(kind=LEASE, object=forged))
    seen = reading(store)
    blind = Interceptor(store)

    rolled = blind.run(roll_entry(entry, _without_leases(seen)))

    assert rolled.unfinished == ("lease team/l-1-0 is not written",)


def _without_leases(seen: Reading) -> Reading:
    return replace(seen, objects={**seen.objects, LEASE: {}})


def test_bind_names_the_uid_of_the_entry() -> None:
    """Race 13: a pod of the same name, made later, is never started in its place."""
    store = sandbox()
    spy = Interceptor(store)
    done = spy.run(submit(manifest("a", 2), means()))
    assert done.begun is not None
    assert done.begun.entry is not None
    wanted = {open_.pod.uid for open_ in done.begun.entry.opens if open_.pod}
    assert {request.uid for request in spy.asked if isinstance(request, Bind)} == wanted


def test_pod_of_a_lease_that_was_ended_is_not_started() -> None:
    """A sleeper that wakes after a cancel finds its pods gone, and does not bind them either."""
    store = sandbox()
    submit_that_dies_at(store, binds)
    drive(cancel(KEY, means()), store)

    spy = Interceptor(store)
    spy.run(sweep(reading(store), means()))

    assert [request for request in spy.asked if isinstance(request, Bind)] == []
    assert pods(store) == []
    assert {lease["status"]["closureReason"] for lease in leases(store)} == {"Canceled"}


def test_close_of_a_lease_that_nobody_wrote_waits_for_it() -> None:
    """Race 15: NotFound on a close is no success above `floor`; the lease is written first, then closed."""
    store = sandbox()

    def no_leases(request: Request) -> StoreError | None:
        return Unknown("lost") if writes_lease(request) else None

    Interceptor(store, no_leases).run(submit(manifest("a", 1), means()))
    assert leases(store) == []
    Interceptor(store, no_leases).run(cancel(KEY, means()))
    assert [entry["kind"] for entry in entries(store)] == ["Start", "End", "Close"]
    assert set(base(store)["pending"]) >= {1, 3}

    drive(sweep(reading(store), means()), store)
    drive(sweep(reading(store), means()), store)

    assert [lease["status"]["closureReason"] for lease in leases(store)] == ["Canceled"]
    assert "pending" not in base(store)


def test_namespace_that_is_gone_counts_its_leases_as_written() -> None:
    store = sandbox()
    submit_that_dies_at(store, writes_lease)
    store.perform(Delete(kind=NAMESPACE, name="team"))
    seen = reading(store)
    entry = first_entry(store)
    spy = Interceptor(store)

    spy.run(roll_entry(entry, seen))

    assert seen.terminating("team")
    assert creates(LEASE, spy.asked) == []


def test_missing_right_leaves_the_entry_pending_and_base_goes_on() -> None:
    """6.8: nobody's missing rights hold the base up."""
    store = sandbox()

    def forbid(request: Request) -> StoreError | None:
        return Forbidden("no") if binds(request) else None

    Interceptor(store, forbid).run(submit(manifest("a", 1), means()))

    assert base(store)["seq"] == 1
    assert base(store)["pending"] == [1]
    submitted(store, "b", 1)
    assert base(store)["seq"] == 2

    drive(sweep(reading(store), means()), store)

    assert "pending" not in base(store)


def test_submit_again_that_may_not_finish_says_what_is_left() -> None:
    store = sandbox()
    submit_that_dies_at(store, writes_lease)

    def forbid(request: Request) -> StoreError | None:
        return Forbidden("policy is not ready") if writes_lease(request) else None

    again = Interceptor(store, forbid).run(submit(manifest("a", 2), means()))
    assert [entry.seq for entry in again.unfinished] == [1]

    assert drive(submit(manifest("a", 2), means()), store).unfinished == ()
    assert len(leases(store)) == 2


def test_cut_pod_gets_the_time_to_save_that_its_run_declares() -> None:
    store = sandbox()
    malleable = {"minTotalGPUs": 1, "maxTotalGPUs": 2, "stepGPUs": 1}
    submitted(store, "a", 2, malleable=malleable, runtime={"checkpoint": "90s"})
    spy = Interceptor(store)
    spy.run(shrink(KEY, 1, means(), wait=False))
    stopped = [request.grace_seconds for request in spy.asked if isinstance(request, Delete) and request.kind == POD]
    assert stopped == [90]


def test_lost_reply_of_a_close_is_no_harm() -> None:
    store = sandbox()
    submitted(store, "a", 1, after="5s")
    store.advance(10)

    def lose(request: Request) -> StoreError | None:
        if isinstance(request, Patch) and request.kind == LEASE:
            store.perform(request)
            return Unknown("lost")
        return None

    Interceptor(store, lose).run(sweep(reading(store), means()))
    drive(sweep(reading(store), means()), store)

    assert [lease["status"]["closureReason"] for lease in leases(store)] == ["Completed"]
    assert "pending" not in base(store)


def test_append_is_planned_from_the_reading_it_names() -> None:
    store = sandbox()
    seen = reading(store)
    store.advance(30)

    done = drive(append(start(), seen, means()), store)

    assert isinstance(done, Appended)
    assert done.entry.read_at == seen.read_at
    assert store.perform(Get(kind=LEDGER_ENTRY, name="000000000001")).object["spec"]["readAt"].endswith("08:00:00Z")
