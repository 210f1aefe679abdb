"""A snapshot file as a third, read-only store (section 8): plain objects, checked before anything is read from it.

One bad object of ours, or a kind that nobody knows, refuses the file; a strange node or pod never does. The file is
YAML or JSON, several documents or one List. Its clock stands still: at `--now`, else at the time it was saved.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from kubectl_runs.errors import ManifestError, WireError
from kubectl_runs.store.protocol import (
    Change,
    Get,
    List,
    MayI,
    NotFound,
    Object,
    ReadOnly,
    Reply,
    Request,
    StoreError,
    perform_in_turn,
)
from kubectl_runs.wire import decode, manifest, times, yaml
from kubectl_runs.wire.kinds import BY_NAME, GROUP, OURS, Kind
from planner.model import Entry, Snapshot

BYTES_MAX = 1024 * 1024 * 1024
SAVED_AT = f"{GROUP}/saved-at"
READABLE = (*(kind.name for kind in OURS), "Node", "Pod", "Namespace")


class SnapshotStore:
    """The objects of a file behind the one door."""

    namespace = "default"

    def __init__(self, file: str, objects: Sequence[Object], *, now: int) -> None:
        self.file = file
        self._now = now
        self.objects: dict[str, dict[tuple[str, str], Object]] = {name: {} for name in READABLE}
        for obj in objects:
            self._add(obj)
        self.snapshot = self._checked()

    @classmethod
    def open(cls, file: str, *, now: int | None = None) -> SnapshotStore:
        """Reads and checks a file; `now` wins over the time at which it was saved."""
        objects, saved_at = load(file)
        if now is None:
            now = saved_at if saved_at is not None else _clock()
        try:
            return cls("stdin" if file == "-" else file, objects, now=now)
        except WireError as wrong:
            raise _located(file, wrong) from None

    @property
    def name(self) -> str:
        return self.file

    def now(self) -> int:
        return self._now

    def sleep(self, seconds: float) -> None:
        """Time does not pass in a file."""

    def _add(self, obj: Object) -> None:
        kind = _kind(obj, self.file)
        metadata = obj.get("metadata")
        if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
            raise WireError(object=f"a {kind.name}", path="metadata.name", problem="is required", file=self.file)
        if kind.namespaced and not metadata.get("namespace"):
            metadata["namespace"] = self.namespace
        key = (metadata["namespace"] if kind.namespaced else "", metadata["name"])
        if key in self.objects[kind.name]:
            name = decode.describe(kind.name, metadata)
            raise WireError(object=name, path="", problem="stands twice in the file", file=self.file)
        self.objects[kind.name][key] = obj

    def _checked(self) -> Snapshot:
        """The planner's snapshot: entries after the base and those pending, each following the one before."""
        from kubectl_runs.commit.chain import Tip, link

        everything = [obj for found in self.objects.values() for obj in found.values()]
        try:
            made, _ = decode.snapshot(everything, strict=True)
        except WireError as wrong:
            raise WireError(object=wrong.object, path=wrong.path, problem=wrong.problem, file=self.file) from None
        base = made.base or decode.NO_BASE
        by_seq = {entry.seq: entry for entry in made.entries}
        pending = tuple(by_seq[seq] for seq in sorted(base.pending) if seq in by_seq)
        following: list[Entry] = []
        while (seq := base.seq + len(following) + 1) in by_seq:
            following.append(by_seq[seq])
        _, linked = link(Tip.of_base(base), following)
        return replace(made, entries=(*pending, *linked))

    # Requests

    def perform(self, request: Request) -> Reply:
        match request:
            case Get():
                found = self.objects.get(request.kind.name, {})
                obj = found.get((request.namespace if request.kind.namespaced else "", request.name))
                if obj is None:
                    raise self._not_found(request)
                return Reply(server_time=self._now, object=obj)
            case List():
                return Reply(server_time=self._now, items=self._list(request))
            case MayI():
                return Reply(server_time=self._now, allowed=request.verb in ("get", "list", "watch"))
            case _:
                raise self._read_only()

    def perform_all(self, requests: Sequence[Request]) -> list[Reply | StoreError]:
        return perform_in_turn(self.perform, requests)

    def _list(self, request: List) -> list[Object]:
        found = self.objects.get(request.kind.name, {})
        items = [obj for (namespace, _), obj in sorted(found.items()) if request.namespace in ("", namespace)]
        if request.labels or request.fields:
            from kubectl_runs.store.selectors import matcher

            matches = matcher(request.kind, request.labels, request.fields)
            items = [obj for obj in items if matches(obj)]
        return items

    def _not_found(self, request: Get) -> NotFound:
        error = NotFound(f"{request.kind.name.lower()} {request.name} not found in {self.file}")
        error.server_time = self._now
        return error

    def watch(self, *_: Any, **__: Any) -> Iterator[Change]:
        """Nothing ever changes in a file."""
        return iter(())

    def logs(self, *_: Any, **__: Any) -> Iterator[str]:
        """A file has no pods' output."""
        raise self._read_only("a snapshot file holds no logs")

    def _read_only(self, why: str = "a snapshot file is read-only") -> ReadOnly:
        return ReadOnly(f"{self.file}: {why}", details={"hint": "add --dry-run, or leave --from out"})


