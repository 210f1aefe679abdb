"""Leases as history: all that are kept, page by page, with what the newest entries say and nobody has written yet.

Decides how the past is read; what it adds up to is `planner.usage`. Order as in 6.1: `base` and the entries after it
first, then the leases. Pages are handed on as they arrive, so that 100,000 leases never stand in memory together.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from kubectl_runs.commit.steps import drive
from kubectl_runs.read import read_ledger
from kubectl_runs.store.protocol import Gone, List, Object
from kubectl_runs.wire import decode, encode
from kubectl_runs.wire.kinds import LEASE
from planner.fold import opened_leases
from planner.model import Closed, Lease

if TYPE_CHECKING:
    from kubectl_runs.session import Session

T = TypeVar("T")
Fact = tuple[Object, Lease]

LISTS_MAX = 3  # a list whose pages expire is begun again this often
PROGRESS_STEP = 10_000  # leases


class Past:
    """The leases that a namespace and a field selector find, as they stand after the newest entry."""

    def __init__(self, session: Session, *, namespace: str = "", fields: str = "") -> None:
        self._session = session
        self._request = List(kind=LEASE, namespace=namespace, fields=fields)
        self.base, entries = drive(read_ledger(), session.store)
        counting = [entry for entry in entries if not entry.void]
        self._closes = {f"{closed.namespace}/{closed.lease}": closed for entry in counting for closed in entry.closes}
        self._opened: dict[str, Fact] = {}
        for entry in counting:
            for lease, opened in zip(opened_leases((entry,)), entry.opens, strict=False):
                self._opened[lease.key] = (encode.lease_object(entry, opened), lease)

    def fold(self, start: Callable[[], T], add: Callable[[T, Object, Lease], None]) -> T:
        """Every lease added to what `start` makes; begun again if the server has forgotten the pages' version."""
        for attempt in range(1, LISTS_MAX + 1):
            made = start()
            try:
                for obj, lease in self._facts():
                    add(made, obj, lease)
                _progress("")
                return made
            except Gone:
                if attempt == LISTS_MAX:
                    raise
        raise AssertionError("unreachable")

    def found(self, wanted: Callable[[Lease], bool]) -> list[Fact]:
        """The leases that are wanted, oldest first."""

        def keep(kept: list[Fact], obj: Object, lease: Lease) -> None:
            if wanted(lease):
                kept.append((obj, lease))

        facts: list[Fact] = self.fold(list, keep)
        return sorted(facts, key=lambda fact: (fact[1].start_at, fact[1].key))

    def _facts(self) -> Iterator[Fact]:
        unwritten = dict(self._opened)
        for count, obj in enumerate(self._objects(), start=1):
            if count % PROGRESS_STEP == 0:
                _progress(f"read {count:,} leases")
            lease = decode.lease(obj)
            unwritten.pop(lease.key, None)
            yield self._as_closed(obj, lease)
        for obj, lease in unwritten.values():
            if self._request.namespace in ("", lease.namespace):
                yield self._as_closed(obj, lease)

    def _objects(self) -> Iterator[Object]:
        """Page by page where the store has pages."""
        pages = getattr(self._session.store, "pages", None)
        if pages is None:
            yield from self._session.store.perform(self._request).items
            return
        for page in pages(self._request):
            yield from page

    def _as_closed(self, obj: Object, lease: Lease) -> Fact:
        """A lease that an entry has closed is closed, whether or not somebody has written it (6.5)."""
        closed = self._closes.get(lease.key)
        if closed is None or lease.closed:
            return obj, lease
        return {**obj, **encode.lease_closing(closed)}, _closed(lease, closed)


def _closed(lease: Lease, closed: Closed) -> Lease:
    return replace(lease, closed=True, end_at=closed.at, closure=closed.reason)


def _progress(line: str) -> None:
    """How far the reading is, for whoever watches it."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{line}\x1b[K")
        sys.stderr.flush()
