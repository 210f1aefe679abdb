"""A rule over several fields, written once: as CEL for the API server and as Python for the sandbox.

Both say the same; tests apply the same samples to both. A rule decides about one piece of an object, found by its
path, and is only asked when the piece fits its schema and defaults are in place, as on the API server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """`at` is the piece: empty for the whole object, `spec`, `spec.envelopes[]` for each item of a list."""

    at: str
    message: str
    cel: str
    holds: Callable[[Json], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """A rule about a change; asked on updates only, with the piece as it is and as it was."""

    at: str
    message: str
    cel: str
    holds: Callable[[Json, Json], bool]


Rules = tuple[Rule | Transition, ...]


def value(piece: Json, path: str, default: Any = None) -> Any:
    """What stands at a dotted path, or the default where any part of it is absent."""
    found: Any = piece
    for key in path.split("."):
        if not isinstance(found, dict) or key not in found:
            return default
        found = found[key]
    return found


def pieces(whole: Any, at: str) -> Iterator[tuple[str, Json]]:
    """Every piece that a rule's path names, with its own path (`spec.envelopes[3]`)."""
    found: list[tuple[str, Any]] = [("", whole)]
    for part in at.split(".") if at else ():
        found = [step for path, piece in found for step in _into(path, piece, part)]
    return iter(found)


def _into(path: str, piece: Any, part: str) -> Iterator[tuple[str, Any]]:
    name = part.removesuffix("[]")
    if not isinstance(piece, dict) or name not in piece:
        return
    here = f"{path}.{name}" if path else name
    if part.endswith("[]"):
        yield from ((f"{here}[{index}]", item) for index, item in enumerate(piece[name]))
    else:
        yield here, piece[name]