def load(file: str) -> tuple[list[Object], int | None]:
    """The objects of a file, and when `snapshot save` wrote it."""
    text = manifest.text_of(file, bytes_max=BYTES_MAX)
    label = "stdin" if file == "-" else file
    objects: list[Object] = []
    saved_at: int | None = None
    for value in _values(text, label):
        if not isinstance(value, dict):
            raise ManifestError(f"{label}: a document is no object with apiVersion and kind")
        if not str(value.get("kind", "")).endswith("List"):
            objects.append(value)
            continue
        saved_at = _saved_at(value, label) or saved_at
        objects += _items(value, label)
    return objects, saved_at


def _values(text: str, file: str) -> list[Any]:
    """JSON by the fast way where it is JSON; all else as YAML."""
    if text.lstrip()[:1] == "{":
        try:
            return [json.loads(text, object_pairs_hook=_unique)]
        except (ValueError, RecursionError):
            pass  # several documents, or a mistake that the YAML reader names with its line
    return [document.value for document in yaml.documents(text, file, marks=False)]


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("duplicate key")
    return found


def _items(value: Object, file: str) -> list[Object]:
    items = value.get("items")
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise ManifestError(f"{file}: items of a List must be objects")
    kind = str(value["kind"]).removesuffix("List")
    if kind:  # a RunList as the API server gives it: its items may leave out what it says itself
        items = [{"apiVersion": value.get("apiVersion"), "kind": kind, **item} for item in items]
    return items


def _saved_at(value: Object, file: str) -> int | None:
    metadata = value.get("metadata")
    stamp = ((metadata.get("annotations") or {}) if isinstance(metadata, dict) else {}).get(SAVED_AT)
    if stamp is None:
        return None
    try:
        return times.instant(str(stamp))
    except ValueError as error:
        raise ManifestError(f"{file}: {SAVED_AT}: {error}") from None


def _kind(obj: Object, file: str) -> Kind:
    name = str(obj.get("kind"))
    kind = BY_NAME.get(name) if name in READABLE else None
    if kind is None or obj.get("apiVersion") != kind.api_version:
        described = decode.describe(name, obj.get("metadata"))
        known = ", ".join(READABLE)
        problem = f"unknown kind {obj.get('apiVersion')} {name}, known are {known}"
        raise WireError(object=described, path="kind", problem=problem, file=file)
    return kind


def _located(file: str, wrong: WireError) -> WireError | ManifestError:
    """Section 7: the complaint with its line. Only now are places looked up: a good file need not pay for them."""
    try:
        documents = manifest.objects(file) if file != "-" else []
    except ManifestError:
        return wrong  # too large to read twice, or a form that only `load` knows
    named = [document for document in documents if _described(document.value) == wrong.object]
    return manifest.located(named[-1], wrong, name=f"{wrong.object}: ") if named else wrong


def _described(obj: Object) -> str:
    """The name that a complaint gives an object: those without a namespace are in the default one."""
    kind, metadata = BY_NAME.get(str(obj.get("kind"))), obj.get("metadata")
    if kind is not None and kind.namespaced and isinstance(metadata, dict) and not metadata.get("namespace"):
        metadata = {**metadata, "namespace": SnapshotStore.namespace}
    return decode.describe(str(obj.get("kind")), metadata)


def _clock() -> int:
    import time

    return int(time.time())
