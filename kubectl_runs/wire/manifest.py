"""Files that people write, as objects: strict, with file, line, column and the line itself in every complaint.

Decides what a file may hold (our kinds and, where wanted, others) and where a complaint about an object's field
points. What an object of ours must look like is decided in `wire.decode`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kubectl_runs.errors import ManifestError, WireError
from kubectl_runs.wire import yaml
from kubectl_runs.wire.kinds import API_VERSION, BY_NAME, OURS, RUN, Kind
from kubectl_runs.wire.yaml import Document, Place

Json = dict[str, Any]

BYTES_MAX = 4 * 1024 * 1024
_STEP = re.compile(r"\[(\d+)\]|([^.\[\]]+)")


def text_of(name: str, *, bytes_max: int = BYTES_MAX) -> str:
    """The text of a file, or of stdin for `-`."""
    try:
        if name == "-":
            raw = sys.stdin.buffer.read(bytes_max + 1)
        else:
            with Path(name).open("rb") as file:
                raw = file.read(bytes_max + 1)
        if len(raw) > bytes_max:
            raise ManifestError(f"{name}: larger than {bytes_max // 1024 // 1024} MiB")
        return raw.decode("utf-8-sig")
    except OSError as error:
        raise ManifestError(f"{name}: {(error.strerror or str(error)).lower()}") from None
    except UnicodeDecodeError as error:
        raise ManifestError(f"{name}: not UTF-8 at byte {error.start}") from None


def objects(name: str) -> list[Document]:
    """The objects of a file: several documents, or the items of a List. Each has a kind, a version and a name."""
    label = "stdin" if name == "-" else name
    found = [part for whole in yaml.documents(text_of(name), label) for part in _items(whole)]
    if not found:
        raise ManifestError(f"{label}: holds no object")
    return found


def _items(whole: Document) -> Iterator[Document]:
    if not isinstance(whole.value, dict):
        raise whole.error((), "must be an object with apiVersion and kind")
    if whole.value.get("kind") != "List":
        yield whole
        return
    items = whole.value.get("items")
    if not isinstance(items, list):
        raise whole.error(("items",), "items: must be a list")
    for index, item in enumerate(items):
        here: Place = ("items", index)
        marks, keys = (
            {path[2:]: mark for path, mark in places.items() if path[:2] == here}
            for places in (whole.marks, whole.keys)
        )
        if not isinstance(item, dict):
            raise whole.error(here, "must be an object with apiVersion and kind")
        yield Document(value=item, file=whole.file, text=whole.text, marks=marks, keys=keys)


def kind_of(document: Document) -> Kind:
    """The kind of an object: one of ours in our version, or one of the few of Kubernetes' that we know."""
    value = document.value
    kind = BY_NAME.get(str(value.get("kind")))
    if kind is None:
        known = ", ".join(kind.name for kind in OURS)
        raise document.error(("kind",), f"kind: unknown kind {value.get('kind')!r}, ours are {known}")
    if value.get("apiVersion") != kind.api_version:
        raise document.error(("apiVersion",), f"apiVersion: must be {kind.api_version} for a {kind.name}")
    return kind


def run(name: str) -> Document:
    """The one Run of a file."""
    found = objects(name)
    for document in found:
        if kind_of(document) is not RUN:
            raise document.error(("kind",), f"kind: a Run ({API_VERSION}) is wanted, not a {document.value['kind']}")
    if len(found) > 1:
        raise found[1].error((), "a second Run: one file submits one")
    _has_name(found[0])
    _only_known_keys(found[0])
    return found[0]


def check_run(document: Document) -> None:
    """What section 4 refuses in a pod template; raises `WireError`. `plan` may leave the template out."""
    from kubectl_runs.wire.pods import check_template

    spec = document.value.get("spec") or {}
    template = spec.get("template")
    if template is None:
        return
    for path, kind in (("spec", dict), ("spec.containers", list)):
        part = template
        for key in path.split("."):
            part = part.get(key) if isinstance(part, dict) else None
        if not isinstance(part, kind):
            problem = "must be a list" if kind is list else "must be an object"
            raise WireError(object="Run", path=f"spec.template.{path}", problem=problem)
    check_template(document.value)


def _has_name(document: Document) -> None:
    metadata = document.value.get("metadata")
    if not isinstance(metadata, dict):
        raise document.error(("metadata",), "metadata: is required")
    for key in ("name", "generateName", "namespace"):
        if metadata.get(key) is not None and not isinstance(metadata[key], str):
            raise document.error(("metadata", key), f"metadata.{key}: must be a text")
    if not (metadata.get("name") or metadata.get("generateName")):
        raise document.error(("metadata",), "metadata.name: is required")


def _only_known_keys(document: Document) -> None:
    from kubectl_runs.wire.decode.shape import unknown

    known = ("apiVersion", "kind", "metadata", "spec", "status")
    for key in document.value:
        if key not in known:
            raise document.error((key,), f"{key}: {unknown(key, known)}")


def located(document: Document, wrong: WireError, *, name: str = "") -> ManifestError:
    """A complaint about a field, at its place in the file; `name` says whose, where a file holds many objects."""
    steps: Place = tuple(int(index) if index else key for index, key in _STEP.findall(wrong.path))
    problem = f"{wrong.path}: {wrong.problem}" if wrong.path else wrong.problem
    return document.error(_spelled(document, steps, wrong.path), f"{name}{problem}")


def _spelled(document: Document, steps: Place, path: str) -> Place:
    """Keys may hold dots (`fabric.domain`): take the one that the file has."""
    if steps in document.marks:
        return steps
    for known in document.marks:
        if ".".join(str(part) for part in known) == re.sub(r"\[(\d+)\]", r".\1", path):
            return known
    return steps
