"""Runs as a table: a reason in every row that is not simply running. Pure: rows → cells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kubectl_runs.errors import UsageError
from kubectl_runs.overview import Overview
from kubectl_runs.text import span
from kubectl_runs.wire.times import rfc3339

Json = dict[str, Any]

NONE = "-"
KEYS: dict[str, Callable[[Overview], Any]] = {
    "namespace": lambda row: (row.namespace, row.name),
    "name": lambda row: (row.name, row.namespace),
    "phase": lambda row: row.phase,
    "gpus": lambda row: -row.gpus,
    "wanted": lambda row: -row.gpus_wanted,
    "owner": lambda row: row.owner,
    "reason": lambda row: row.reason,
    "start": lambda row: (row.earliest_start is None, row.earliest_start),
    "age": lambda row: -(row.created_at or 0),
}


def table(rows: Sequence[Overview], *, now: int, wide: bool, namespaces: bool) -> tuple[list[str], list[list[object]]]:
    """Header and cells."""
    header = ["NAME", "PHASE", "GPUS", "PAYERS", "REASON", "EARLIEST START", "AGE"]
    if namespaces:
        header.insert(0, "NAMESPACE")
    if wide:
        header += ["OWNER", "FLAVOR", "SPARES", "MESSAGE"]
    return header, [_cells(row, now=now, wide=wide, namespaces=namespaces) for row in rows]


def _cells(row: Overview, *, now: int, wide: bool, namespaces: bool) -> list[object]:
    cells: list[object] = [
        row.name,
        row.phase,
        f"{row.gpus}/{row.gpus_wanted}",
        payers(row) or NONE,
        row.reason or NONE,
        NONE if row.earliest_start is None else rfc3339(row.earliest_start),
        NONE if row.created_at is None else span(max(0, now - row.created_at)),
    ]
    if namespaces:
        cells.insert(0, row.namespace)
    if wide:
        cells += [row.owner or NONE, row.flavor, row.spare_gpus, row.message or NONE]
    return cells


def payers(row: Overview) -> str:
    """`rai/west-h100 16, mm/west-h100 8`: spares are paid too, so that this may exceed the width."""
    return ", ".join(f"{name} {gpus}" for name, gpus in row.payers)


def order(rows: Sequence[Overview], key: str, objects: Sequence[Json]) -> list[Overview]:
    """Sorted by a column's name, or by a path into the object such as `.metadata.creationTimestamp`."""
    if key in KEYS:
        return sorted(rows, key=KEYS[key])
    if not key.startswith((".", "{.")):
        raise UsageError(f"unknown --sort-by {key!r}, allowed are: {', '.join(KEYS)}, or a path like .metadata.name")
    steps = key.strip("{}").strip(".").split(".")
    values = {_key(item): _at(item, steps) for item in objects}
    return sorted(rows, key=lambda row: values[row.key])


def _key(item: Json) -> str:
    return f"{item['metadata'].get('namespace') or 'default'}/{item['metadata']['name']}"


def _at(item: Any, steps: Sequence[str]) -> tuple[int, int, str]:
    """Absent values first, then numbers, then texts: one order for whatever stands there."""
    for step in steps:
        item = item.get(step) if isinstance(item, dict) else None
    if item is None:
        return (0, 0, "")
    return (1, item, "") if isinstance(item, int) else (2, 0, str(item))
