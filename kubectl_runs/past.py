"""Leases as history: all that are kept, page by page, with what the newest entries say and nobody has written yet.

Decides how the past is read; what it adds up to is `planner.usage`. Order as in 6.1: `base` and the entries after it
first, then the leases. Pages are folded as they arrive, so that 100,000 leases never stand in memory together, and the
next page is on its way while one is folded.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from kubectl_runs.commit.steps import drive
from kubectl_runs.errors import RunsError, WireError
from kubectl_runs.read import read_ledger
from kubectl_runs.store.protocol import Forbidden, Gone, Invalid, List, Object, Reply, Store, StoreError
from kubectl_runs.wire import decode, encode, times
from kubectl_runs.wire.kinds import LEASE, NAMESPACE
from planner.fold import opened_leases
from planner.model import Closed, Entry, FundingClass, Lease, LedgerBase, Payer, Role

if TYPE_CHECKING:
    from kubectl_runs.session import Session

T = TypeVar("T")
F = TypeVar("F")
Fact = tuple[Object, Lease]

LISTS_MAX = 3  # a list whose pages expire is begun again this often
PAGES_AHEAD = 2
COLUMNS = ("Name", "Run", "Node", "GPUs", "Role", "Budget", "Envelope", "Class", "Start", "End", "Reason", "Owner")


class Past:
    """The leases that a namespace and any of some field selectors find, as they stand after the newest entry."""

    def __init__(self, session: Session) -> None:
        self._store, self._note = session.store, session.note
        self._begin(*drive(read_ledger(), session.store))

    def _begin(self, base: LedgerBase, entries: tuple[Entry, ...]) -> None:
        self.base = base
        self.entries: tuple[Entry, ...] = tuple(entry for entry in entries if not entry.void)
        self._closes = {
            f"{closed.namespace}/{closed.lease}": closed for entry in self.entries for closed in entry.closes
        }
        self._opened: dict[str, Fact] = {}
        for entry in self.entries:
            for lease, opened in zip(opened_leases((entry,)), entry.opens, strict=False):
                self._opened[lease.key] = (encode.lease_object(entry, opened), lease)

    def fold(
        self,
        start: Callable[[], T],
        add: Callable[[T, Object, Lease], None],
        *,
        namespace: str = "",
        fields: Sequence[str] = ("",),
    ) -> T:
        """Every lease, with its object, added to what `start` makes."""
        requests = [List(kind=LEASE, namespace=namespace, fields=selector) for selector in fields]
        return self._complete(start, lambda made, fact: add(made, *fact), lambda: self._facts(requests))

    def uses(
        self,
        start: Callable[[], T],
        add: Callable[[T, Lease], None],
        *,
        namespace: str = "",
        fields: Sequence[str] = ("",),
    ) -> T:
        """The same for who needs only what a bill needs; from a server's table, where it has one, ten times cheaper."""
        if hasattr(self._store, "rows"):
            try:
                requests = [
                    List(kind=LEASE, namespace=each, fields=selector)
                    for each in ([namespace] if namespace else self._namespaces())
                    for selector in fields
                ]
                return self._complete(start, add, lambda: self._cells(requests))
            except (Invalid, Forbidden):
                pass  # no such columns, or namespaces may not be listed: then from the objects
        return self.fold(start, lambda made, _, lease: add(made, lease), namespace=namespace, fields=fields)

    def _complete(self, start: Callable[[], T], add: Callable[[T, F], None], read: Callable[[], Iterator[F]]) -> T:
        """Begun again if the server has forgotten the pages' version, or if what was read first may be archived."""
        for attempt in range(1, LISTS_MAX + 1):
            made = start()
            try:
                for fact in read():
                    add(made, fact)
                if not self._overtaken():
                    return made
            except Gone:
                if attempt == LISTS_MAX:
                    raise
        raise RunsError("the ledger was archived while it was read, again and again; try once more")

    def _overtaken(self) -> bool:
        """6.1: whether `floor` has passed where the reading began, so that leases may be gone unseen; begin again."""
        base, entries = drive(read_ledger(), self._store)
        if base.floor <= self.base.seq:
            return False
        self._begin(base, entries)
        return True

    def found(self, wanted: Callable[[Lease], bool], *, namespace: str = "", fields: str = "") -> list[Fact]:
        """The leases that are wanted, oldest first."""

        def keep(kept: list[Fact], obj: Object, lease: Lease) -> None:
            if wanted(lease):
                kept.append((obj, lease))

        facts: list[Fact] = self.fold(list, keep, namespace=namespace, fields=(fields,))
        return sorted(facts, key=lambda fact: (fact[1].start_at, fact[1].key))

    def _facts(self, requests: Sequence[List]) -> Iterator[Fact]:
        """Written leases, then those that only entries tell of; those come from every selector, `add` tells apart."""
        unwritten, count = dict(self._opened), 0
        for page in _ahead(page for request in requests for page in pages(self._store, request)):
            count += len(page)
            _progress(f"read {count:,} leases")
            for obj in page:
                lease = self._read(obj)
                if lease is None:
                    continue
                if unwritten:
                    unwritten.pop(lease.key, None)
                yield self._as_closed(obj, lease)
        _progress("")
        for obj, lease in unwritten.values():
            if requests and requests[0].namespace in ("", lease.namespace):
                yield self._as_closed(obj, lease)

    def _namespaces(self) -> list[str]:
        """A table tells no namespaces, so it is asked for one after another; leases are gone with theirs."""
        return sorted(item["metadata"]["name"] for item in self._store.perform(List(kind=NAMESPACE)).items)

    def _cells(self, requests: Sequence[List]) -> Iterator[Lease]:
        """Leases from cells: all that a bill needs, and nothing of pods, groups and UIDs."""
        unwritten, count = dict(self._opened), 0
        rows: Callable[[List, Sequence[str]], Iterator[list[list[Any]]]] = self._store.rows  # type: ignore[attr-defined]
        pages = ((request.namespace, page) for request in requests for page in rows(request, COLUMNS))
        for namespace, page in _ahead(pages):
            count += len(page)
            _progress(f"read {count:,} leases")
            for cells in page:
                lease = lease_of_cells(namespace, cells)
                if unwritten:
                    unwritten.pop(lease.key, None)
                closed = self._closes.get(lease.key) if self._closes else None
                yield lease if closed is None or lease.closed else _closed(lease, closed)
        _progress("")
        asked = {request.namespace for request in requests}
        yield from (self._as_closed(*fact)[1] for fact in unwritten.values() if fact[1].namespace in asked)

    def _read(self, obj: Object) -> Lease | None:
        """A lease; one that cannot be read is reported, and the rest goes on (section 8)."""
        try:
            return decode.lease(obj)
        except WireError as wrong:
            self._note(f"warning: not counted: {wrong.message}")
            return None

    def _as_closed(self, obj: Object, lease: Lease) -> Fact:
        """A lease that an entry has closed is closed, whether or not somebody has written it (6.5)."""
        closed = self._closes.get(lease.key) if self._closes else None
        if closed is None or lease.closed:
            return obj, lease
        return {**obj, **encode.lease_closing(closed)}, _closed(lease, closed)


