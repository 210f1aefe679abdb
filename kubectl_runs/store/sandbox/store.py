"""The embedded cluster behind the door: every request is one transaction on the file.

Decides nothing about objects itself (`objects`, `admission`, `lifecycle` do); it puts them together, tells the time
and follows changes. The virtual clock stands still until somebody lets time pass: `sandbox advance`, or a command
that waits (`sleep`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from kubectl_runs.store.protocol import (
    Bind,
    Change,
    Create,
    Delete,
    Get,
    Gone,
    Invalid,
    List,
    MayI,
    Object,
    Patch,
    Replace,
    Reply,
    Request,
    StoreError,
    perform_in_turn,
)
from kubectl_runs.store.sandbox import admission, lifecycle, objects, world
from kubectl_runs.store.sandbox import metadata as meta
from kubectl_runs.store.sandbox.database import Database, Logged, Transaction
from kubectl_runs.store.sandbox.rights import Rights
from kubectl_runs.store.selectors import Matches, matcher
from kubectl_runs.wire.kinds import NAMESPACE, NODE, POD, Kind

POLL_SECONDS = 0.05
# A command that waits lets virtual time pass this much faster than real time; others get a turn meanwhile.
REAL_PER_VIRTUAL = 0.01


class SandboxStore:
    """A cluster in one file. Safe under many threads and many processes."""

    def __init__(self, database: Database, *, user: str = "") -> None:
        self._database = database
        self._rights = Rights(user)

    @classmethod
    def open(cls, path: str, *, user: str = "") -> SandboxStore:
        """The sandbox in this file; a file that is not there yet is filled with the default world."""
        store = cls(Database(path), user=user)
        store.fill(world.DEFAULT, unless_filled=True)
        return store

    @classmethod
    def empty(cls, path: str = ":memory:", *, now: int = world.BEGINNING, user: str = "") -> SandboxStore:
        """A sandbox with nothing in it but namespaces `default` and the ledger's base: for tests and simulations."""
        store = cls(Database(path), user=user)
        store.fill(world.nothing(now), unless_filled=True)
        return store

    @property
    def name(self) -> str:
        return f"sandbox {self._database.path}"

    @property
    def namespace(self) -> str:
        """Where commands work without `-n`: the first team's."""
        return self.recipe().namespace

    @property
    def database(self) -> Database:
        return self._database

    def recipe(self) -> world.World:
        """What the sandbox was made from."""
        with self._database.reading() as tx:
            return world.World.from_json(tx.fact("world") or "{}")

    def fill(self, plan: world.World, *, unless_filled: bool = False) -> bool:
        """Make the world anew, or only if there is none; whether it did."""
        if unless_filled and self._is_filled():  # a reader that opens the file waits for no writer
            return False
        with self._database.writing() as tx:
            if unless_filled and tx.fact("world"):
                return False
            tx.clear()
            tx.set_fact("clock", plan.begins_at * 1000)
            tx.clock_ms = plan.begins_at * 1000
            tx.set_fact("world", plan.to_json())
            for kind, value in plan.objects():
                self._create(tx, Rights(), Create(kind=kind, object=value))
        return True

    def _is_filled(self) -> bool:
        with self._database.reading() as tx:
            return tx.fact("world") is not None

    def perform(self, request: Request) -> Reply:
        """Carry out one request."""
        match request:
            case Get():
                with self._database.reading() as tx:
                    return _reply(tx, objects.found(tx, request.kind, request.namespace, request.name))
            case List():
                return self._list(request)
            case MayI():
                with self._database.reading() as tx:
                    allowed = self._rights.allow(request.verb, request.kind, request.subresource)
                    return Reply(server_time=tx.now, allowed=allowed)
            case _:
                return self._write(request)

    def perform_all(self, requests: Sequence[Request]) -> list[Reply | StoreError]:
        """Carry out many, one after another: a file gains nothing from threads."""
        return perform_in_turn(self.perform, requests)

    def watch(
        self,
        kind: Kind,
        namespace: str = "",
        *,
        resource_version: str = "",
        labels: str = "",
        fields: str = "",
        seconds: int = 300,
    ) -> Iterator[Change]:
        """Changes from the log, in order. Waits for other processes in real time; in memory, where nobody else can
        change anything, it lets virtual time pass instead and ends."""
        selected = matcher(kind, labels, fields)
        end = time.monotonic() + seconds
        version = int(resource_version or 0)
        if not resource_version:
            there = self._list(List(kind=kind, namespace=namespace, labels=labels, fields=fields))
            yield from (Change(type="ADDED", object=item) for item in there.items)
            version = int(there.resource_version)
        while True:
            version, logged = self._changes_after(version, kind, namespace)
            yield from (change for entry in logged if (change := _seen(entry, selected)))
            if logged:
                continue
            if self._database.in_memory:
                if not seconds:
                    return
                self.advance(seconds)
                seconds = 0
            elif time.monotonic() < end:
                time.sleep(POLL_SECONDS)
            else:
                return

    def logs(
        self, namespace: str, pod: str, *, container: str = "", follow: bool = False, tail: int | None = None
    ) -> Iterator[str]:
        """What a simulated pod has to say: when it began, and when and how it ended."""
        told = 0
        while True:
            value = self.perform(Get(kind=POD, namespace=namespace, name=pod)).object
            lines = _story(value, container)
            yield from lines[told:] if tail is None else lines[max(told, len(lines) - tail) :]
            told = len(lines)
            if not follow or self._database.in_memory or value["status"]["phase"] in lifecycle.ENDED:
                return
            time.sleep(POLL_SECONDS)

    def now(self) -> int:
        with self._database.reading() as tx:
            return tx.now

    def sleep(self, seconds: float) -> None:
        """Let virtual time pass, and a hundredth of it really, for the other processes."""
        self.advance(seconds)
        if not self._database.in_memory:
            time.sleep(seconds * REAL_PER_VIRTUAL)

    def advance(self, seconds: float) -> int:
        """Move the clock, with everything that falls due; the time it is then."""
        with self._database.writing() as tx:
            lifecycle.let_pass(tx, round(seconds * 1000))
            return tx.now

    def close(self) -> None:
        self._database.close()

    def _changes_after(self, version: int, kind: Kind, namespace: str) -> tuple[int, list[Logged]]:
        with self._database.reading() as tx:
            if version < tx.compacted:
                raise Gone(f"too old resource version: {version} ({tx.compacted})", reason="Expired")
            return tx.version, tx.changes(version, kind, namespace if kind.namespaced else "")

    def _list(self, request: List) -> Reply:
        selected = matcher(request.kind, request.labels, request.fields)
        with self._database.reading() as tx:
            items = tx.all(request.kind, request.namespace if request.kind.namespaced else "")
            if request.labels or request.fields:
                items = [item for item in items if selected(item)]
            return Reply(server_time=tx.now, items=items, resource_version=str(tx.version))

    def _write(self, request: Request) -> Reply:
        with self._database.writing(dry_run=getattr(request, "dry_run", False)) as tx:
            match request:
                case Create():
                    value = self._create(tx, self._rights, request)
                case Replace():
                    self._rights.check("update", request.kind, request.subresource)
                    old, new = objects.replaced(tx, request.kind, request.object, request.subresource)
                    value = self._update(tx, request.kind, old, new)
                case Patch():
                    self._rights.check("patch", request.kind, request.subresource)
                    old, new = objects.patched(
                        tx, request.kind, request.namespace, request.name, request.patch, request.subresource
                    )
                    value = self._update(tx, request.kind, old, new)
                case Delete():
                    value = self._delete(tx, request)
                case Bind():
                    value = self._bind(tx, request)
                case _:
                    raise AssertionError(f"no write: {request}")
            return _reply(tx, value)

    def _create(self, tx: Transaction, rights: Rights, request: Create) -> Object:
        kind = request.kind
        rights.check("create", kind)
        value = objects.created(tx, kind, request.object)
        value = admission.check_schema(kind, value, None)
        admission.check_create(tx, rights, value)
        if kind == POD:
            value = lifecycle.started(tx, lifecycle.born(value))
        if kind == NAMESPACE:
            value = {**value, "status": {"phase": "Active"}}
        return lifecycle.keep(tx, value)

    def _update(self, tx: Transaction, kind: Kind, old: Object, new: Object) -> Object:
        new = admission.check_schema(kind, new, old)
        admission.check_update(tx, self._rights, old, new)
        if new == old:  # nothing changes: no new version, as on the server
            return old
        if lifecycle.released(tx, kind, new):
            return lifecycle.gone(tx, new)
        value = lifecycle.keep(tx, new)
        if kind == NODE:
            lifecycle.node_changed(tx, new["metadata"]["name"])
        return value

    def _delete(self, tx: Transaction, request: Delete) -> Object:
        self._rights.check("delete", request.kind)
        value = objects.found(tx, request.kind, request.namespace, request.name)
        objects.check_uid(request.kind, value, request.uid)
        admission.check_delete(tx, self._rights, value)
        last = lifecycle.delete(tx, request.kind, value, request.grace_seconds)
        if request.kind == NODE:
            lifecycle.node_changed(tx, request.name)
        return last

    def _bind(self, tx: Transaction, request: Bind) -> Object:
        """The scheduler's write: this pod, by UID, not bound yet and not on its way out."""
        self._rights.check("create", POD, "binding")
        pod = objects.found(tx, POD, request.namespace, request.pod)
        objects.check_uid(POD, pod, request.uid)
        if "deletionTimestamp" in pod["metadata"]:
            raise meta.conflict(POD, request.pod, f"pod {request.pod} is being deleted, cannot be assigned to a host")
        if bound := pod["spec"].get("nodeName"):
            raise meta.conflict(POD, request.pod, f'pod {request.pod} is already assigned to node "{bound}"')
        if not request.node:
            raise Invalid("target.name: a binding names its node")
        pod = {**pod, "spec": {**pod["spec"], "nodeName": request.node}}
        lifecycle.keep(tx, lifecycle.started(tx, pod))
        return {"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Success", "code": 201}


def _reply(tx: Transaction, value: Object) -> Reply:
    version = str(value["metadata"].get("resourceVersion") or "")
    return Reply(server_time=tx.now, object=value, resource_version=version)


def _seen(entry: Logged, selected: Matches) -> Change | None:
    """A logged change as a watcher sees it: what stops matching its selector is deleted to it."""
    before = entry.before is not None and selected(entry.before)
    after = entry.after is not None and selected(entry.after)
    if after:
        assert entry.after is not None
        return Change(type="MODIFIED" if before else "ADDED", object=entry.after)
    if before:
        assert entry.before is not None
        metadata = {**entry.before["metadata"], "resourceVersion": str(entry.version)}
        return Change(type="DELETED", object={**entry.before, "metadata": metadata})
    return None


def _story(pod: Object, container: str) -> list[str]:
    lines = []
    for status in pod["status"].get("containerStatuses") or ():
        if container and status["name"] != container:
            continue
        state = status["state"].get("running") or status["state"].get("terminated") or {}
        lines.append(f"{state.get('startedAt')} {status['name']} runs on {pod['spec']['nodeName']} (simulated)")
        if "exitCode" in state:
            lines.append(f"{state['finishedAt']} {status['name']} ended with exit code {state['exitCode']}")
    return lines
