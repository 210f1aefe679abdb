"""Reading the past: what entries say counts before anybody has written it, from objects and from tables alike."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from kubectl_runs.commands.who_pays import bill
from kubectl_runs.flags import Flags
from kubectl_runs.session import Session
from kubectl_runs.store.protocol import Gone, Invalid, List
from kubectl_runs.store.snapshot import SnapshotStore
from tests.ledger_world import NOW, World, as_list, whole


class TableStore(SnapshotStore):
    """A file that also answers with tables, as an API server does; `faults` come first, one at each asking."""

    faults: list[Exception]
    asked: int

    def rows(self, request: List, columns: Sequence[str]) -> Iterator[list[list[Any]]]:
        self.asked += 1
        if self.faults:
            raise self.faults.pop(0)
        yield [[_cell(obj, column) for column in columns] for obj in self.perform(request).items]


def _cell(obj: Any, column: str) -> Any:
    spec, status = obj["spec"], obj.get("status") or {}
    cells = {
        "Name": obj["metadata"]["name"],
        "Run": spec["runRef"]["name"],
        "Node": spec["slice"]["nodes"][0],
        "GPUs": spec["slice"]["gpus"],
        "Role": spec["slice"]["role"],
        "Budget": spec["paidByBudget"],
        "Envelope": spec["paidByEnvelope"],
        "Class": spec["class"],
        "Start": spec["interval"]["start"],
        "End": status.get("endTime"),
        "Reason": status.get("closureReason"),
        "Owner": spec["owner"],
    }
    return cells[column]


def answer(world: World, *faults: Exception, tables: bool) -> tuple[Any, int]:
    kind = TableStore if tables else SnapshotStore
    store = kind("test", copy.deepcopy(as_list(world)["items"]), now=NOW)
    store.faults, store.asked = list(faults), 0  # type: ignore[attr-defined]
    session = Session(Flags(source="test"))
    session.__dict__["store"] = store
    made = bill(session, run=None, owner=None, used_by="*", since=None, until=None, by=None)
    return made, store.asked  # type: ignore[attr-defined]


def unwritten() -> World:
    """The same ledger, but nobody has carried out its last two entries: a close and a start."""
    world = whole()
    base = world.objects["Ledger", "base"]["spec"]
    entry = world.entry(5)
    base |= {"seq": 5, "digest": ledger_digest(entry), "time": entry["metadata"]["creationTimestamp"]}
    base.pop("settled")
    del world.objects["Lease", "rai/l-7-0"]
    for kind, key in list(world.objects):
        if kind == "Lease":
            world.lease(key).pop("status", None)
    return world


def ledger_digest(entry: Any) -> str:
    from planner.digest import digest

    return digest(entry["spec"])


@pytest.mark.parametrize("tables", [False, True])
def test_past_what_only_entries_tell_counts(tables: bool) -> None:
    expected, _ = answer(whole(), tables=False)
    assert len(expected["rows"]) == 4
    assert answer(unwritten(), tables=tables)[0] == expected


def test_past_from_tables_is_what_objects_say() -> None:
    told, asked = answer(whole(), tables=True)
    assert told == answer(whole(), tables=False)[0]
    assert asked == 2  # one for each namespace


def test_past_server_without_our_columns_is_read_by_objects() -> None:
    told, asked = answer(whole(), Invalid("no such columns"), tables=True)
    assert told == answer(whole(), tables=False)[0]
    assert asked == 1


def test_past_version_that_the_server_forgot_is_read_again_from_the_start() -> None:
    told, asked = answer(whole(), Gone("too old"), tables=True)
    assert told == answer(whole(), tables=False)[0]
    assert asked == 3


def test_past_version_forgotten_again_and_again_is_an_error() -> None:
    with pytest.raises(Gone):
        answer(whole(), *[Gone("too old")] * 3, tables=True)
