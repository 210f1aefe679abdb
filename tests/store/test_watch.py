"""Watches: every change, in order, whatever happens to the connection."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

import pytest

from kubectl_runs.store.protocol import Change, Delete, Gone, List, Patch, StoreError
from kubectl_runs.wire.kinds import RUN
from tests.store.doors import Door

Seen = tuple[str, str, str]  # type, name, label `step`


def seen(change: Change) -> Seen:
    metadata = change.object["metadata"]
    return change.type, metadata["name"], metadata.get("labels", {}).get("step", "")


class Watcher:
    """Collects the changes of a watch in a thread of its own, bookmarks aside."""

    def __init__(self, changes: Iterator[Change]) -> None:
        self.changes: list[Change] = []
        self._thread = threading.Thread(target=self._collect, args=(changes,), daemon=True)
        self._thread.start()

    def _collect(self, changes: Iterator[Change]) -> None:
        with contextlib.suppress(StoreError):  # the room is closed before the watch is over
            for change in changes:
                if change.type != "BOOKMARK":
                    self.changes.append(change)

    def wait_for(self, count: int, seconds: float = 20) -> list[Seen]:
        end = time.monotonic() + seconds
        while len(self.changes) < count and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(0.1)  # room for one too many
        return [seen(change) for change in self.changes]


def step(door: Door, name: str, number: int) -> Seen:
    patch = {"metadata": {"labels": {"step": str(number)}}}
    door.store.perform(Patch(kind=RUN, name=name, namespace=door.namespace, patch=patch))
    return ("MODIFIED", name, str(number))


def begin(door: Door, **options: str) -> Watcher:
    version = door.store.perform(List(kind=RUN, namespace=door.namespace)).resource_version
    watching = door.another("").watch(RUN, door.namespace, resource_version=version, seconds=60, **options)
    return Watcher(watching)


def test_watch_sees_every_change_in_order(door: Door) -> None:
    watcher = begin(door)
    expected: list[Seen] = []
    for name in ("a", "b"):
        door.make(RUN, door.run(name))
        expected.append(("ADDED", name, ""))
        expected += [step(door, name, number) for number in range(20)]
    door.store.perform(Delete(kind=RUN, name="a", namespace=door.namespace))
    expected.append(("DELETED", "a", "19"))
    assert watcher.wait_for(len(expected)) == expected
    versions = [int(change.object["metadata"]["resourceVersion"]) for change in watcher.changes]
    assert versions == sorted(set(versions))


def test_watch_survives_cuts_without_loss_or_repetition(door: Door) -> None:
    door.make(RUN, door.run("a"))
    watcher = begin(door)
    expected: list[Seen] = []
    for number in range(12):
        expected.append(step(door, "a", number))
        if number % 4 == 1:
            watcher.wait_for(len(expected))
            door.cut()
    assert watcher.wait_for(len(expected)) == expected


def test_watch_resumes_in_another_process_from_the_last_version_seen(door: Door) -> None:
    door.make(RUN, door.run("a"))
    first = begin(door)
    expected = [step(door, "a", number) for number in range(3)]
    assert first.wait_for(3) == expected
    version = first.changes[-1].object["metadata"]["resourceVersion"]
    later = [step(door, "a", number) for number in range(3, 6)]
    resumed = Watcher(door.another("").watch(RUN, door.namespace, resource_version=version, seconds=60))
    assert resumed.wait_for(3) == later


def test_watch_with_a_selector_sees_objects_come_into_it_and_leave_it(door: Door) -> None:
    door.make(RUN, door.run("a"))
    watcher = begin(door, labels="step=1")
    step(door, "a", 0)
    step(door, "a", 1)
    door.make(RUN, door.run("b"))
    step(door, "a", 2)
    told = [(kind, name) for kind, name, _ in watcher.wait_for(2)]
    assert told == [("ADDED", "a"), ("DELETED", "a")]


def test_watch_without_a_version_begins_with_what_is_there(door: Door) -> None:
    door.make(RUN, door.run("a"))
    watcher = Watcher(door.another("").watch(RUN, door.namespace, seconds=60))
    assert watcher.wait_for(1) == [("ADDED", "a", "")]
    assert watcher.wait_for(2, seconds=0) == [("ADDED", "a", "")]
    changed = step(door, "a", 1)
    assert watcher.wait_for(2) == [("ADDED", "a", ""), changed]


def test_watch_from_a_version_no_longer_kept_is_gone(door: Door) -> None:
    door.make(RUN, door.run("a"))
    door.forget()
    with pytest.raises(Gone):
        list(door.store.watch(RUN, door.namespace, resource_version="1", seconds=5))


def test_watch_ends_when_its_time_is_over(door: Door) -> None:
    version = door.store.perform(List(kind=RUN, namespace=door.namespace)).resource_version
    changes = door.store.watch(RUN, door.namespace, resource_version=version, seconds=1)
    assert [change for change in changes if change.type != "BOOKMARK"] == []
