"""What any store must make of objects: the same on an API server and in the sandbox."""

from __future__ import annotations

import threading

import pytest

from kubectl_runs.store.protocol import (
    AlreadyExists,
    Conflict,
    Create,
    Delete,
    Forbidden,
    Get,
    Invalid,
    List,
    MayI,
    NotFound,
    Object,
    Patch,
    Replace,
    Reply,
)
from kubectl_runs.wire.kinds import BUDGET, EVENT, LEASE, NODE, POD, RUN
from tests.store.doors import CLOSED, Door

PAGED = 10_000


def stored(door: Door, name: str = "train") -> Object:
    return door.store.perform(Get(kind=RUN, name=name, namespace=door.namespace)).object


def without(value: Object, *keys: str) -> Object:
    return {key: item for key, item in value.items() if key not in keys}


def test_replace_of_an_older_version_is_refused(door: Door) -> None:
    read = door.make(RUN, door.run()).object
    mine = {**read, "metadata": {**read["metadata"], "labels": {"who": "mine"}}}
    theirs = {**read, "metadata": {**read["metadata"], "labels": {"who": "theirs"}}}
    door.store.perform(Replace(kind=RUN, object=theirs))
    with pytest.raises(Conflict):
        door.store.perform(Replace(kind=RUN, object=mine))
    assert stored(door)["metadata"]["labels"] == {"who": "theirs"}


def test_replace_without_a_version_is_refused(door: Door) -> None:
    read = door.make(RUN, door.run()).object
    blind = {**read, "metadata": without(read["metadata"], "resourceVersion")}
    with pytest.raises(Invalid):
        door.store.perform(Replace(kind=RUN, object=blind))


def test_replace_of_another_uid_is_refused(door: Door) -> None:
    first = door.make(RUN, door.run()).object
    door.store.perform(Delete(kind=RUN, name="train", namespace=door.namespace))
    second = door.make(RUN, door.run()).object
    version = second["metadata"]["resourceVersion"]
    mistaken = {**first, "metadata": {**first["metadata"], "resourceVersion": version}}
    with pytest.raises(Conflict):
        door.store.perform(Replace(kind=RUN, object=mistaken))


