"""Where envelopes stand, who lends, and what a check-up says: on the worlds of the golden files, changed one at a time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubectl_runs.wire import decode
from planner.audit import Severity
from planner.checkup import checkup
from planner.lenders import lenders
from planner.model import Payer
from planner.statement import EnvelopeLine, statements
from planner.world import World

NOW = 1_767_621_600  # 2026-01-05T14:00:00Z
FILE = Path(__file__).parents[1] / "golden" / "files" / "money.yaml"
Objects = dict[tuple[str, str], dict[str, Any]]


def world(change: Callable[[Objects], None] = lambda _: None) -> World:
    objects = {(one["kind"], one["metadata"]["name"]): one for one in yaml.load_all(FILE.read_text(), yaml.CSafeLoader)}
    change(objects)
    snapshot, problems = decode.snapshot(objects.values())
    assert not problems
    return World.of(snapshot, NOW)


def line(found: World, payer: str) -> EnvelopeLine:
    lines = {one.payer: one for budget in statements(found) for one in budget.envelopes}
    return lines[Payer(*payer.split("/"))]


def envelope(objects: Objects, budget: str, **fields: Any) -> None:
    objects["Budget", budget]["spec"]["envelopes"][0].update(fields)


def test_statement_held_reserved_and_headroom_add_up_to_the_concurrency() -> None:
    found = line(world(), "rai/west")
    assert (found.held_gpus, found.reserved_gpus, found.headroom_gpus) == (12, 4, 0)
    assert found.envelope.concurrency == 16


def test_statement_hours_settled_promised_and_left_add_up_to_the_cap() -> None:
    found = line(world(), "rai/west")
    assert found.settled_seconds == 7 * (3 * 3600 + 1)
    # Twelve GPUs for ten hours, and a promise of four for one.
    assert found.promised_seconds == (12 * 10 + 4 * 1) * 3600
    assert found.left_seconds == 1000 * 3600 - found.settled_seconds - found.promised_seconds


def test_statement_filler_counts_in_hours_and_not_in_concurrency() -> None:
    found = line(world(), "nlp/west")
    assert found.held_gpus == 4  # the shared lease; the filler's four do not count (O1)
    assert found.burning_gpus == 8


@pytest.mark.parametrize(
    ("change", "limit", "headroom"),
    [
        (lambda o: envelope(o, "nlp", concurrency=3), "OverCap", 0),
        (lambda o: envelope(o, "nlp", maxGPUHours=13), "OverCap", 0),
        (lambda o: envelope(o, "nlp", maxGPUHours=150), "GPUHourCap", 0),
        (lambda o: envelope(o, "nlp", end="2026-01-05T13:00:00Z"), "WindowClosed", 0),
        (lambda o: envelope(o, "nlp", concurrency=20), "ConcurrencyCap", 16),
    ],
)
def test_statement_names_the_nearest_limit(change: Callable[[Objects], None], limit: str, headroom: int) -> None:
    found = line(world(change), "nlp/west")
    assert (str(found.limit), found.headroom_gpus) == (limit, headroom)


def test_statement_over_an_aggregate_cap_marks_its_envelopes_and_comes_first() -> None:
    def lower(objects: Objects) -> None:
        objects["Budget", "rai"]["spec"]["aggregateCaps"][0]["maxConcurrency"] = 11

    first = statements(world(lower))[0]
    assert first.budget.name == "rai"
    assert [cap.over for cap in first.caps] == [True]
    assert {one.limit for one in first.envelopes} == {"OverCap"}


def test_statement_hours_run_out_when_all_held_now_goes_on() -> None:
    found = line(world(), "rai/west")
    left = 1000 * 3600 - found.settled_seconds - 12 * 2 * 3600
    assert found.runs_out_at(NOW) == NOW + left // 12


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda o: envelope(o, "mm", lending={"allow": True, "to": ["org:ai:*"], "maxConcurrency": 5}), None),
        (lambda o: envelope(o, "mm", lending={"allow": True, "to": ["org:bio:*"]}), "ACLDenied"),
        (lambda o: envelope(o, "mm", lending={"allow": True, "to": []}), "ACLDenied"),
        (lambda o: envelope(o, "mm", lending={"allow": True, "to": ["org:ai:*"], "maxGPUHours": 8}), "LendingCap"),
        (lambda o: envelope(o, "mm", concurrency=4, lending={"allow": True, "to": ["*"]}), "ConcurrencyCap"),
        (lambda o: envelope(o, "mm", start="2026-02-01T00:00:00Z"), "WindowClosed"),
    ],
)
def test_lenders_say_yes_or_the_first_reason_why_not(change: Callable[[Objects], None], reason: str | None) -> None:
    (found,) = [one for one in lenders(world(change), "org:ai:rai") if one.purse.owner == "org:lab:mm"]
    assert (found.may_borrow, found.reason) == (reason is None, reason)


@pytest.mark.parametrize(
    ("funding", "reason"),
    [
        ({"allowBorrow": False, "sponsors": ["org:lab:mm"]}, "BorrowNotAllowed"),
        ({"allowBorrow": True, "sponsors": ["org:lab:mm"], "maxBorrowGPUs": 4}, "BorrowLimit"),
        ({"allowBorrow": True, "sponsors": ["org:lab:mm"], "maxBorrowGPUs": 5}, "LendingCap"),
    ],
)
def test_lenders_for_a_run_ask_its_own_settings_first(funding: dict[str, Any], reason: str) -> None:
    found = world(lambda objects: objects["Run", "train"]["spec"].update(funding=funding))
    run = found.runs["rai/train"]
    assert {one.purse.owner: one.reason for one in lenders(found, run.owner, run)}["org:lab:mm"] == reason


def test_lenders_leave_out_the_borrower_and_those_who_lend_nothing() -> None:
    assert [one.purse.payer.name for one in lenders(world(), "org:lab:mm")] == ["nlp/west"]


def test_lender_with_nine_tenths_lent_is_nearly_used_up() -> None:
    def lend(gpus: int) -> Callable[[Objects], None]:
        return lambda o: envelope(o, "mm", lending={"allow": True, "to": ["*"], "maxConcurrency": gpus})

    used = {gpus: lenders(world(lend(gpus)), "org:ai:rai")[-1].nearly_used_up for gpus in (4, 5)}
    assert used == {4: True, 5: False}


def symptoms(found: World) -> set[tuple[str, str, str]]:
    return {(one.check, str(one.severity), one.object) for one in checkup(found)}


def test_checkup_finds_what_the_file_holds() -> None:
    assert symptoms(world()) == {
        ("nodes", "error", "node/n3"),
        ("pods", "warning", "pod/nlp/stray"),
        ("leases", "warning", "lease/rai/l-1-1"),
        ("leases", "warning", "lease/rai/l-1-2"),
        ("leases", "warning", "lease/nlp/l-2-0"),
        ("caps", "warning", "budget/rai"),
        ("lending", "info", "budget/mm"),
    }


@pytest.mark.parametrize(
    ("change", "symptom"),
    [
        (lambda o: o["Node", "n1"].update(spec={"unschedulable": True}), ("nodes", "info", "node/n1")),
        (
            lambda o: o["Node", "n1"]["status"].update(conditions=[{"type": "Ready", "status": "False"}]),
            ("nodes", "warning", "node/n1"),
        ),
        (
            lambda o: o["Node", "n1"].update(spec={"taints": [{"key": "broken", "effect": "NoSchedule"}]}),
            ("nodes", "info", "node/n1"),
        ),
        (lambda o: o.pop(("Node", "n1")), ("leases", "warning", "lease/rai/l-1-0")),
        (lambda o: o["Pod", "train-0"]["spec"].update(nodeName="n2"), ("leases", "warning", "lease/rai/l-1-0")),
        (lambda o: o["Pod", "train-0"]["status"].update(phase="Succeeded"), ("leases", "warning", "lease/rai/l-1-0")),
        (lambda o: envelope(o, "rai", concurrency=11), ("caps", "error", "budget/rai")),
        (
            lambda o: o["Reservation", "next"]["spec"].update(earliestStart="2026-01-05T13:00:00Z"),
            ("reservations", "warning", "reservation/rai/next"),
        ),
    ],
)
def test_checkup_one_change_is_one_more_symptom(
    change: Callable[[Objects], None], symptom: tuple[str, str, str]
) -> None:
    assert symptom not in symptoms(world())
    assert symptom in symptoms(world(change))


def test_checkup_worst_comes_first_and_each_has_a_command() -> None:
    found = checkup(world())
    ranks = [list(Severity).index(one.severity) for one in found]
    assert ranks == sorted(ranks)
    assert all(one.command for one in found)
