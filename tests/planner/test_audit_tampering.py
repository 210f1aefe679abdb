"""Tampering with any single field of any object that matters is found and named."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from tests.ledger_world import World, whole
from tests.planner.audits import errors

# What nobody's books hang on: labels and names for people, what pods run, what a node has besides GPUs. Names and UIDs
# of a run may change with the run: a namesake is another run.
DOES_NOT_MATTER = (
    "metadata.labels",
    "metadata.annotations",
    "metadata.name",
    "metadata.namespace",
    "metadata.generation",
    "metadata.creationTimestamp",
    "metadata.ownerReferences.0.apiVersion",
    "metadata.ownerReferences.0.kind",
    "metadata.ownerReferences.0.name",
    "spec.containers.0.name",
    "spec.template",
    "status.conditions",
    "status.allocatable.cpu",
    "status.allocatable.memory",
    "status.allocatable.pods",
    "status.phase",
)
# Fields that others may change by right, at any time: they are judged as of today, at most with a warning.
MAY_CHANGE = {
    ("Budget", "spec.owner"),
    ("Run", "metadata.uid"),
    ("Run", "spec.funding.allowBorrow"),
    ("Run", "spec.funding.maxBorrowGPUs"),
    ("Run", "spec.funding.sponsors.0"),
    ("Ledger", "spec.floor"),
    ("Reservation", "status.state"),  # what counts is whether its run has started, and that is in the entries
    ("LedgerEntry", "metadata.uid"),
}


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if parts is None:
        yield path, value
    else:
        for key, part in parts:
            yield from leaves(part, (*path, key))


def altered(value: Any) -> Any:
    """Another value of the same shape."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if value in _WORDS:
        return _WORDS[value]
    if value.startswith("2026-"):
        return value.replace("2026-", "2027-")
    if value[-1] in "0123456789abcdef" and len(value) >= 64:
        return value[:-1] + ("0" if value[-1] != "0" else "1")
    return value.replace("[0]", "[1]") if "[0]" in value else value + "x"


_WORDS = {
    "owned": "shared",
    "borrowed": "owned",
    "Active": "Spare",
    "Start": "Grow",
    "Reserve": "Grow",
    "Freeze": "Grow",
    "Cut": "End",
    "Close": "End",
    "none": "family",
    "Released": "Canceled",
}


def tampered_worlds() -> Iterator[tuple[str, str, str, World]]:
    world = whole()
    for kind, key in sorted(world.objects):
        obj = world.objects[kind, key]
        for path, value in leaves({part: obj[part] for part in ("metadata", "spec", "status") if part in obj}):
            name = ".".join(map(str, path))
            if name.startswith(DOES_NOT_MATTER) or (kind, name) in MAY_CHANGE or kind in ("Node", "Namespace"):
                continue
            other = copy.deepcopy(world)
            target: Any = other.objects[kind, key]
            for part in path[:-1]:
                target = target[part]
            target[path[-1]] = altered(value)
            yield kind, key, name, other


def test_audit_any_single_field_tampered_is_found_and_named() -> None:
    missed, unnamed, count = [], [], 0
    for kind, key, field, world in tampered_worlds():
        count += 1
        found = errors(world)
        # An altered entry shows where the next one does not follow; the rest is named itself.
        names = [key, key.split("/")[-1], key.lstrip("0")]
        if kind == "LedgerEntry":
            names.append(f"{int(key) + 1:012d}")
        if not found:
            missed.append((kind, key, field))
        elif not any(name in f"{where} {message}" for _, where, message in found for name in names):
            unnamed.append((kind, key, field, found))
    assert not missed
    assert not unnamed
    assert count > 250


@pytest.mark.parametrize("kind", ["Lease", "LedgerEntry"])
def test_audit_any_lease_or_entry_deleted_is_found(kind: str) -> None:
    for at in [at for at in whole().objects if at[0] == kind]:
        world = whole()
        del world.objects[at]
        assert errors(world), at
