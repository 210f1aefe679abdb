"""What an object must look like to be read: which keys, of which type, and the path of whatever is wrong.

A shape is a dict of keys (optional ones end in `?`), a list of one shape, a type, or a check that raises ValueError.
Unknown keys are refused. A null is the same as an absent key, since the API server drops nulls.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import StrEnum
from typing import Any

from kubectl_runs.errors import WireError
from kubectl_runs.wire import times

Json = dict[str, Any]
Shape = Any  # dict[str, Shape] | [Shape] | type | Callable[[Any], None]
WORDS = {str: "a text", int: "a whole number", bool: "true or false", dict: "an object", list: "a list"}


class Wrong(ValueError):
    """What is wrong at a path inside an object."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(problem)
        self.path = path
        self.problem = problem


def match(value: Any, shape: Shape, path: str) -> None:
    """Raises `Wrong` at the first place where the value differs from its shape."""
    if isinstance(shape, dict):
        _match_keys(_typed(value, dict, path), shape, path)
    elif isinstance(shape, list):
        for index, item in enumerate(_typed(value, list, path)):
            match(item, shape[0], f"{path}[{index}]")
    elif isinstance(shape, type):
        _typed(value, shape, path)
    else:
        try:
            shape(value)
        except ValueError as error:
            raise Wrong(path, str(error)) from None


def _match_keys(value: Json, shape: dict[str, Shape], path: str) -> None:
    known = {key.removesuffix("?"): part for key, part in shape.items()}
    for key in value:
        if key not in known:
            raise Wrong(f"{path}.{key}", unknown(str(key), known))
    for key, part in shape.items():
        name = key.removesuffix("?")
        if value.get(name) is not None:
            match(value[name], part, f"{path}.{name}")
        elif not key.endswith("?"):
            raise Wrong(f"{path}.{name}", "is required")


def unknown(key: str, known: Any) -> str:
    """The complaint about a key nobody knows, with the nearest one that somebody does."""
    from difflib import get_close_matches

    near = get_close_matches(key, known, n=1)
    return "unknown field" + (f", did you mean {near[0]}" if near else "")


def _typed(value: Any, kind: type, path: str) -> Any:
    if type(value) is not kind:
        raise Wrong(path, f"must be {WORDS[kind]}, not {_word(value)}")
    return value


def _word(value: Any) -> str:
    if isinstance(value, str | int | float):
        return repr(value) if not isinstance(value, bool) else str(value).lower()
    return WORDS.get(type(value), "null")


def whole(least: int) -> Callable[[Any], None]:
    """A whole number of at least `least`."""

    def check(value: Any) -> None:
        if type(value) is not int:
            raise ValueError(f"must be a whole number, not {_word(value)}")
        if value < least:
            raise ValueError(f"must be at least {least}, not {value}")

    return check


def one_of(words: type[StrEnum] | tuple[str, ...]) -> Callable[[Any], None]:
    """One of a few words."""
    allowed = tuple(str(word) for word in words)

    def check(value: Any) -> None:
        if value not in allowed:
            raise ValueError(f"must be one of {', '.join(allowed)}, not {_word(value)}")

    return check


def text(value: Any) -> None:
    """A text that says something."""
    if type(value) is not str or not value:
        raise ValueError(f"must be a text that is not empty, not {_word(value)}")


def owner(value: Any) -> None:
    """A path in the organisation tree, `org:ai:rai`."""
    text(value)
    if not _OWNER.fullmatch(value):
        raise ValueError(f"{value!r} is no owner such as org:ai:rai")


def digest(value: Any) -> None:
    text(value)
    if not _DIGEST.fullmatch(value):
        raise ValueError(f"{value!r} is no digest: sha256: and 64 hex digits")


def instant(value: Any) -> None:
    text(value)
    times.instant(value)


def duration(value: Any) -> None:
    text(value)
    times.duration(value)


def anything(value: Any) -> None:
    """Read leniently, or not at all."""


_OWNER = re.compile(r"[a-zA-Z0-9._-]+(:[a-zA-Z0-9._-]+)*")
_DIGEST = re.compile("sha256:[0-9a-f]{64}")
COUNT = whole(0)
SOME = whole(1)


def describe(kind: str, metadata: Any) -> str:
    """An object's name for messages: `Run rai/train`."""
    meta = metadata if isinstance(metadata, dict) else {}
    return f"{kind} " + "/".join(str(meta[key]) for key in ("namespace", "name") if meta.get(key))


def error(obj: Json, wrong: Wrong) -> WireError:
    """The complaint with its object."""
    name = describe(str(obj.get("kind") or "object"), obj.get("metadata"))
    return WireError(object=name, path=wrong.path.removeprefix("."), problem=wrong.problem)
