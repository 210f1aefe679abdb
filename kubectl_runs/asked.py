"""Which run a command is about: one that exists, or one in a file, read against the world it would join.

Decides its namespace and owner, and applies what-if changes (`--gpus`, `--sponsor`, …). Used by `plan`, `submit` and
whatever else takes `-f FILE | RUN`.
"""

from __future__ import annotations

import copy
import shlex
from typing import TYPE_CHECKING, Any

from kubectl_runs.errors import RunsError, UsageError, WireError
from kubectl_runs.wire import decode, manifest
from kubectl_runs.wire.kinds import RUN
from planner.values import dataclass, field

if TYPE_CHECKING:
    from kubectl_runs.session import Session
    from kubectl_runs.wire.yaml import Document
    from planner.model import Run, Snapshot

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What is different in a what-if."""

    gpus: int | None = None
    sponsors: tuple[str, ...] = ()
    max_borrow: int | None = None
    spread: bool = False
    spares: int | None = None
    duration: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedRun:
    """The run, the object it came from, and the world as it was read for it."""

    run: Run
    object: Json = field(hash=False)
    snapshot: Snapshot
    command: str  # "plan -f train.yaml", for hints
    exists: bool

    @property
    def holds(self) -> bool:
        """Whether it holds GPUs already: open leases, or entries that are not yet written as leases."""
        from planner.fold import open_leases, same_run

        held = open_leases(self.snapshot).values()
        return any(lease.run_key == self.run.key and same_run(self.run, lease.run_uid) for lease in held)


def asked_run(session: Session, *, name: str | None, file: str | None, change: Change, verb: str = "plan") -> AskedRun:
    """The run that the command line names."""
    if (name is None) == (file is None):
        raise UsageError("name a RUN, or a file with -f: one of the two", hint=f"kubectl runs {verb} -f train.yaml")
    if file is not None:
        return _from_file(session, file, change, verb)
    assert name is not None
    obj = session.find(RUN, name)
    metadata = obj["metadata"]
    snapshot = session.snapshot(runs=(f"{metadata['namespace']}/{metadata['name']}",))
    run = decode.run(changed(obj, change), snapshot.namespace_owners)
    return AskedRun(run=run, object=obj, snapshot=snapshot, command=f"{verb} {shlex.quote(name)}", exists=True)


def manifest_of(session: Session, file: str, *, ending: str = "x") -> Document:
    """The run of a file, checked, with its namespace; `ending` completes a `generateName`."""
    document = manifest.run(file)
    metadata = document.value["metadata"]
    metadata["namespace"] = _namespace(session, metadata.get("namespace"))
    if not metadata.get("name"):
        metadata["name"] = f"{metadata['generateName']}{ending}"
    try:
        # What is wrong in the file is said before anything is read from a cluster.
        decode.run(document.value, {metadata["namespace"]: "?"})
        manifest.check_run(document)
    except WireError as wrong:
        raise manifest.located(document, wrong) from None
    return document


def _from_file(session: Session, file: str, change: Change, verb: str) -> AskedRun:
    document = manifest_of(session, file)
    obj: Json = document.value
    metadata = obj["metadata"]
    key = f"{metadata['namespace']}/{metadata['name']}"
    snapshot = session.snapshot(runs=(key,))
    known = next((run for run in snapshot.runs if run.key == key), None)
    if known is not None:
        metadata["uid"] = known.uid
        if known.canceled:
            obj["spec"]["canceled"] = True  # 6.7: one way, whatever the file says
    try:
        run = decode.run(changed(obj, change), snapshot.namespace_owners)
    except WireError as wrong:
        if change != Change():
            raise RunsError(f"with that change {wrong.path}: {wrong.problem}") from None
        raise manifest.located(document, wrong) from None
    command = f"{verb} -f {shlex.quote(file)}"
    return AskedRun(run=run, object=obj, snapshot=snapshot, command=command, exists=known is not None)


def _namespace(session: Session, own: str | None) -> str:
    """The manifest's namespace, else the session's; two that differ are an error, as in kubectl."""
    given = session.flags.namespace
    if own and given and own != given:
        raise RunsError(f"the manifest's namespace {own} is not the one of -n {given}")
    return own or session.namespace


def changed(obj: Json, change: Change) -> Json:
    """The object with what-if changes; it is checked again after them."""
    if change == Change():
        return obj
    made = copy.deepcopy(obj)
    spec = made["spec"]
    if change.gpus is not None:
        spec["resources"]["totalGPUs"] = change.gpus
        if spec.get("malleable"):
            spec["malleable"]["desiredTotalGPUs"] = change.gpus
    if change.sponsors:
        funding = spec.setdefault("funding", {})
        named = funding.get("sponsors") or []
        funding["sponsors"] = [*named, *(owner for owner in change.sponsors if owner not in named)]
        funding["allowBorrow"] = True
    if change.max_borrow is not None:
        spec.setdefault("funding", {})["maxBorrowGPUs"] = change.max_borrow
    if change.spread:
        spec.setdefault("locality", {})["allowCrossGroupSpread"] = True
    if change.spares is not None:
        spec["sparesPerGroup"] = change.spares
    if change.duration is not None:
        spec["duration"] = change.duration
    return made
