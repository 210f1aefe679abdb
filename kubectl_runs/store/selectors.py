"""Label and field selectors, as the API server reads them.

Only the fields that the server can select by are selectable here: a query that works in the sandbox or on a file works
on a cluster.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from kubectl_runs.store.protocol import Invalid, Object
from kubectl_runs.wire.kinds import EVENT, LEASE, NAMESPACE, NODE, POD, Kind

ALWAYS = ("metadata.name", "metadata.namespace")
SELECTABLE: dict[Kind, tuple[str, ...]] = {
    LEASE: ("status.closed", "spec.paidByBudget", "spec.runRef.name", "spec.node"),
    POD: ("spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "status.phase"),
    NODE: ("spec.unschedulable",),
    NAMESPACE: ("status.phase",),
    EVENT: (
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "reason",
        "type",
    ),
}

Matches = Callable[[Object], bool]

_EQUALITY = re.compile(r"\s*([^=!\s]+)\s*(==|=|!=)\s*(.*?)\s*")
_SET = re.compile(r"\s*([^\s!=,()]+)\s+(in|notin)\s*\(([^)]*)\)\s*")
_EXISTS = re.compile(r"\s*(!?)\s*([^\s!=,()]+)\s*")
_COMMAS = re.compile(r",(?![^(]*\))")


def matcher(kind: Kind, labels: str, fields: str) -> Matches:
    """Whether an object is selected; `Invalid` for a selector that the server would refuse."""
    tests = [_label_test(part) for part in _COMMAS.split(labels) if part.strip()]
    tests += [_field_test(kind, part) for part in fields.split(",") if part.strip()]
    return lambda value: all(test(value) for test in tests)


def _label_test(text: str) -> Matches:
    if match := _SET.fullmatch(text):
        key, operator, members = match[1], match[2], frozenset(word.strip() for word in match[3].split(","))
        wanted = operator == "in"
        return lambda value: (_labels(value).get(key) in members) is wanted
    if match := _EQUALITY.fullmatch(text):
        key, operator, right = match.groups()
        wanted = operator != "!="
        return lambda value: (_labels(value).get(key) == right) is wanted
    if match := _EXISTS.fullmatch(text):
        wanted, key = not match[1], match[2]
        return lambda value: (key in _labels(value)) is wanted
    raise Invalid(f"unable to parse requirement: {text!r}", reason="BadRequest")


def _field_test(kind: Kind, text: str) -> Matches:
    match = _EQUALITY.fullmatch(text)
    if match is None:
        raise Invalid(f"invalid selector: {text!r}; can't understand", reason="BadRequest")
    path, operator, right = match.groups()
    if path not in ALWAYS and path not in SELECTABLE.get(kind, ()):
        raise Invalid(f"field label not supported: {path}", reason="BadRequest")
    wanted = operator != "!="
    steps = path.split(".")
    return lambda value: (_text(value, steps) == right) is wanted


def _labels(value: Object) -> dict[str, str]:
    return value["metadata"].get("labels") or {}


def _text(value: Any, steps: list[str]) -> str:
    """A field as text; an absent one is empty, so that `status.closed!=true` finds a lease without status."""
    for step in steps:
        value = value.get(step) if isinstance(value, dict) else None
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
