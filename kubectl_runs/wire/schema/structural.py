"""A pydantic model as a Kubernetes structural schema: references inlined, rules and list types attached.

Decides nothing about an object; it only spells a model the way a CustomResourceDefinition wants it.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from kubectl_runs.wire.schema.rules import Json, Rules, Transition

# Keywords that a structural schema does not know, or that mean something else there.
_DROPPED = ("title", "$defs", "additionalProperties", "const")
# What would make two spellings of one object equal to CEL, or add to it: left out where a digest is taken.
_LOOSENING = ("default", "format", "x-kubernetes-list-type", "x-kubernetes-list-map-keys")


def structural(model: type[BaseModel], *, exact: bool = False) -> Json:
    """The schema of one model. `exact`: objects are stored and compared to the letter, since their digest is taken."""
    whole = model.model_json_schema(by_alias=True)
    return _plain(whole, whole.get("$defs", {}), exact)


def attach(schema: Json, rules: Rules) -> None:
    """Put every rule on the piece of the schema that it is about."""
    for rule in rules:
        piece = _piece(schema, rule.at)
        piece.setdefault("x-kubernetes-validations", []).append({"rule": rule.cel, "message": rule.message})
        assert isinstance(rule, Transition) == ("oldSelf" in rule.cel), rule.message


def _piece(schema: Json, at: str) -> Json:
    for part in at.split(".") if at else ():
        schema = schema["properties"][part.removesuffix("[]")]
        if part.endswith("[]"):
            schema = schema["items"]
    return schema


def _plain(schema: Json, definitions: Json, exact: bool) -> Json:
    schema = _resolved(schema, definitions)
    spelled = {key: part for key, part in schema.items() if key not in _DROPPED}
    if schema.get("additionalProperties") is True:  # the model keeps what it does not know
        spelled["x-kubernetes-preserve-unknown-fields"] = True
    if spelled.get("default", ...) is None:
        del spelled["default"]
    if exact:
        spelled = {key: part for key, part in spelled.items() if key not in _LOOSENING}
    if "properties" in spelled:
        spelled["properties"] = {name: _plain(part, definitions, exact) for name, part in spelled["properties"].items()}
    if "items" in spelled:
        spelled["items"] = _plain(spelled["items"], definitions, exact)
    if spelled.get("type") == "integer":
        spelled["format"] = "int64"
    return spelled


def _resolved(schema: Json, definitions: Json) -> Json:
    """The schema without a reference and without "or null": an absent value has no key."""
    merged: Json = dict(schema)
    while "$ref" in merged or "anyOf" in merged:
        target = _target(merged, definitions)
        merged = {**target, **{key: part for key, part in merged.items() if key not in ("$ref", "anyOf")}}
    return merged


def _target(schema: Json, definitions: Json) -> Json:
    if "$ref" in schema:
        found: Any = definitions[schema["$ref"].removeprefix("#/$defs/")]
    else:
        (found,) = (option for option in schema["anyOf"] if option != {"type": "null"})
    return dict(found)
