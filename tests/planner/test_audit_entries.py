"""Entries replayed on the state before them: what the planner would not have allowed is named (section 7)."""

from __future__ import annotations

from dataclasses import replace

from kubectl_runs.commit.draft import Draft
from planner.audit import Severity
from planner.model import Ended, EntryKind, FundingClass, Opening, Role
from tests import ledger_world
from tests.ledger_world import MM, RAI, T0, bare, start
from tests.planner.audits import audited, errors

OWNED, SHARED = FundingClass.OWNED, FundingClass.SHARED


def test_audit_shrink_below_the_minimum_is_found_beside_a_dropped_spare() -> None:
    world = bare()
    elastic = {"minTotalGPUs": 16, "maxTotalGPUs": 24, "stepGPUs": 8}
    world.add(ledger_world.run("rai/wide", "org:ai:rai", 24, malleable=elastic))
    world.objects["Budget", "rai"]["spec"]["envelopes"][0]["concurrency"] = 32
    seats = world.opens("rai/wide", *((f"n{index}", 8, RAI, OWNED) for index in (1, 2, 3, 4)))
    spare = replace(seats[3], role=Role.SPARE, pod=None)
    opens = (*(replace(seat, group=index) for index, seat in enumerate(seats[:3])), spare)
    world.append(T0, Draft(kind=EntryKind.START, run=world.ref("rai/wide"), budgets=world.records("rai"), opens=opens))
    shrunk = [Ended(namespace="rai", lease=f"l-1-{index}", reason="Shrink") for index in (1, 2)]
    dropped = Ended(namespace="rai", lease="l-1-3", reason="DropSpare")
    world.append(T0 + 60, Draft(kind=EntryKind.CUT, budgets=world.records("rai"), ends=(dropped, *shrunk)))
    assert [message for _, _, message in errors(world)] == ["shrinks rai/wide to 8 GPUs, below its minimum 16"]


def test_audit_group_that_does_not_leave_whole_is_found() -> None:
    world = bare()
    elastic = {"minTotalGPUs": 8, "maxTotalGPUs": 24, "stepGPUs": 8}
    world.add(ledger_world.run("rai/wide", "org:ai:rai", 24, malleable=elastic))
    start(world, T0, "rai/wide", *((f"n{index}", 8, RAI, OWNED) for index in (1, 2, 3)))
    ends = (Ended(namespace="rai", lease="l-1-2", reason="Shrink"),)
    world.append(T0 + 60, Draft(kind=EntryKind.END, run=world.ref("rai/wide"), ends=ends))
    assert [message for _, _, message in errors(world)] == [
        f"shrinks rai/wide, but leaves lease rai/l-1-{index} of group 0: groups leave whole" for index in (0, 1)
    ]


def test_audit_start_whose_duration_passes_the_hours_is_found() -> None:
    world = bare()
    world.objects["Run", "rai/big"]["spec"]["duration"] = "2h"
    world.objects["Budget", "rai"]["spec"]["envelopes"][0]["maxGPUHours"] = 15
    start(world, T0, "rai/big", ("n1", 8, RAI, OWNED))
    ((check, _, message),) = errors(world)
    assert (check, message) == ("caps", "rai/west maxGPUHours is 15, and with its duration 57600 GPU-seconds")


def test_audit_sharing_outside_the_family_is_warned_about() -> None:
    world = bare()
    start(world, T0, "rai/big", ("n1", 8, MM, SHARED))
    message = "mm/west of org:lab:mm pays for rai/big as shared, but is no family of org:ai:rai today"
    assert message in [found.message for found in audited(world).findings if found.severity is Severity.WARNING]


def test_audit_swap_that_takes_more_than_was_lost_is_found() -> None:
    world = bare()
    world.add(ledger_world.node("n5", gpus=32))
    start(world, T0, "rai/big", ("n1", 8, RAI, OWNED))
    moved = world.opens("rai/big", ("n5", 16, RAI, OWNED), reason=Opening.SWAP, pods="again")
    ends = (Ended(namespace="rai", lease="l-1-0", reason="NodeFailure"),)
    draft = Draft(kind=EntryKind.SWAP, run=world.ref("rai/big"), budgets=world.records("rai"), ends=ends, opens=moved)
    world.append(T0 + 60, draft)
    assert ("replay", "ledgerentry/000000000002", "opens 16 GPUs in the place of 8") in errors(world)
