"""What the commit protocol relies on: bindings, the CRDs' rules and the admission policies, in both rooms."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from kubectl_runs.store.protocol import (
    AlreadyExists,
    Bind,
    Conflict,
    Create,
    Delete,
    Forbidden,
    Get,
    Invalid,
    NotFound,
    Object,
    Patch,
    Replace,
)
from kubectl_runs.wire.kinds import LEASE, LEDGER, LEDGER_ENTRY, NAMESPACE, NODE, POD, RUN
from tests.store.doors import CLOSED, Door


def ledger(door: Door) -> Object:
    return door.store.perform(Get(kind=LEDGER, name="base")).object


def move(door: Door, **spec: object) -> Object:
    base = ledger(door)
    return door.store.perform(Replace(kind=LEDGER, object={**base, "spec": {**base["spec"], **spec}})).object


@pytest.fixture
def floor(door: Door) -> Iterator[int]:
    """Base and floor at 40, put back afterwards: the control plane is shared by this folder's tests."""
    before = ledger(door)["spec"]
    move_floor(door, 40)
    yield 40
    move(door, seq=before["seq"], floor=before["floor"])


def move_floor(door: Door, number: int) -> None:
    """Move base and floor, and wait until the policies know: an API server reads their parameter from a cache."""
    move(door, seq=number, floor=number)
    for _ in range(200):
        (below,) = door.store.perform_all([Create(kind=LEDGER_ENTRY, object=door.entry(number), dry_run=True)])
        lease = Create(kind=LEASE, object=door.lease(f"l-{number}-9"), dry_run=True)
        (old,) = door.store.perform_all([lease])
        if isinstance(below, Forbidden | AlreadyExists) and isinstance(old, Forbidden):
            return
        time.sleep(0.05)
    raise AssertionError(f"the policies never saw the floor at {number}")


def make_pod(door: Door, name: str = "p", **metadata: object) -> str:
    return str(door.make(POD, door.pod(name, **metadata)).object["metadata"]["uid"])


def bind(door: Door, uid: str, *, pod: str = "p", node: str = "n1") -> None:
    reply = door.store.perform(Bind(namespace=door.namespace, pod=pod, uid=uid, node=node))
    assert reply.object["kind"] == "Status"


def test_bind_puts_the_pod_on_the_node_once(door: Door) -> None:
    uid = make_pod(door)
    bind(door, uid)
    pod = door.store.perform(Get(kind=POD, name="p", namespace=door.namespace)).object
    assert pod["spec"]["nodeName"] == "n1"
    assert pod["metadata"]["uid"] == uid
    for node in ("n1", "n2"):
        with pytest.raises(Conflict):
            bind(door, uid, node=node)


def test_bind_of_another_uid_is_a_conflict(door: Door) -> None:
    first = make_pod(door)
    door.store.perform(Delete(kind=POD, name="p", namespace=door.namespace))
    make_pod(door)
    with pytest.raises(Conflict):
        bind(door, first)
    pod = door.store.perform(Get(kind=POD, name="p", namespace=door.namespace)).object
    assert "nodeName" not in pod["spec"]


def test_bind_of_a_terminating_or_absent_pod_fails(door: Door) -> None:
    uid = make_pod(door, finalizers=["example.com/hold"])
    door.store.perform(Delete(kind=POD, name="p", namespace=door.namespace))
    with pytest.raises(Conflict):
        bind(door, uid)
    with pytest.raises(NotFound):
        bind(door, uid, pod="nobody")


def test_unbound_pod_is_gone_as_soon_as_it_is_deleted(door: Door) -> None:
    uid = make_pod(door)
    door.store.perform(Delete(kind=POD, name="p", namespace=door.namespace, uid=uid))
    with pytest.raises(NotFound):
        door.store.perform(Get(kind=POD, name="p", namespace=door.namespace))


def test_bound_pod_that_is_deleted_has_its_grace(door: Door) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"{door.namespace}-n1"}}
    door.make(NODE, node)
    uid = make_pod(door)
    bind(door, uid, node=f"{door.namespace}-n1")
    door.store.perform(Delete(kind=POD, name="p", namespace=door.namespace, grace_seconds=7))
    pod = door.store.perform(Get(kind=POD, name="p", namespace=door.namespace)).object
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 7
    door.store.perform(Delete(kind=POD, name="p", namespace=door.namespace, grace_seconds=0))
    with pytest.raises(NotFound):
        door.store.perform(Get(kind=POD, name="p", namespace=door.namespace))


def test_spec_of_a_pod_is_frozen(door: Door) -> None:
    make_pod(door)
    target = {"kind": POD, "name": "p", "namespace": door.namespace}
    with pytest.raises(Invalid):
        door.store.perform(Patch(**target, patch={"spec": {"nodeName": "n9"}}))
    pod = door.store.perform(Patch(**target, patch={"spec": {"activeDeadlineSeconds": 60}})).object
    assert pod["spec"]["activeDeadlineSeconds"] == 60


def test_lease_spec_is_frozen_and_a_closed_lease_stays_closed(door: Door) -> None:
    door.make(LEASE, door.lease())
    target = {"kind": LEASE, "name": "l-7-0", "namespace": door.namespace}
    with pytest.raises(Invalid):
        door.store.perform(Patch(**target, patch={"spec": {"paidByBudget": "mm"}}))
    closed = door.store.perform(Patch(**target, patch={"status": CLOSED}, subresource="status")).object
    reopened = {key: item for key, item in closed.items() if key != "status"}
    for change in ({**closed, "status": {**CLOSED, "closureReason": "Fail"}}, reopened):
        with pytest.raises((Invalid, Forbidden)):
            door.store.perform(Replace(kind=LEASE, object=change, subresource="status"))
    with pytest.raises(Forbidden):
        door.store.perform(Patch(**target, patch={"metadata": {"labels": {"a": "b"}}}))
    assert door.store.perform(Get(**target)).object["status"] == CLOSED