def test_create_race_has_one_winner(door: Door) -> None:
    stores = [door.another("") for _ in range(8)]
    outcomes: list[object] = [None] * 8
    barrier = threading.Barrier(8)

    def race(index: int) -> None:
        barrier.wait()
        wanted = Create(kind=RUN, object=door.run(annotations={"by": str(index)}))
        outcomes[index] = stores[index].perform_all([wanted])[0]

    threads = [threading.Thread(target=race, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    winners = [index for index, outcome in enumerate(outcomes) if isinstance(outcome, Reply)]
    assert len(winners) == 1
    assert sum(isinstance(outcome, AlreadyExists) for outcome in outcomes) == 7
    assert stored(door)["metadata"]["annotations"] == {"by": str(winners[0])}


def test_names_missing_taken_and_bad_have_their_own_errors(door: Door) -> None:
    with pytest.raises(NotFound):
        door.store.perform(Get(kind=POD, name="nobody", namespace=door.namespace))
    with pytest.raises(NotFound):
        door.store.perform(Delete(kind=POD, name="nobody", namespace=door.namespace))
    with pytest.raises(NotFound):
        door.store.perform(Patch(kind=RUN, name="nobody", namespace=door.namespace, patch={"metadata": {}}))
    door.make(POD, door.pod())
    with pytest.raises(AlreadyExists):
        door.make(POD, door.pod())
    with pytest.raises(Invalid):
        door.make(POD, door.pod("Not_A_Name"))
    with pytest.raises(Invalid):
        door.make(POD, door.pod("q", labels={"run": "a/b"}))


def test_create_in_a_namespace_that_is_not_there_is_not_found(door: Door) -> None:
    stray = {**door.run(), "metadata": {"name": "train", "namespace": "nowhere-at-all"}}
    with pytest.raises(NotFound):
        door.make(RUN, stray)


def test_create_with_a_version_is_refused(door: Door) -> None:
    with pytest.raises(Invalid):
        door.make(RUN, door.run(resourceVersion="7"))


def test_schema_breach_is_invalid_and_names_the_field(door: Door) -> None:
    bad = door.run()
    bad["spec"]["resources"]["totalGPUs"] = -1
    with pytest.raises(Invalid) as refused:
        door.make(RUN, bad)
    assert "totalGPUs" in refused.value.message


def test_unknown_field_is_invalid(door: Door) -> None:
    bad = door.run()
    bad["spec"]["totalGpus"] = 8
    with pytest.raises(Invalid) as refused:
        door.make(RUN, bad)
    assert "totalGpus" in refused.value.message


def test_defaults_are_filled_in_on_create(door: Door) -> None:
    assert door.make(RUN, door.run()).object["spec"]["resources"]["gpusPerPod"] == 1


def test_generate_name_makes_a_new_name_each_time(door: Door) -> None:
    nameless = door.run()
    nameless["metadata"] = {"generateName": "sweep-", "namespace": door.namespace}
    names = {door.make(RUN, nameless).object["metadata"]["name"] for _ in range(3)}
    assert len(names) == 3
    assert all(name.startswith("sweep-") and len(name) > len("sweep-") for name in names)


def test_server_stamps_uid_time_and_generation(door: Door) -> None:
    forged = door.run(uid="forged", creationTimestamp="2001-01-01T00:00:00Z", generation=9)
    reply = door.make(RUN, forged)
    metadata = reply.object["metadata"]
    assert metadata["uid"] != "forged"
    assert metadata["creationTimestamp"] > "2001-01-01T00:00:00Z"
    assert metadata["generation"] == 1
    assert reply.resource_version == metadata["resourceVersion"]


def test_replies_carry_the_time_of_the_server(door: Door) -> None:
    before = door.store.now()
    reply = door.make(RUN, door.run())
    with pytest.raises(NotFound) as refused:
        door.store.perform(Get(kind=RUN, name="nobody", namespace=door.namespace))
    assert before <= reply.server_time <= door.store.now()
    assert refused.value.server_time is not None
    assert refused.value.server_time >= before


def test_status_is_dropped_on_create_and_written_apart(door: Door) -> None:
    made = door.make(LEASE, {**door.lease(), "status": CLOSED}).object
    assert "status" not in made
    patch = {"status": CLOSED, "metadata": {"labels": {"sneaked": "in"}}}
    target = {"kind": LEASE, "name": "l-7-0", "namespace": door.namespace}
    closed = door.store.perform(Patch(**target, patch=patch, subresource="status")).object
    assert closed["status"] == CLOSED
    assert "sneaked" not in closed["metadata"].get("labels", {})
    assert closed["metadata"]["generation"] == made["metadata"]["generation"]


def test_write_of_spec_never_touches_status(door: Door) -> None:
    made = door.make(RUN, door.run()).object
    status = {"phase": "Pending", "message": "waits"}
    waiting = door.store.perform(Replace(kind=RUN, object={**made, "status": status}, subresource="status")).object
    changed = {**waiting, "spec": {**waiting["spec"], "canceled": True}, "status": {"phase": "Running"}}
    after = door.store.perform(Replace(kind=RUN, object=changed)).object
    assert after["status"] == status
    assert after["spec"]["canceled"] is True
    assert after["metadata"]["generation"] == made["metadata"]["generation"] + 1


def test_update_that_changes_nothing_keeps_the_version(door: Door) -> None:
    made = door.make(RUN, door.run()).object
    again = door.store.perform(Replace(kind=RUN, object=made)).object
    assert again["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


def test_merge_patch_merges_removes_and_replaces(door: Door) -> None:
    door.make(RUN, door.run(labels={"a": "1", "b": "2"}))
    patch = {"metadata": {"labels": {"a": None, "c": "3"}}, "spec": {"funding": {"sponsors": ["org:x"]}}}
    after = door.store.perform(Patch(kind=RUN, name="train", namespace=door.namespace, patch=patch)).object
    assert after["metadata"]["labels"] == {"b": "2", "c": "3"}
    assert after["spec"]["funding"]["sponsors"] == ["org:x"]
    assert after["spec"]["resources"]["totalGPUs"] == 8


@pytest.mark.parametrize("precondition", ["resourceVersion", "uid"])
def test_patch_with_a_wrong_precondition_is_a_conflict(door: Door, precondition: str) -> None:
    door.make(RUN, door.run())
    patch = {"metadata": {precondition: "1", "labels": {"a": "1"}}}
    with pytest.raises(Conflict):
        door.store.perform(Patch(kind=RUN, name="train", namespace=door.namespace, patch=patch))
    assert "labels" not in stored(door)["metadata"]


def test_delete_of_another_uid_is_a_conflict(door: Door) -> None:
    made = door.make(RUN, door.run()).object
    wrong = Delete(kind=RUN, name="train", namespace=door.namespace, uid="another")
    with pytest.raises(Conflict):
        door.store.perform(wrong)
    assert stored(door)["metadata"]["uid"] == made["metadata"]["uid"]
    right = Delete(kind=RUN, name="train", namespace=door.namespace, uid=made["metadata"]["uid"])
    door.store.perform(right)
    with pytest.raises(NotFound):
        stored(door)


def test_finalizer_holds_an_object_until_it_is_taken_off(door: Door) -> None:
    door.make(RUN, door.run(finalizers=["rq.davidlangworthy.io/ledger"]))
    door.store.perform(Delete(kind=RUN, name="train", namespace=door.namespace))
    dying = stored(door)
    assert "deletionTimestamp" in dying["metadata"]
    more = {**dying, "metadata": {**dying["metadata"], "finalizers": ["rq.davidlangworthy.io/ledger", "x/y"]}}
    with pytest.raises(Invalid):
        door.store.perform(Replace(kind=RUN, object=more))
    labels = {"metadata": {"labels": {"still": "here"}}}
    dying = door.store.perform(Patch(kind=RUN, name="train", namespace=door.namespace, patch=labels)).object
    assert stored(door)["metadata"]["labels"] == {"still": "here"}
    freed = {**dying, "metadata": without(dying["metadata"], "finalizers")}
    door.store.perform(Replace(kind=RUN, object=freed))
    with pytest.raises(NotFound):
        stored(door)


def test_dry_run_judges_and_changes_nothing(door: Door) -> None:
    tried = door.store.perform(Create(kind=RUN, object=door.run(), dry_run=True)).object
    assert tried["spec"]["resources"]["gpusPerPod"] == 1
    with pytest.raises(NotFound):
        stored(door)
    bad = door.run()
    bad["spec"]["resources"]["totalGPUs"] = -1
    with pytest.raises(Invalid):
        door.store.perform(Create(kind=RUN, object=bad, dry_run=True))
    made = door.make(RUN, door.run()).object
    door.store.perform(Delete(kind=RUN, name="train", namespace=door.namespace, dry_run=True))
    patch = {"spec": {"canceled": True}}
    door.store.perform(Patch(kind=RUN, name="train", namespace=door.namespace, patch=patch, dry_run=True))
    assert stored(door) == made


def test_frozen_spec_of_a_run_is_invalid_to_change(door: Door) -> None:
    door.make(RUN, door.run())
    for spec in ({"resources": {"totalGPUs": 16}}, {"template": {"spec": {"hostNetwork": True}}}):
        with pytest.raises(Invalid):
            door.store.perform(Patch(kind=RUN, name="train", namespace=door.namespace, patch={"spec": spec}))
    canceled = {"spec": {"canceled": True}}
    door.store.perform(Patch(kind=RUN, name="train", namespace=door.namespace, patch=canceled))
    with pytest.raises(Invalid):
        door.store.perform(Patch(kind=RUN, name="train", namespace=door.namespace, patch={"spec": {"canceled": False}}))


def test_label_selectors_select_as_on_the_server(door: Door) -> None:
    for name, labels in {"a": {"run": "x", "n": "1"}, "b": {"run": "y"}, "c": {}}.items():
        door.make(RUN, door.run(name, labels=labels))

    def names(labels: str) -> list[str]:
        found = door.store.perform(List(kind=RUN, namespace=door.namespace, labels=labels)).items
        return [item["metadata"]["name"] for item in found]

    assert names("run=x") == ["a"]
    assert names("run!=x") == ["b", "c"]
    assert names("run in (x, y),n") == ["a"]
    assert names("run notin (x)") == ["b", "c"]
    assert names("run,!n") == ["b"]
    assert names("!run") == ["c"]


def test_field_selectors_know_only_selectable_fields(door: Door) -> None:
    door.make(LEASE, door.lease("l-7-0", run="a", budget="rai"))
    door.make(LEASE, door.lease("l-7-1", run="b", budget="mm"))
    target = {"kind": LEASE, "name": "l-7-1", "namespace": door.namespace}
    door.store.perform(Patch(**target, patch={"status": CLOSED}, subresource="status"))

    def names(fields: str) -> list[str]:
        found = door.store.perform(List(kind=LEASE, namespace=door.namespace, fields=fields)).items
        return [item["metadata"]["name"] for item in found]

    assert names("status.closed!=true") == ["l-7-0"]  # also finds those without status
    assert names("status.closed=true") == ["l-7-1"]
    assert names("spec.paidByBudget=rai") == ["l-7-0"]
    assert names("spec.runRef.name=b,status.closed=true") == ["l-7-1"]
    assert names("spec.node=n1") == ["l-7-0", "l-7-1"]
    assert names("metadata.name!=l-7-0") == ["l-7-1"]
    with pytest.raises(Invalid):
        names("spec.slice.gpus=8")


def test_ten_thousand_objects_are_listed_whole_and_in_order(door: Door) -> None:
    def event(number: int) -> Object:
        about = {"kind": "Run", "namespace": door.namespace, "name": "train"}
        metadata = {"name": f"e-{number:05}", "namespace": door.namespace}
        return {"apiVersion": "v1", "kind": "Event", "metadata": metadata, "involvedObject": about, "reason": "T"}

    wanted = [Create(kind=EVENT, object=event(number)) for number in range(PAGED)]
    assert all(isinstance(outcome, Reply) for outcome in door.store.perform_all(wanted))
    found = door.store.perform(List(kind=EVENT, namespace=door.namespace)).items
    assert [item["metadata"]["name"] for item in found] == [f"e-{number:05}" for number in range(PAGED)]
    assert {item["kind"] for item in found} == {"Event"}


def test_outcomes_of_many_requests_stand_in_the_order_asked(door: Door) -> None:
    door.make(RUN, door.run("r-3"))
    outcomes = door.store.perform_all([Create(kind=RUN, object=door.run(f"r-{number}")) for number in range(20)])
    names = [outcome.object["metadata"]["name"] if isinstance(outcome, Reply) else "" for outcome in outcomes]
    assert names == [f"r-{number}" if number != 3 else "" for number in range(20)]
    assert isinstance(outcomes[3], AlreadyExists)


def test_rights_are_told_and_kept(door: Door) -> None:
    auditor = door.another("auditor")
    assert door.store.perform(MayI(verb="create", kind=POD, namespace=door.namespace, subresource="binding")).allowed
    assert not auditor.perform(MayI(verb="create", kind=POD, namespace=door.namespace, subresource="binding")).allowed
    with pytest.raises(Forbidden):
        auditor.perform(Create(kind=POD, object=door.pod()))
    with pytest.raises(Forbidden):
        auditor.perform(Delete(kind=NODE, name="n1"))
    with pytest.raises(Forbidden):
        auditor.perform(Patch(kind=BUDGET, name="rai", patch={"spec": {"owner": "org:me"}}))