def pages(store: Store, request: List) -> Iterator[Sequence[Object]]:
    """Page by page where the store has pages, else all at once."""
    paged: Callable[[List], Iterator[Reply]] | None = getattr(store, "pages", None)
    if paged is None:
        yield store.perform(request).items
        return
    for reply in paged(request):
        yield reply.items


def lease_of_cells(namespace: str, cells: Sequence[Any]) -> Lease:
    """A lease as far as the columns tell."""
    name, run, node, gpus, role, budget, envelope, funding, start, end, closure, owner = cells
    return Lease(
        namespace=namespace,
        name=name,
        owner=owner,
        run_name=run,
        run_uid="",
        group=0,
        node=node,
        gpus=gpus,
        role=_ROLES[role],
        start_at=_instant(start),
        payer=_payer(budget, envelope),
        funding=_CLASSES[funding],
        closed=end is not None,
        end_at=None if end is None else _instant(end),
        closure=closure,
    )


# The same few texts come again and again: of 100,000 leases each is read once.
_instant = lru_cache(maxsize=1 << 16)(times.instant)
_payer = lru_cache(maxsize=1 << 12)(Payer)
_ROLES = {role.value: role for role in Role}
_CLASSES = {funding.value: funding for funding in FundingClass}


def _ahead(source: Iterator[F]) -> Iterator[F]:
    """The same pages, read by a thread of their own, a little ahead of whoever folds them."""
    import queue
    import threading

    ready: queue.Queue[F | StoreError | None] = queue.Queue(PAGES_AHEAD)

    def read() -> None:
        try:
            for page in source:
                ready.put(page)
            ready.put(None)
        except StoreError as error:
            ready.put(error)

    threading.Thread(target=read, daemon=True).start()
    while (page := ready.get()) is not None:
        if isinstance(page, StoreError):
            raise page
        yield page


def _closed(lease: Lease, closed: Closed) -> Lease:
    return replace(lease, closed=True, end_at=closed.at, closure=closed.reason)


def _progress(line: str) -> None:
    """How far the reading is, for whoever watches it."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{line}\x1b[K")
        sys.stderr.flush()
