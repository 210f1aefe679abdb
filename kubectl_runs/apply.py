"""Brings objects of a cluster to what they should be, and says of each whether it was created, changed or left alone.

The API server itself compares: the change is sent as a dry run first, so that its defaults are no difference and a
hand-made addition is one. Labels and annotations that others put on an object stay.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass
from enum import StrEnum

from kubectl_runs.store.protocol import (
    AlreadyExists,
    Conflict,
    Create,
    Get,
    NotFound,
    Object,
    Replace,
    Reply,
    Store,
    StoreError,
)
from kubectl_runs.wire.kinds import INSTALLED, LEDGER, NAMESPACE, Kind

_KINDS = {kind.name: kind for kind in (*INSTALLED, LEDGER, NAMESPACE)}
_WRITES_MAX = 5  # somebody else may change the object between our look and our write
_SERVER_OWN = ("managedFields", "resourceVersion", "generation")


class Result(StrEnum):
    """What became of one object."""

    CREATED = "created"
    CONFIGURED = "configured"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One object and what became of it."""

    kind: Kind
    name: str
    namespace: str = ""
    result: Result


def apply_all(store: Store, objects: Iterable[Object], *, dry_run: bool) -> list[Outcome]:
    """Bring every object to what it should be. Looking is done for all at once, since most never change."""
    wanted = list(objects)
    live = [_answered(answer) for answer in store.perform_all([_look(each) for each in wanted])]
    drafts = [merged(now, each) for now, each in zip(live, wanted, strict=True) if now]
    trials = store.perform_all([Replace(kind=kind_of(draft), object=draft, dry_run=True) for draft in drafts])
    would_be = iter([_answered(trial) for trial in trials])
    return [
        _outcome(each, Result.UNCHANGED)
        if now and same(next(would_be), now)
        else apply(store, each, dry_run=dry_run)  # what went wrong above is said here
        for each, now in zip(wanted, live, strict=True)
    ]


def apply(store: Store, wanted: Object, *, dry_run: bool) -> Outcome:
    """Bring one object to what it should be."""
    for attempt in range(1, _WRITES_MAX + 1):
        try:
            return _outcome(wanted, _write(store, wanted, dry_run))
        except (Conflict, AlreadyExists):
            if attempt == _WRITES_MAX:
                raise
    raise AssertionError("the last attempt returns or raises")


def _write(store: Store, wanted: Object, dry_run: bool) -> Result:
    kind = kind_of(wanted)
    try:
        live = store.perform(_look(wanted)).object
    except NotFound:
        _create(store, Create(kind=kind, object=wanted, dry_run=dry_run))
        return Result.CREATED
    draft = merged(live, wanted)
    if same(store.perform(Replace(kind=kind, object=draft, dry_run=True)).object, live):
        return Result.UNCHANGED
    if not dry_run:
        store.perform(Replace(kind=kind, object=draft))
    return Result.CONFIGURED


def _create(store: Store, request: Create) -> None:
    try:
        store.perform(request)
    except NotFound:
        if not request.dry_run:  # in a dry run what it stands on was not made either
            raise


def combined(objects: Iterable[Object]) -> list[Object]:
    """Each object once, in the order of first mention: two grants of one role make one binding."""
    made: dict[tuple[str, str, str], Object] = {}
    for each in objects:
        metadata = each["metadata"]
        key = (each["kind"], metadata.get("namespace", ""), metadata["name"])
        made[key] = merged(made[key], each) if key in made else each
    return list(made.values())


def merged(live: Object, wanted: Object) -> Object:
    """The live object with everything that we decide; metadata, status and a binding's other subjects stay."""
    draft = deepcopy(live)
    draft.update({key: part for key, part in wanted.items() if key != "metadata"})
    if "subjects" in wanted:
        has = live.get("subjects") or []
        draft["subjects"] = [*has, *(each for each in wanted["subjects"] if each not in has)]
    return draft


def same(one: Object, other: Object) -> bool:
    """Equal but for what the server keeps for itself."""
    return _plain(one) == _plain(other)


def kind_of(wanted: Object) -> Kind:
    return _KINDS[wanted["kind"]]


def _plain(whole: Object) -> Object:
    metadata = {key: part for key, part in whole.get("metadata", {}).items() if key not in _SERVER_OWN}
    return {**{key: part for key, part in whole.items() if key not in ("apiVersion", "kind")}, "metadata": metadata}


def _look(wanted: Object) -> Get:
    metadata = wanted["metadata"]
    return Get(kind=kind_of(wanted), name=metadata["name"], namespace=metadata.get("namespace", ""))


def _answered(answer: Reply | StoreError) -> Object:
    return {} if isinstance(answer, StoreError) else answer.object


def _outcome(wanted: Object, result: Result) -> Outcome:
    metadata = wanted["metadata"]
    return Outcome(kind=kind_of(wanted), name=metadata["name"], namespace=metadata.get("namespace", ""), result=result)
