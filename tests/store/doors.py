"""One door, two rooms: a store under test, with what a test needs to know of the room behind it.

The cluster is a real API server of its own (these tests move the ledger's floor); further stores of it go through a
relay that can cut every connection.
"""

from __future__ import annotations

import contextlib
import itertools
import selectors
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from kubectl_runs.store.protocol import Create, Object, Reply, Store
from kubectl_runs.wire.kinds import API_VERSION, NAMESPACE, Kind
from kubectl_runs.wire.times import rfc3339

OWNER = "rq.davidlangworthy.io/owner"
_numbers = itertools.count(1)


@dataclass(frozen=True, kw_only=True)
class Door:
    """A store, a namespace of this test's own, and how to get another store of the same room."""

    store: Store
    another: Callable[[str], Store]  # as which user: "" is an administrator
    cut: Callable[[], None] = lambda: None
    forget: Callable[[], None] = lambda: None  # makes version 1 too old
    namespace: str = field(default_factory=lambda: f"t{next(_numbers)}")

    def make(self, kind: Kind, value: Object) -> Reply:
        return self.store.perform(Create(kind=kind, object=value))

    def make_namespace(self) -> None:
        metadata = {"name": self.namespace, "annotations": {OWNER: f"org:{self.namespace}"}}
        self.make(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})

    def pod(self, name: str = "p", **metadata: object) -> Object:
        spec = {
            "schedulerName": "kubectl-runs",
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "x"}],
        }
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": self.namespace, **metadata},
            "spec": spec,
        }

    def run(self, name: str = "train", **metadata: object) -> Object:
        template = {"spec": {"containers": [{"name": "main", "image": "x"}]}}
        return {
            "apiVersion": API_VERSION,
            "kind": "Run",
            "metadata": {"name": name, "namespace": self.namespace, **metadata},
            "spec": {"resources": {"gpuType": "H100", "totalGPUs": 8}, "template": template},
        }

    def lease(self, name: str = "l-7-0", *, run: str = "train", budget: str = "rai", **labels: str) -> Object:
        spec = {
            "owner": f"org:{self.namespace}",
            "runRef": {"name": run, "uid": "u-1"},
            "compPath": ["SHARD[0]"],
            "slice": {"nodes": ["n1"], "gpus": 8, "role": "Active"},
            "node": "n1",
            "interval": {"start": "2026-01-05T08:00:00Z"},
            "paidByBudget": budget,
            "paidByEnvelope": "h100",
            "class": "owned",
            "reason": "Start",
        }
        metadata = {"name": name, "namespace": self.namespace, "labels": labels}
        return {"apiVersion": API_VERSION, "kind": "Lease", "metadata": metadata, "spec": spec}

    def entry(self, seq: int, *, kind: str = "End", age_seconds: int = 0, **spec: object) -> Object:
        run = {"namespace": self.namespace, "name": "train", "uid": "u-1", "attempt": 1}
        whole = {
            "seq": seq,
            "prev": "sha256:" + "0" * 64,
            "nonce": f"{seq:032x}",
            "readAt": rfc3339(self.store.now() - age_seconds),
            "kind": kind,
            "run": run,
            **spec,
        }
        return {"apiVersion": API_VERSION, "kind": "LedgerEntry", "metadata": {"name": f"{seq:012}"}, "spec": whole}


CLOSED = {"closed": True, "endTime": "2026-01-05T09:00:00Z", "closureReason": "Completed"}


class Relay:
    """Passes bytes on to a server until it is told to cut: then every connection through it ends in the middle."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        while self._pairs:
            for end in self._pairs.pop():
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                pair = (near, socket.create_connection(("127.0.0.1", self._target)))
                self._pairs.append(pair)
                threading.Thread(target=_pump, args=pair, daemon=True).start()


def _pump(near: socket.socket, far: socket.socket) -> None:
    chooser = selectors.DefaultSelector()
    chooser.register(near, selectors.EVENT_READ, far)
    chooser.register(far, selectors.EVENT_READ, near)
    with contextlib.suppress(OSError), near, far:
        while True:
            for key, _ in chooser.select():
                data = key.fileobj.recv(65536)  # type: ignore[union-attr]
                if not data:
                    return
                key.data.sendall(data)
