"""What the API server would say to an object, without one: schema, rules and transitions, and its defaults.

The sandbox stores nothing that this refuses. `validate` answers with values and never raises; an object that it passes
is accepted by the API server, and one that it refuses is refused there.
"""

from __future__ import annotations

import re
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from kubectl_runs.wire.schema.catalog import BY_KIND, Resource, schema_of
from kubectl_runs.wire.schema.parts import NAME_PATTERN
from kubectl_runs.wire.schema.rules import Json, Rule, pieces

_SHOWN_MAX = 60  # characters of a value in a message


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What is wrong, and where (`spec.envelopes[0].name`; empty for the whole object)."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


def validate(kind: str, obj: Json, old: Json | None = None) -> list[Problem]:
    """Every problem of an object, and of the change from `old` to it."""
    resource = BY_KIND[kind]
    obj = with_defaults(kind, obj)
    problems = _name_problems(obj) + _shape_problems(resource, obj)
    if problems:
        return problems
    return _broken_rules(resource, obj, None if old is None else with_defaults(kind, old))


def with_defaults(kind: str, obj: Json) -> Json:
    """The object as the API server would store it: nulls dropped, defaults filled in.

    An entry stays as it is, since its digest is taken over what was written; a null in it is refused instead.
    """
    whole = deepcopy(obj)
    if not BY_KIND[kind].exact:
        _fill(whole, schema_of(kind))
    return whole


def _fill(value: Any, schema: Json) -> None:
    if isinstance(value, dict):
        properties: Json = schema.get("properties", {})
        for name, part in properties.items():
            if name in value and value[name] is None:
                del value[name]
            if name not in value and "default" in part:
                value[name] = deepcopy(part["default"])
            if name in value:
                _fill(value[name], part)
    elif isinstance(value, list) and "items" in schema:
        for item in value:
            _fill(item, schema["items"])


def _name_problems(obj: Json) -> list[Problem]:
    name = (obj.get("metadata") or {}).get("name")
    if isinstance(name, str) and len(name) <= 253 and re.match(NAME_PATTERN, name):
        return []
    return [Problem(path="metadata.name", message=f"{name!r} is no name: lower case letters, digits, - and . only")]


def _shape_problems(resource: Resource, obj: Json) -> list[Problem]:
    problems = _model_problems(resource.spec, obj.get("spec"), "spec")
    if resource.exact:
        problems += [Problem(path=path, message="must not be null") for path in _nulls(obj.get("spec"), "spec")]
    if resource.status is not None and "status" in obj:
        problems += _model_problems(resource.status, obj["status"], "status")
    return problems + _duplicates(obj, schema_of(resource.kind.name), "")


def _model_problems(model: type[BaseModel], value: Any, root: str) -> list[Problem]:
    if value is None:
        return [Problem(path=root, message="is required")]
    try:
        model.model_validate(value)
    except ValidationError as error:
        return [_problem(root, detail) for detail in error.errors(include_url=False, include_context=False)]
    return []


_WORDING = {
    "missing": "is required",
    "extra_forbidden": "unknown field",
    "int_type": "must be a whole number",
    "string_type": "must be text",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "model_type": "must be an object",
    "dict_type": "must be an object",
}


def _problem(root: str, detail: Any) -> Problem:
    message = _WORDING.get(detail["type"], "")
    if not message:
        text = detail["msg"].removeprefix("Value error, ")
        shown = repr(detail["input"])
        value = shown if len(shown) <= _SHOWN_MAX else shown[:_SHOWN_MAX] + "…"
        message = f"{value}: {text[:1].lower()}{text[1:]}"
    return Problem(path=_spelled(root, detail["loc"]), message=message)


def _spelled(root: str, where: tuple[str | int, ...]) -> str:
    return root + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in where)


def _nulls(value: Any, path: str) -> list[str]:
    if value is None:
        return [path]
    if isinstance(value, dict):
        return [null for key, part in value.items() for null in _nulls(part, f"{path}.{key}")]
    if isinstance(value, list):
        return [null for index, part in enumerate(value) for null in _nulls(part, f"{path}[{index}]")]
    return []


def _duplicates(value: Any, schema: Json, path: str) -> list[Problem]:
    """Items that a set or a list keyed by name has twice."""
    if isinstance(value, dict):
        properties: Json = schema.get("properties", {})
        steps = ((f"{path}.{name}" if path else name, name) for name in properties if name in value)
        return [found for here, name in steps for found in _duplicates(value[name], properties[name], here)]
    if not isinstance(value, list):
        return []
    keys = schema.get("x-kubernetes-list-map-keys", [])
    listed = [tuple(item.get(key) for key in keys) if isinstance(item, dict) else item for item in value]
    twice = [
        index for index, item in enumerate(listed) if "x-kubernetes-list-type" in schema and item in listed[:index]
    ]
    found = [Problem(path=f"{path}[{index}]", message=f"duplicate value {_shown(listed[index])}") for index in twice]
    for index, item in enumerate(value):
        found += _duplicates(item, schema.get("items", {}), f"{path}[{index}]")
    return found


def _shown(item: Any) -> str:
    return ", ".join(map(str, item)) if isinstance(item, tuple) else str(item)


def _broken_rules(resource: Resource, obj: Json, old: Json | None) -> list[Problem]:
    broken = []
    for rule in resource.rules:
        before = dict(pieces(old, rule.at)) if old is not None else {}
        for path, piece in pieces(obj, rule.at):
            holds = (
                rule.holds(piece) if isinstance(rule, Rule) else path not in before or rule.holds(piece, before[path])
            )
            if not holds:
                broken.append(Problem(path=path, message=rule.message))
    return broken