def test_half_a_closing_is_invalid(door: Door) -> None:
    door.make(LEASE, door.lease())
    target = {"kind": LEASE, "name": "l-7-0", "namespace": door.namespace}
    with pytest.raises(Invalid):
        door.store.perform(Patch(**target, patch={"status": {"closed": True}}, subresource="status"))


def test_lease_without_a_group_is_invalid(door: Door) -> None:
    bad = door.lease()
    bad["spec"]["compPath"] = ["main"]
    with pytest.raises(Invalid):
        door.make(LEASE, bad)


def test_open_lease_cannot_be_deleted(door: Door) -> None:
    door.make(LEASE, door.lease("unnumbered"))  # the floor does not speak about it
    with pytest.raises(Forbidden) as refused:
        door.store.perform(Delete(kind=LEASE, name="unnumbered", namespace=door.namespace))
    assert "an open lease cannot be deleted" in refused.value.message


def test_lease_above_the_floor_is_kept_and_below_it_never_comes_back(door: Door, floor: int) -> None:
    with pytest.raises(Forbidden) as refused:
        door.make(LEASE, door.lease(f"l-{floor}-0"))
    assert "at or below the ledger's floor" in refused.value.message
    door.make(LEASE, door.lease(f"l-{floor + 1}-0"))
    target = {"kind": LEASE, "name": f"l-{floor + 1}-0", "namespace": door.namespace}
    door.store.perform(Patch(**target, patch={"status": CLOSED}, subresource="status"))
    with pytest.raises(Forbidden):
        door.store.perform(Delete(**target))
    move_floor(door, floor + 1)
    door.store.perform(Delete(**target))


def test_run_of_another_owner_is_forbidden(door: Door) -> None:
    alien = door.run()
    alien["spec"]["owner"] = "org:somebody-else"
    with pytest.raises(Forbidden) as refused:
        door.make(RUN, alien)
    assert "spec.owner must be the namespace's owner" in refused.value.message


@pytest.mark.parametrize(("age_seconds", "fresh"), [(0, True), (100, True), (200, False), (-60, False)])
def test_entry_must_be_fresh(door: Door, age_seconds: int, fresh: bool) -> None:
    tried = Create(kind=LEDGER_ENTRY, object=door.entry(900, age_seconds=age_seconds), dry_run=True)
    if fresh:
        door.store.perform(tried)
        return
    with pytest.raises(Forbidden) as refused:
        door.store.perform(tried)
    assert "readAt must be at most 2 minutes" in refused.value.message


def test_entry_at_or_below_the_floor_is_forbidden(door: Door, floor: int) -> None:
    door.store.perform(Create(kind=LEDGER_ENTRY, object=door.entry(floor + 1), dry_run=True))
    for seq in (floor, floor - 1):
        with pytest.raises(Forbidden) as refused:
            door.store.perform(Create(kind=LEDGER_ENTRY, object=door.entry(seq), dry_run=True))
        assert "at or below the ledger's floor" in refused.value.message


def test_entry_is_create_only_and_kept_above_the_floor(door: Door, floor: int) -> None:
    seq = floor + 2
    door.make(LEDGER_ENTRY, door.entry(seq))
    name = f"{seq:012}"
    with pytest.raises((Invalid, Forbidden)):
        door.store.perform(Patch(kind=LEDGER_ENTRY, name=name, patch={"spec": {"nonce": "f" * 32}}))
    with pytest.raises(Forbidden):
        door.store.perform(Patch(kind=LEDGER_ENTRY, name=name, patch={"metadata": {"labels": {"a": "b"}}}))
    with pytest.raises(Forbidden):
        door.store.perform(Delete(kind=LEDGER_ENTRY, name=name))
    move_floor(door, seq)
    door.store.perform(Delete(kind=LEDGER_ENTRY, name=name))


def test_entry_is_named_by_its_number(door: Door) -> None:
    misnamed = {**door.entry(901), "metadata": {"name": "901"}}
    with pytest.raises(Invalid):
        door.store.perform(Create(kind=LEDGER_ENTRY, object=misnamed, dry_run=True))


def test_entry_closes_leases_only_in_its_own_namespace(door: Door) -> None:
    ends = [{"namespace": "elsewhere", "lease": "l-1-0", "reason": "Canceled"}]
    with pytest.raises(Forbidden) as refused:
        door.store.perform(Create(kind=LEDGER_ENTRY, object=door.entry(902, ends=ends), dry_run=True))
    assert "only in its run's namespace" in refused.value.message


def test_base_moves_by_at_most_64_a_write(door: Door) -> None:
    seq = ledger(door)["spec"]["seq"]
    with pytest.raises(Forbidden):
        move(door, seq=seq + 65)
    assert move(door, seq=seq + 64)["spec"]["seq"] == seq + 64
    move(door, seq=seq)


def test_namespace_that_ends_takes_open_leases_along_or_refuses_new_work(door: Door) -> None:
    door.make(RUN, door.run(finalizers=["example.com/hold"]))
    door.store.perform(Delete(kind=NAMESPACE, name=door.namespace))
    with pytest.raises(Forbidden):
        door.make(RUN, door.run("late"))
