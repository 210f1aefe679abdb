"""One SQLite file that holds a cluster: objects, the log of their changes, and a clock.

Decides atomicity (one transaction a request, writers one after another), versions (one counter for all objects, as in
etcd) and how long changes are kept for watchers. What may be written is decided by the layers above.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from kubectl_runs.store.protocol import Object, StoreError, Unavailable
from kubectl_runs.wire.kinds import Kind

FORMAT = 2  # PRAGMA user_version of a file that this code can read
BUSY_SECONDS = 30
CHANGES_KEPT = 20_000
COMPACT_EVERY = 1_000

TABLES = """
CREATE TABLE objects (
  kind TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL, data TEXT NOT NULL, due INTEGER,
  PRIMARY KEY (kind, namespace, name)
) WITHOUT ROWID;
CREATE INDEX due ON objects (due) WHERE due IS NOT NULL;
CREATE TABLE changes (version INTEGER PRIMARY KEY, kind TEXT NOT NULL, namespace TEXT NOT NULL,
  before TEXT, after TEXT);
CREATE TABLE owned (
  owner TEXT NOT NULL, kind TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
  PRIMARY KEY (owner, kind, namespace, name)
) WITHOUT ROWID;
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""


class SandboxError(StoreError):
    """The file is no sandbox that this program can use."""


class Logged(NamedTuple):
    """One change as logged: the object before and after it, either absent."""

    version: int
    before: Object | None
    after: Object | None


