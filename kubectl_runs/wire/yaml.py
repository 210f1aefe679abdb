"""YAML and JSON as plain values, read strictly: what is ambiguous or hostile is refused with line and column.

Refused are aliases (and so alias bombs), duplicate keys, tags, merge keys, keys that are no texts, nesting deeper than
100 and files that are too large. Built from events, since libyaml's own composer recurses until the stack is gone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from kubectl_runs.errors import ManifestError
from planner.values import dataclass, field

DEPTH_MAX = 100
WORDS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"), True),
    **dict.fromkeys(("false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"), False),
}
_WHOLE = re.compile(r"[-+]?(0|[1-9][0-9]*)", re.ASCII)
_HEX = re.compile(r"0x[0-9a-fA-F]+", re.ASCII)
_FRACTION = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))([eE][-+]?[0-9]+)?", re.ASCII)
DIGITS_MAX = 18

Place = tuple[str | int, ...]
Mark = tuple[int, int]  # line and column, both from 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One document of a file; `marks` say where each value stands, if they were asked for."""

    value: Any
    file: str
    text: str = field(repr=False)
    marks: dict[Place, Mark] = field(default_factory=dict, repr=False)
    keys: dict[Place, Mark] = field(default_factory=dict, repr=False)  # where the key of a value stands

    def error(self, path: Place, problem: str) -> ManifestError:
        """The complaint about the value at a path; where that is missing, about the nearest thing around it."""
        if path in self.keys and "unknown field" in problem:
            return complaint(self.file, self.text, self.keys[path], problem)
        while path and path not in self.marks:
            path = path[:-1]
        return complaint(self.file, self.text, self.marks.get(path, (0, 0)), problem)


def complaint(file: str, text: str, mark: Mark, problem: str) -> ManifestError:
    """File, line, column, and the line itself with a pointer under the place."""
    line, column = mark
    lines = text.splitlines()
    shown = lines[line] if line < len(lines) else ""
    number = str(line + 1)
    detail = f"{number} | {shown}\n{' ' * len(number)} | {' ' * min(column, len(shown))}^"
    return ManifestError(f"{file}:{line + 1}:{column + 1}: {problem}", detail=detail)


def documents(text: str, file: str, *, marks: bool = True) -> Iterator[Document]:
    """The documents of a file, empty ones left out."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    builder = _Builder(text, file, marks=marks)
    try:
        builder.events = yaml.parse(text, Loader=loader)
        yield from builder.documents()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        where = (mark.line, mark.column) if mark else _position(text, getattr(error, "position", 0) or 0)
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
        raise complaint(file, text, where, f"not YAML: {problem}") from None


def _position(text: str, offset: int) -> Mark:
    before = text[:offset]
    return before.count("\n"), offset - (before.rfind("\n") + 1)


class _Builder:
    """Turns events into values, one document at a time."""

    def __init__(self, text: str, file: str, *, marks: bool) -> None:
        self.text = text
        self.file = file
        self.keep = marks
        self.marks: dict[Place, Mark] = {}
        self.keys: dict[Place, Mark] = {}
        self.events: Iterator[Any] = iter(())

    def documents(self) -> Iterator[Document]:
        for event in self.events:
            if type(event).__name__ == "DocumentStartEvent":
                self.marks, self.keys = {}, {}
                value = self.value(next(self.events), ())
                if value is not None:
                    yield Document(value=value, file=self.file, text=self.text, marks=self.marks, keys=self.keys)

    def value(self, event: Any, path: Place) -> Any:
        if self.keep:
            self.marks[path] = (event.start_mark.line, event.start_mark.column)
        kind = type(event).__name__
        if kind == "AliasEvent":
            raise self.refuse(event, f"aliases are refused (*{event.anchor})")
        if kind == "ScalarEvent":
            return self.scalar(event)
        if len(path) >= DEPTH_MAX:
            raise self.refuse(event, f"nested deeper than {DEPTH_MAX}")
        if event.tag is not None:
            raise self.refuse(event, f"tags are refused ({event.tag})")
        return self.mapping(path) if kind == "MappingStartEvent" else self.sequence(path)

    def mapping(self, path: Place) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for event in self.events:
            if type(event).__name__ == "MappingEndEvent":
                break
            key = self.key(event)
            if key in found:
                raise self.refuse(event, f"duplicate key {key}")
            if self.keep:
                self.keys[(*path, key)] = (event.start_mark.line, event.start_mark.column)
            found[key] = self.value(next(self.events), (*path, key))
        return found

    def key(self, event: Any) -> str:
        if type(event).__name__ != "ScalarEvent":
            raise self.refuse(event, "a key must be a text")
        if event.value == "<<" and event.implicit[0]:
            raise self.refuse(event, "merge keys are refused (<<)")
        if event.tag is not None:
            raise self.refuse(event, f"tags are refused ({event.tag})")
        return str(event.value)

    def sequence(self, path: Place) -> list[Any]:
        found: list[Any] = []
        for event in self.events:
            if type(event).__name__ == "SequenceEndEvent":
                break
            found.append(self.value(event, (*path, len(found))))
        return found

    def scalar(self, event: Any) -> Any:
        if event.tag is not None:
            raise self.refuse(event, f"tags are refused ({event.tag})")
        if not event.implicit[0]:  # quoted, or a block
            return event.value
        return plain(event.value)

    def refuse(self, event: Any, problem: str) -> ManifestError:
        return complaint(self.file, self.text, (event.start_mark.line, event.start_mark.column), problem)


def plain(word: str) -> Any:
    """An unquoted scalar as kubectl reads it; times and numbers that begin with 0 stay texts."""
    if word in WORDS:
        return WORDS[word]
    if len(word) <= DIGITS_MAX:
        if _WHOLE.fullmatch(word):
            return int(word)
        if _HEX.fullmatch(word):
            return int(word, 16)
        if _FRACTION.fullmatch(word):
            return float(word)
    return word
