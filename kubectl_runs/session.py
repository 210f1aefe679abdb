"""What a command works with: its store, namespace, clock and output, each made when it is first asked for.

Decides which store the flags name (a snapshot file, the sandbox or a cluster), whose clock counts, and how objects
are printed. Data goes to stdout; notes and hints go to stderr, hints only where a person reads them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from kubectl_runs import text
from kubectl_runs.errors import NotFoundError, RunsError, UsageError
from kubectl_runs.flags import DEFAULT_SANDBOX, Flags
from kubectl_runs.main import COLORS, FORMATS

if TYPE_CHECKING:
    from rich.console import Console

    from kubectl_runs.read import Reading
    from kubectl_runs.store.protocol import Object, Store
    from kubectl_runs.wire.kinds import Kind
    from planner.model import Snapshot

ENVIRONMENT = "KUBECTL_RUNS_SANDBOX"
READS_MAX = 3


class Session:
    """One invocation of one command."""

    def __init__(self, flags: Flags) -> None:
        self.flags = flags
        _check(flags)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        close = getattr(self.__dict__.get("store"), "close", None)
        if close is not None:
            close()

    # The world

    @cached_property
    def store(self) -> Store:
        """The file of `--from`, the sandbox, or the cluster of the kubeconfig: in this order."""
        if self.flags.source is not None:
            from kubectl_runs.store.snapshot import SnapshotStore

            return SnapshotStore.open(self.flags.source, now=self._given_now)
        if self.sandbox_file is not None:
            from kubectl_runs.store.sandbox import SandboxStore

            return SandboxStore.open(self.sandbox_file, user=self.flags.as_user or "")
        return _cluster(self.flags)

    @cached_property
    def sandbox_file(self) -> str | None:
        """The sandbox's file; None where none is wanted. A flag wins over the environment variable."""
        named = self.flags.sandbox
        if named is None and not (self.flags.context or self.flags.kubeconfig):
            named = os.environ.get(ENVIRONMENT) or None
        if named in (DEFAULT_SANDBOX, "1", "true"):
            return default_sandbox()
        return named

    @property
    def is_file(self) -> bool:
        """Whether the store is a snapshot file: nothing can be changed, and no namespace is current."""
        return self.flags.source is not None

    @cached_property
    def namespace(self) -> str:
        """`-n`, else the kubeconfig context's, else `default`."""
        return self.flags.namespace or str(getattr(self.store, "namespace", "") or "default")

    @property
    def scope(self) -> str:
        """The namespace to list, empty for all of them. A file has no current namespace: without `-n` it is all."""
        if self.flags.all_namespaces or (self.is_file and not self.flags.namespace):
            return ""
        return self.namespace

    @cached_property
    def now(self) -> int:
        """The server's time; of a file `--now`, else the time at which it was saved, else the clock."""
        return self.store.now()

    def snapshot(self, *, runs: Iterable[str] = ()) -> Snapshot:
        """The planner's input: all of a file, or a fresh read in the order of 6.1; `runs` are keys of those whose
        closed leases count too. From then on `now` is the server's time of that read."""
        if self.is_file:
            made: Snapshot = self.store.snapshot  # type: ignore[attr-defined]
            return made
        return self.reading(runs=runs).snapshot

    def reading(self, *, runs: Iterable[str] = ()) -> Reading:
        """A fresh read of a cluster or sandbox; bad objects are reported on stderr, and the rest goes on."""
        from kubectl_runs.commit.steps import drive
        from kubectl_runs.read import read

        named = tuple(runs)
        reading = drive(read(runs=named), self.store)
        for _ in range(READS_MAX):
            if not self._floor_passed(reading):
                break
            reading = drive(read(runs=named), self.store)
        self.__dict__["now"] = reading.now
        self.remark(reading)
        return reading

    def remark(self, reading: Reading) -> None:
        """What a reading could not see or not read: said once, on stderr."""
        for problem in reading.problems:
            self.note(f"warning: {problem}")
        if not reading.snapshot.pods_visible:
            self.note("warning: foreign pods not visible; no plan is exact")

    def _floor_passed(self, reading: Reading) -> bool:
        """6.1: commands that only print read `base` once more, and start over if entries may have gone meanwhile."""
        from kubectl_runs.store.protocol import Get, NotFound
        from kubectl_runs.wire import decode
        from kubectl_runs.wire.kinds import LEDGER

        if reading.base_object is None:
            return False
        try:
            base = self.store.perform(Get(kind=LEDGER, name="base")).object
        except NotFound:
            return True
        return decode.ledger(base).floor > reading.base.seq

    @property
    def _given_now(self) -> int | None:
        return None if self.flags.now is None else instant(self.flags.now, "--now")

    def key(self, name: str) -> tuple[str, str]:
        """Namespace and name of what was named: `name`, `namespace/name`, or `kind/name` as `-o name` prints it."""
        head, _, tail = name.rpartition("/")
        if not head or head.split(".")[0] in ("run", "lease", "reservation"):
            return self.namespace, tail
        return head, tail

    def find(self, kind: Kind, name: str) -> Object:
        """The object named; in a file without `-n` it may be in any namespace, if only one has that name."""
        from kubectl_runs.store.protocol import NO_SUCH_KIND, Get, List, NotFound

        namespace, bare = self.key(name)
        try:
            return self.store.perform(Get(kind=kind, name=bare, namespace=namespace)).object
        except NotFound as missing:
            if missing.message == NO_SUCH_KIND:
                raise
        elsewhere = []
        if self.is_file and not self.flags.namespace and namespace == self.namespace:
            everything = self.store.perform(List(kind=kind)).items
            elsewhere = [item for item in everything if item["metadata"]["name"] == bare]
        if len(elsewhere) == 1:
            return elsewhere[0]
        where = f" in {self.store.name}" if self.is_file else f" in namespace {namespace}" if kind.namespaced else ""
        also = ", ".join(sorted(f"{item['metadata']['namespace']}/{bare}" for item in elsewhere))
        raise NotFoundError(
            f"{kind.name.lower()} {bare} not found{where}" + (f" (there are: {also})" if also else ""),
            hint=f"kubectl runs {'leases' if kind.name == 'Lease' else 'list'} -A",
        )

    # Output

    @property
    def format(self) -> str:
        """table, wide, json, yaml or name."""
        return self.flags.output

    @property
    def verbose(self) -> int:
        return self.flags.verbose

    @property
    def is_terminal(self) -> bool:
        """Whether a person reads stdout: only then is there colour, rich and anything live."""
        return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"

    @property
    def color(self) -> bool:
        """`--color`, else NO_COLOR (if not empty), else FORCE_COLOR, else whether stdout is a terminal."""
        if self.flags.color != "auto":
            return self.flags.color == "always"
        if os.environ.get("NO_COLOR"):
            return False
        return bool(os.environ.get("FORCE_COLOR")) or self.is_terminal

    @cached_property
    def console(self) -> Console:
        """A rich console on stdout, for what is live or styled on a terminal."""
        return text.console(sys.stdout, color=self.color)

    def out(self, lines: str) -> None:
        """Data, as it stands; the caller has cleaned what came from a server."""
        sys.stdout.write(lines if lines.endswith("\n") or not lines else lines + "\n")

    def screen(self, lines: str) -> None:
        """A screen for people, in colour where that is wanted."""
        self.out(text.colored(lines) if self.color else lines)

    def note(self, line: str) -> None:
        """A remark for people, on stderr."""
        sys.stdout.flush()
        sys.stderr.write(text.clean_lines(line) + "\n")

    def hint(self, line: str) -> None:
        """What to type next: on stderr, only on a terminal, and not with `--no-hints`."""
        if sys.stderr.isatty() and not self.flags.no_hints:
            self.note(f"hint: {line}")

    @property
    def is_interactive(self) -> bool:
        """Whether somebody is there to answer a question."""
        return sys.stdin.isatty() and sys.stderr.isatty()

    def confirm(self, question: str) -> bool:
        """Asks on a terminal; in a script the command line itself is the answer."""
        if not self.is_interactive:
            return True
        sys.stdout.flush()
        sys.stderr.write(f"{text.clean(question)} [y/N] ")
        sys.stderr.flush()
        return sys.stdin.readline().strip().lower() in ("y", "yes")

    def json(self, value: Any) -> None:
        """JSON that is safe on a terminal too: everything but plain ASCII is escaped, nothing is lost."""
        import json

        self.out(json.dumps(value, indent=1))

    def yaml(self, value: Any) -> None:
        import yaml

        dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
        self.out(yaml.dump(value, Dumper=dumper, sort_keys=False, allow_unicode=False))

    def data(self, value: Any) -> bool:
        """Prints the value if `-o` asks for json or yaml; whether it did."""
        if self.format not in ("json", "yaml"):
            return False
        (self.json if self.format == "json" else self.yaml)(value)
        return True

    def objects(self, kind: Kind, items: Sequence[Object], *, one: bool = False) -> bool:
        """Prints Kubernetes objects if `-o` asks for json, yaml or name; whether it did. Several make a List."""
        if self.format == "name":
            group = kind.api_version.partition("/")[0] if "/" in kind.api_version else ""
            prefix = ".".join(filter(None, (kind.name.lower(), group)))
            self.out("".join(f"{prefix}/{text.clean(item['metadata']['name'])}\n" for item in items))
            return True
        shown = [_without_managed_fields(item) for item in items]
        if one and len(shown) == 1:
            return self.data(shown[0])
        return self.data({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": shown})

    def table(self, header: Sequence[str], rows: Iterable[Sequence[object]], *, right: Iterable[int] = ()) -> None:
        """A plain table; with no rows kubectl's sentence on stderr."""
        body = list(rows)
        if not body:
            where = f" in {self.scope} namespace" if self.scope else ""
            return self.note(f"No resources found{where}.")
        return self.screen(text.table([header, *body], right=right))


def _without_managed_fields(item: Object) -> Object:
    """Bookkeeping of the server's that kubectl does not show either."""
    metadata = {key: value for key, value in item["metadata"].items() if key != "managedFields"}
    return {**item, "metadata": metadata}


def instant(word: str, flag: str) -> int:
    """A time that a flag was given."""
    from kubectl_runs.wire import times

    try:
        return times.instant(word)
    except ValueError as error:
        raise UsageError(f"{flag}: {error}") from None


def seconds(word: str, flag: str) -> int:
    """A span that a flag was given."""
    from kubectl_runs.wire import times

    try:
        return times.duration(word)
    except ValueError as error:
        raise UsageError(f"{flag}: {error}") from None


def _check(flags: Flags) -> None:
    if flags.output not in FORMATS:
        raise UsageError(f"unknown output format {flags.output!r}, allowed are: {', '.join(FORMATS)}")
    if flags.color not in COLORS:
        raise UsageError(f"unknown colour {flags.color!r}, allowed are: {', '.join(COLORS)}")
    if flags.source is not None and flags.sandbox is not None:
        raise UsageError("--from and --sandbox exclude each other")
    if flags.now is not None and flags.source is None:
        raise UsageError("--now needs --from: a cluster and a sandbox have a clock of their own")


def _cluster(flags: Flags) -> Store:
    from kubectl_runs.store.cluster import ClusterStore
    from kubectl_runs.store.kubeconfig import Choice, resolve

    choice = Choice(
        kubeconfig=flags.kubeconfig or "",
        context=flags.context or "",
        as_user=flags.as_user or "",
        as_groups=flags.as_groups,
    )
    given = flags.request_timeout or "0"
    # As kubectl: a bare number is seconds, 0 means the client's own patience.
    timeout = int(given) if given.isdecimal() else seconds(given, "--request-timeout")
    return ClusterStore(resolve(choice), request_timeout=timeout)


def default_sandbox() -> str:
    home = os.environ.get("XDG_DATA_HOME")
    folder = (Path(home) if home else Path.home() / ".local" / "share") / "kubectl-runs"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunsError(f"cannot make {folder}: {error.strerror}", hint="--sandbox=FILE") from None
    return str(folder / "sandbox.db")