class Transaction:
    """What can be seen and done between BEGIN and COMMIT."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._sql = connection
        self.version = int(self.fact("version") or 0)
        self.clock_ms = int(self.fact("clock") or 0)

    @property
    def now(self) -> int:
        """The virtual clock, in whole Unix seconds."""
        return self.clock_ms // 1000

    def fact(self, name: str) -> str | None:
        row = self._sql.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return row[0] if row else None

    def set_fact(self, name: str, value: object) -> None:
        self._sql.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, str(value)))

    def set_clock(self, clock_ms: int) -> None:
        """Time never runs backwards, however many processes let it pass."""
        self.clock_ms = max(self.clock_ms, clock_ms)
        self.set_fact("clock", self.clock_ms)

    def get(self, kind: Kind, namespace: str, name: str) -> Object | None:
        query = "SELECT data FROM objects WHERE kind = ? AND namespace = ? AND name = ?"
        row = self._sql.execute(query, (_word(kind), namespace, name)).fetchone()
        return json.loads(row[0]) if row else None

    def all(self, kind: Kind, namespace: str = "") -> list[Object]:
        """All objects of a kind by namespace and name; decoded in one go, which is what makes long lists fast."""
        scope = " AND namespace = ?" if namespace else ""
        rows = self._sql.execute(
            f"SELECT data FROM objects WHERE kind = ?{scope} ORDER BY namespace, name",
            (_word(kind), namespace) if namespace else (_word(kind),),
        )
        return list(json.loads("[" + ",".join(row[0] for row in rows) + "]"))

    def owned_by(self, uid: str) -> list[Object]:
        """All objects that were ever written with this UID among their owners."""
        query = "SELECT data FROM owned JOIN objects USING (kind, namespace, name) WHERE owner = ?"
        return [json.loads(row[0]) for row in self._sql.execute(query, (uid,))]

    def in_namespace(self, namespace: str) -> list[Object]:
        """All objects in a namespace, of whatever kind."""
        rows = self._sql.execute("SELECT data FROM objects WHERE namespace = ? ORDER BY kind, name", (namespace,))
        return [json.loads(row[0]) for row in rows]

    def due(self, until: int) -> tuple[int, list[Object]]:
        """The earliest second up to `until` at which something is due, and the objects that are due then."""
        query = "SELECT min(due) FROM objects WHERE due IS NOT NULL AND due <= ?"
        moment = self._sql.execute(query, (until,)).fetchone()[0]
        if moment is None:
            return until, []
        rows = self._sql.execute("SELECT data FROM objects WHERE due = ? ORDER BY kind, namespace, name", (moment,))
        return moment, [json.loads(row[0]) for row in rows]

    def schedule(self, value: Object, due: int | None) -> None:
        """Have an object looked at when the clock gets there; writing an object takes it off the schedule."""
        key = _key(value)
        self._sql.execute("UPDATE objects SET due = ? WHERE kind = ? AND namespace = ? AND name = ?", (due, *key))

    def put(self, value: Object) -> Object:
        """Write an object under the next version."""
        version = self._next_version()
        metadata = {**value["metadata"], "resourceVersion": str(version)}
        value = {**value, "metadata": metadata}
        key = _key(value)
        data = json.dumps(value, separators=(",", ":"))
        query = "SELECT data FROM objects WHERE kind = ? AND namespace = ? AND name = ?"
        before = self._sql.execute(query, key).fetchone()
        self._sql.execute("INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, NULL)", (*key, data))
        for owner in metadata.get("ownerReferences") or ():
            self._sql.execute("INSERT OR REPLACE INTO owned VALUES (?, ?, ?, ?)", (owner.get("uid"), *key))
        self._log(version, key, before[0] if before else None, data)
        return value

    def remove(self, value: Object) -> Object:
        """Take an object out, under the next version too: watchers must see deletions in order."""
        version = self._next_version()
        metadata = {**value["metadata"], "resourceVersion": str(version)}
        value = {**value, "metadata": metadata}
        key = _key(value)
        self._sql.execute("DELETE FROM objects WHERE kind = ? AND namespace = ? AND name = ?", key)
        self._log(version, key, json.dumps(value, separators=(",", ":")), None)
        return value

    def changes(self, after: int, kind: Kind, namespace: str = "") -> list[Logged]:
        """The changes of a kind after a version, oldest first."""
        scope = " AND namespace = ?" if namespace else ""
        rows = self._sql.execute(
            f"SELECT version, before, after FROM changes WHERE version > ? AND kind = ?{scope} ORDER BY version",
            (after, _word(kind), namespace) if namespace else (after, _word(kind)),
        )
        return [Logged(version, _load(before), _load(later)) for version, before, later in rows]

    @property
    def compacted(self) -> int:
        """The last version whose changes are no longer kept."""
        return int(self.fact("compacted") or 0)

    def compact(self, version: int) -> None:
        """Forget the changes up to this version."""
        self._sql.execute("DELETE FROM changes WHERE version <= ?", (version,))
        self.set_fact("compacted", max(version, self.compacted))

    def clear(self) -> None:
        """Forget everything but versions, so that a watcher of the old world is told `Gone`."""
        self._sql.execute("DELETE FROM objects")
        self._sql.execute("DELETE FROM owned")
        self.compact(self.version)

    def _next_version(self) -> int:
        self.version += 1
        self.set_fact("version", self.version)
        if self.version % COMPACT_EVERY == 0 and self.version > CHANGES_KEPT:
            self.compact(self.version - CHANGES_KEPT)
        return self.version

    def _log(self, version: int, key: Iterable[str], before: str | None, after: str | None) -> None:
        kind, namespace, _ = key
        self._sql.execute("INSERT INTO changes VALUES (?, ?, ?, ?, ?)", (version, kind, namespace, before, after))


class Database:
    """A connection to the file, shared by the threads of this process."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.in_memory = path == ":memory:"
        self._lock = threading.RLock()
        try:
            if not self.in_memory:
                Path(path).parent.mkdir(parents=True, exist_ok=True)
            self._sql = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
            if not self.in_memory:
                self._sql.execute("PRAGMA journal_mode = WAL")
            # A crash of the machine may lose the last writes of a sandbox, a crash of the program does not.
            self._sql.execute(f"PRAGMA synchronous = {'OFF' if self.in_memory else 'NORMAL'}")
            self._format = self._make_tables()
        except (sqlite3.Error, OSError) as error:
            raise SandboxError(f"sandbox {path}: {error}") from error
        if self._format != FORMAT:
            message = f"sandbox {path} has format {self._format}, this program reads {FORMAT}"
            raise SandboxError(message, details={"hint": f"rm {path} && kubectl runs sandbox init {path}"})

    def _make_tables(self) -> int:
        found = int(self._sql.execute("PRAGMA user_version").fetchone()[0])
        if found:
            return found
        self._sql.execute("BEGIN IMMEDIATE")
        if int(self._sql.execute("PRAGMA user_version").fetchone()[0]) == 0:  # nobody was faster
            for statement in TABLES.split(";"):
                self._sql.execute(statement)
            self._sql.execute(f"PRAGMA user_version = {FORMAT}")
        self._sql.execute("COMMIT")
        return FORMAT

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """One consistent view: WAL keeps the version that the first read saw."""
        with self._transaction("BEGIN", "ROLLBACK") as transaction:
            yield transaction

    @contextmanager
    def writing(self, *, dry_run: bool = False) -> Iterator[Transaction]:
        """Alone with the file. An error undoes everything, and so does a dry run."""
        with self._transaction("BEGIN IMMEDIATE", "ROLLBACK" if dry_run else "COMMIT") as transaction:
            yield transaction

    @contextmanager
    def _transaction(self, begin: str, end: str) -> Iterator[Transaction]:
        with self._lock:
            try:
                self._sql.execute(begin)
                try:
                    transaction = Transaction(self._sql)
                    yield transaction
                except BaseException as error:
                    self._sql.execute("ROLLBACK")
                    if isinstance(error, StoreError):
                        error.server_time = transaction.now  # a refusal tells the time too
                    raise
                self._sql.execute(end)
            except sqlite3.OperationalError as error:
                raise Unavailable(f"sandbox {self.path}: {error}") from error
            except sqlite3.DatabaseError as error:
                raise SandboxError(f"sandbox {self.path}: {error}") from error

    def close(self) -> None:
        with self._lock:
            self._sql.close()


def _word(kind: Kind) -> str:
    """How the file names a kind: with its group, since Kubernetes has a Lease of its own."""
    group = kind.api_version.rpartition("/")[0]
    return f"{kind.name}.{group}" if group else kind.name


def _key(value: Object) -> tuple[str, str, str]:
    group = value["apiVersion"].rpartition("/")[0]
    word = f"{value['kind']}.{group}" if group else value["kind"]
    return word, value["metadata"].get("namespace", ""), value["metadata"]["name"]


def _load(data: str | None) -> Any:
    return None if data is None else json.loads(data)
