"""The list of section 6, on a ledger with a story: it holds, and whatever is tampered with is found and named."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kubectl_runs.commit.draft import Draft
from kubectl_runs.evidence import evidence
from planner.audit import Check, Severity, examine
from planner.model import Closed, Ended, EntryKind, FundingClass, Opening, Role
from tests import ledger_world
from tests.ledger_world import MM, NLP, NOW, RAI, T0, Json, World, bare, start, whole
from tests.planner.audits import audited, errors

OWNED, SHARED, BORROWED = FundingClass.OWNED, FundingClass.SHARED, FundingClass.BORROWED


def test_audit_whole_story_holds() -> None:
    found = audited(whole())
    assert found.findings == ()
    assert {tally.check: tally.examined for tally in found.tallies if tally.examined == 0} == {}
    assert [tally.check for tally in found.tallies] == list(Check)


def test_audit_closed_lease_reopened_is_named() -> None:
    world = whole()
    closed = next(key for (kind, key), obj in world.objects.items() if kind == "Lease" and "status" in obj)
    del world.lease(closed)["status"]
    assert (str(Check.CLOSED_LEASES), f"lease/{closed}", "is open, but entry 6 closed it") in errors(world)


def test_audit_forged_lease_is_unattested_and_counts_as_held() -> None:
    world = whole()
    forged = copy.deepcopy(world.lease("rai/l-7-0"))
    forged["metadata"]["name"] = "l-99-0"
    world.add(forged)
    found = errors(world)
    assert ("attested", "lease/rai/l-99-0", "unattested: no entry opens it; it counts as held") in found
    assert any(check == "gpus" for check, _, _ in found)


def test_audit_lease_of_an_archived_entry_is_only_mentioned() -> None:
    world = whole()
    base = world.objects["Ledger", "base"]["spec"]
    base["floor"] = 2
    for seq in (1, 2):
        del world.objects["LedgerEntry", f"{seq:012d}"]
    found = audited(world)
    assert [one for one in found.findings if one.severity is Severity.ERROR] == []
    assert {one.object for one in found.findings if one.check is Check.ATTESTED} == {
        f"lease/{key}" for kind, key in world.objects if kind == "Lease" and key.split("-")[1] in "12"
    }


def test_audit_entry_with_a_wrong_prev_is_void_and_named() -> None:
    world = whole()
    world.prev = "sha256:" + "9" * 64
    world.append(T0 + 3800, Draft(kind=EntryKind.END, run=world.ref("rai/big")))
    assert [(check, where) for check, where, _ in errors(world)] == [("chain", "ledgerentry/000000000008")]


def test_audit_entry_of_a_wrong_shape_is_void_and_named_and_stops_nobody() -> None:
    world = whole()
    seq = world.append(T0 + 3800, Draft(kind=EntryKind.END, run=world.ref("rai/big")))
    world.entry(seq)["spec"]["kind"] = "Party"
    world.prev = ledger_world.digest(world.entry(seq)["spec"])
    world.append(T0 + 3900, Draft(kind=EntryKind.END, run=world.ref("rai/big")))
    found = audited(world)
    assert found.ok
    assert [(one.severity, one.object) for one in found.findings] == [
        (Severity.WARNING, f"ledgerentry/{seq:012d}"),
    ]


def test_audit_two_starts_of_one_attempt_are_found() -> None:
    world = bare()
    start(world, T0, "rai/big", ("n1", 8, RAI, OWNED))
    start(world, T0 + 1, "rai/big", ("n2", 8, RAI, OWNED))
    assert ("once", "ledgerentry/000000000002") in {(check, where) for check, where, _ in errors(world)}


def test_audit_start_after_cancel_is_found() -> None:
    world = bare()
    world.append(T0, Draft(kind=EntryKind.END, run=world.ref("rai/big")))
    start(world, T0 + 1, "rai/big", ("n1", 8, RAI, OWNED))
    message = "starts rai/big, which entry 1 had cancelled"
    assert ("once", "ledgerentry/000000000002", message) in errors(world)


def test_audit_new_attempt_after_all_is_closed_holds() -> None:
    world = bare()
    start(world, T0, "rai/big", ("n1", 8, RAI, OWNED))
    closes = world.close(T0 + 60, "Fail", "rai/l-1-0")
    world.append(T0 + 60, Draft(kind=EntryKind.CLOSE, run=world.ref("rai/big"), closes=closes))
    start(world, T0 + 61, "rai/big", ("n1", 8, RAI, OWNED), attempt=2)
    assert errors(world) == []


def test_audit_node_held_twice_is_found_at_the_entry_and_now() -> None:
    world = bare()
    start(world, T0, "rai/big", ("n1", 8, RAI, OWNED))
    start(world, T0 + 1, "nlp/prep", ("n1", 8, NLP, OWNED))
    assert [(check, where) for check, where, _ in errors(world)] == [
        ("gpus", "ledgerentry/000000000002"),
        ("gpus", "node/n1"),
    ]


def test_audit_filler_over_a_spare_counts_once() -> None:
    world = bare()
    world.objects["Run", "nlp/prep"]["spec"]["opportunistic"] = True
    world.objects["Run", "rai/big"]["spec"]["sparesPerGroup"] = 1
    active = world.opens("rai/big", ("n1", 8, RAI, OWNED))
    spare = [
        ledger_world.Opened(**{**_fields(one), "pod": None})
        for one in world.opens("rai/big", ("n2", 8, RAI, OWNED), role=Role.SPARE)
    ]
    world.append(
        T0, Draft(kind=EntryKind.START, run=world.ref("rai/big"), budgets=world.records("rai"), opens=(*active, *spare))
    )
    filler = world.opens("nlp/prep", ("n2", 8, NLP, OWNED), role=Role.FILLER)
    world.append(
        T0 + 1, Draft(kind=EntryKind.START, run=world.ref("nlp/prep"), budgets=world.records("nlp"), opens=filler)
    )
    assert errors(world) == []


def _fields(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


def capped(change: Callable[[Json], None]) -> World:
    """`train` started on a world whose budgets were changed before."""
    world = bare()
    for name in ("rai", "mm"):
        change(world.objects["Budget", name]["spec"])
    start(world, T0, "rai/train", ("n1", 8, RAI, OWNED), ("n2", 8, RAI, OWNED), ("n3", 8, MM, BORROWED))
    return world


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda spec: spec["envelopes"][0].update(concurrency=7), "concurrency is 7"),
        (lambda spec: spec["envelopes"][0].get("lending", {}).update(maxConcurrency=7), "lending.maxConcurrency is 7"),
        (
            lambda spec: spec.update(
                aggregateCaps=[{"name": "all", "flavor": "H100", "envelopes": ["west"], "maxConcurrency": 15}]
            ),
            "aggregate cap all maxConcurrency is 15",
        ),
        (lambda spec: spec["envelopes"][0].update(end="2026-01-05T11:00:00Z"), "pays outside its window"),
        (lambda spec: spec["envelopes"][0].get("lending", {}).update(to=["org:bio:*"]), "does not lend to org:ai:rai"),
    ],
)
def test_audit_entry_past_a_cap_is_found_by_the_budgets_it_recorded(change: Callable[[Json], None], words: str) -> None:
    assert any(words in message for _, where, message in errors(capped(change)) if where == "ledgerentry/000000000001")


def test_audit_budget_lowered_later_is_nobodys_fault() -> None:
    world = capped(dict)
    later = world.objects["Budget", "rai"]
    later["metadata"]["generation"] = 2
    later["spec"]["envelopes"][0]["concurrency"] = 1
    assert errors(world) == []


def test_audit_gpu_hours_already_burnt_are_found() -> None:
    world = capped(lambda spec: spec["envelopes"][0].update(maxGPUHours=1))
    world.objects["Run", "rai/big"]["spec"]["resources"]["totalGPUs"] = 8
    start(world, T0 + 1800, "rai/big", ("n4", 8, RAI, OWNED))
    assert any("maxGPUHours is 1" in message for check, _, message in errors(world) if check == "caps")


def test_audit_invented_budget_is_found() -> None:
    world = bare()
    record = copy.deepcopy(world.records("rai"))
    record[0]["envelopes"][0]["concurrency"] = 1000
    draft = Draft(
        kind=EntryKind.START,
        run=world.ref("rai/big"),
        budgets=record,
        opens=world.opens("rai/big", ("n1", 8, RAI, OWNED)),
    )
    world.append(T0, draft)
    assert [(check, where) for check, where, _ in errors(world)] == [("caps", "ledgerentry/000000000001")]


def test_audit_close_that_settles_too_little_is_found() -> None:
    world = bare()
    start(world, T0, "rai/big", ("n1", 8, RAI, OWNED))
    (honest,) = world.close(T0 + 100, "Completed", "rai/l-1-0")
    cheap = Closed(**{**_fields(honest), "gpu_seconds": 8})
    world.append(T0 + 100, Draft(kind=EntryKind.CLOSE, run=world.ref("rai/big"), closes=(cheap,)))
    assert {check for check, _, _ in errors(world)} == {"replay", "conservation"}


def test_audit_end_of_anothers_lease_is_found() -> None:
    world = bare()
    start(world, T0, "rai/big", ("n1", 8, RAI, OWNED))
    ends = (Ended(namespace="rai", lease="l-1-0", reason="Canceled"),)
    world.append(T0 + 1, Draft(kind=EntryKind.END, run=world.ref("nlp/prep"), ends=ends))
    assert ("replay", "ledgerentry/000000000002", "ends lease rai/l-1-0 of another run") in errors(world)


def test_audit_bound_pod_without_a_lease_is_found() -> None:
    world = whole()
    pod = copy.deepcopy(world.objects["Pod", "rai/big-0"])
    pod["metadata"] |= {"name": "big-9", "uid": "uid-big-9"}
    world.add(pod)
    node = pod["spec"]["nodeName"]
    assert ("pods", "pod/rai/big-9", f"is bound to {node}, but no open lease names it") in errors(world)


def test_audit_pod_of_ours_is_known_by_its_scheduler_too() -> None:
    world = whole()
    pod = copy.deepcopy(world.objects["Pod", "rai/big-0"])
    pod["metadata"] = {"name": "big-9", "namespace": "rai", "uid": "uid-big-9"}
    pod["spec"]["schedulerName"] = "kubectl-runs"
    world.add(pod)
    assert ("pods", "pod/rai/big-9") in [found[:2] for found in errors(world)]


def test_audit_pod_on_another_node_than_its_lease_is_found() -> None:
    world = whole()
    pod = world.objects["Pod", "rai/big-0"]
    del pod["metadata"]["ownerReferences"]
    pod["spec"]["nodeName"] = "n9"
    assert ("pods", "pod/rai/big-0") in [found[:2] for found in errors(world)]


def test_audit_terminal_run_that_holds_something_is_found() -> None:
    world = whole()
    world.objects["Run", "rai/big"]["status"]["phase"] = "Completed"
    assert [(check, where) for check, where, _ in errors(world)] == [("terminal-runs", "run/rai/big")] * 2


def test_audit_base_that_passed_an_unwritten_lease_is_found_unless_pending() -> None:
    world = whole()
    start(world, T0 + 4000, "rai/big", ("n2", 8, RAI, OWNED), attempt=2)
    del world.objects["Lease", "rai/l-8-0"]
    world.advance_base()
    assert any(
        "its lease rai/l-8-0 does not exist" in message for check, _, message in errors(world) if check == "base"
    )
    world.advance_base(pending=(8,))
    assert not [message for check, _, message in errors(world) if check == "base"]


def test_audit_order_of_the_objects_does_not_matter() -> None:
    world = whole()
    del world.objects["LedgerEntry", "000000000002"]
    forward, facts = evidence(world.list())
    backward, _ = evidence(world.list()[::-1])
    assert examine(forward, NOW, facts) == examine(backward, NOW, facts)


def test_audit_swap_takes_over_without_holding_twice() -> None:
    world = bare()
    active = world.opens("rai/big", ("n1", 8, RAI, OWNED))
    spare = world.opens("rai/big", ("n2", 8, RAI, OWNED), role=Role.SPARE)
    spare = (ledger_world.Opened(**{**_fields(spare[0]), "pod": None}),)
    world.objects["Budget", "rai"]["spec"]["envelopes"][0]["concurrency"] = 16
    world.append(
        T0, Draft(kind=EntryKind.START, run=world.ref("rai/big"), budgets=world.records("rai"), opens=(*active, *spare))
    )
    del world.objects["Node", "n1"], world.objects["Pod", "rai/big-0"]
    ends = (
        Ended(namespace="rai", lease="l-1-0", reason="NodeFailure"),
        Ended(namespace="rai", lease="l-1-1", reason="Swap"),
    )
    moved = world.opens("rai/big", ("n2", 8, RAI, OWNED), reason=Opening.SWAP, pods="big-again")
    world.append(
        T0 + 60,
        Draft(kind=EntryKind.SWAP, run=world.ref("rai/big"), budgets=world.records("rai"), ends=ends, opens=moved),
    )
    assert errors(world) == []
    closes = (*world.close(T0 + 60, "NodeFailure", "rai/l-1-0"), *world.close(T0 + 60, "Swap", "rai/l-1-1"))
    world.append(T0 + 61, Draft(kind=EntryKind.CLOSE, run=world.ref("rai/big"), closes=closes))
    assert errors(world) == []


@pytest.mark.parametrize(
    ("spec", "warned"),
    [
        ({}, True),  # work without a duration may not use what is promised, however far off (F3)
        ({"duration": "2h"}, True),
        ({"duration": "30m"}, False),  # over before the promise is due
        ({"opportunistic": True}, False),  # goes first
    ],
)
def test_audit_start_on_promised_gpus_is_named(spec: dict[str, Any], warned: bool) -> None:
    world = bare()
    world.objects["Run", "nlp/prep"]["spec"].update(spec)
    ledger_world.promise(world, T0)  # eight GPUs of n4 for rai/big, in an hour
    role = Role.FILLER if spec.get("opportunistic") else Role.ACTIVE
    opens = world.opens("nlp/prep", ("n4", 8, NLP, OWNED), role=role)
    draft = Draft(kind=EntryKind.START, run=world.ref("nlp/prep"), budgets=world.records("nlp"), opens=opens)
    world.append(T0 + 60, draft)
    found = [one.message for one in audited(world).findings if one.severity is Severity.WARNING]
    assert found == (["takes 8 GPUs of n4, of which 8 are promised to rai/big"] if warned else [])


def test_audit_start_in_its_own_slice_is_not_held_against_a_later_promise() -> None:
    world = bare()
    made = ledger_world.promise(world, T0)
    later = replace(made, namespace="nlp", name="prep", uid="uid-res-prep", run_name="prep", run_uid="uid-prep")
    draft = Draft(kind=EntryKind.RESERVE, run=world.ref("nlp/prep"), reserve=later, budgets=world.records("nlp"))
    world.append(T0 + 60, draft)
    start(world, T0 + 3600, "rai/big", ("n4", 8, RAI, FundingClass.OWNED))
    assert not [one.message for one in audited(world).findings if "promised" in one.message]
