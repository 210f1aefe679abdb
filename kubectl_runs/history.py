"""What the ledger and the leases tell about one run, reservation or lease: the facts that `explain` prints.

Nothing is decided again here: every reason was recorded when the decision was made. History outlives its Run, so a
run may also be named that is gone, as long as leases or entries of it are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kubectl_runs.errors import NotFoundError
from kubectl_runs.store.protocol import Get, List, NotFound, Reply
from kubectl_runs.wire import decode
from kubectl_runs.wire.kinds import LEASE, LEDGER_ENTRY, RESERVATION, RUN, Kind
from planner.model import Entry, Lease, Reservation

if TYPE_CHECKING:
    from kubectl_runs.session import Session

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """One run and everything kept about it, oldest first."""

    key: str  # of the run
    run: Json | None  # None: the Run is gone
    reservation: Reservation | None
    leases: tuple[Lease, ...]
    entries: tuple[Entry, ...]  # that are about it, or end its leases
    about: Lease | None = None  # the lease that was asked about
    remedies: tuple[Json, ...] = ()  # what would have helped, as its reservation keeps it
    others: tuple[Entry, ...] = ()  # all that are kept: a Cut of one run names the winner of another

    @property
    def held(self) -> tuple[Lease, ...]:
        return tuple(lease for lease in self.leases if not lease.closed)


def gather(session: Session, name: str) -> History:
    """The history of what was named: a run, else a reservation, else a lease; `lease/NAME` says which is meant."""
    run, reservation, lease = _objects(session, name)
    namespace, bare = session.key(name)
    if lease is not None:
        namespace, bare = lease.namespace, lease.run_name
    elif run is not None or reservation is not None:
        found = (run or reservation or {})["metadata"]
        namespace = found["namespace"]
        bare = found["name"] if run is not None else (reservation or {})["spec"]["runRef"]["name"]
    if run is None:
        run = _get(session, RUN, namespace, bare)
    reservation = reservation or _get(session, RESERVATION, namespace, bare)
    return _history(session, f"{namespace}/{bare}", run, reservation, lease)


def _objects(session: Session, name: str) -> tuple[Json | None, Json | None, Lease | None]:
    wanted = name.partition("/")[0].split(".")[0]
    kinds = {"run": (RUN,), "reservation": (RESERVATION,), "lease": (LEASE,)}.get(wanted, (RUN, RESERVATION, LEASE))
    found: dict[Kind, Json] = {}
    for kind in kinds:
        try:
            found[kind] = session.find(kind, name)
            break
        except NotFoundError:
            continue
    lease = found.get(LEASE)
    return found.get(RUN), found.get(RESERVATION), decode.lease(lease) if lease else None


def _get(session: Session, kind: Kind, namespace: str, name: str) -> Json | None:
    try:
        return session.store.perform(Get(kind=kind, name=name, namespace=namespace)).object
    except NotFound:
        return None


def _history(session: Session, key: str, run: Json | None, promise: Json | None, about: Lease | None) -> History:
    namespace, _, name = key.partition("/")
    requests = (
        List(kind=LEASE, namespace=namespace, fields=f"spec.runRef.name={name}"),
        List(kind=LEDGER_ENTRY),
    )
    leases, entries = (_items(outcome) for outcome in session.store.perform_all(requests))
    kept = linked(decode.entry(obj) for obj in entries)
    own = sorted(decode.leniently(decode.lease, leases), key=lambda lease: (lease.start_at, lease.name))
    touching = tuple(entry for entry in kept if concerns(entry, key, {lease.key for lease in own}))
    if run is None and not own and not touching and promise is None:
        raise NotFoundError(
            f"no run, reservation or lease {name} in namespace {namespace}", hint="kubectl runs list -A"
        )
    return History(
        key=key,
        run=run,
        reservation=decode.reservation(promise) if promise else None,
        leases=tuple(own),
        entries=touching,
        about=about,
        remedies=_remedies(promise),
        others=kept,
    )


def _remedies(promise: Json | None) -> tuple[Json, ...]:
    """Status is read leniently: what is no remedy is passed over."""
    forecast = ((promise or {}).get("status") or {}).get("forecast") or {}
    found = forecast.get("remedies") if isinstance(forecast, dict) else None
    return tuple(part for part in found or () if isinstance(part, dict) and part.get("message"))


def _items(outcome: Any) -> Sequence[Json]:
    if not isinstance(outcome, Reply):
        raise outcome
    return outcome.items


def linked(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """Entries in order with their times; one that does not follow the one before it is void (6.1)."""
    ordered = sorted(entries, key=lambda entry: entry.seq)
    made: list[Entry] = []
    for entry in ordered:
        before = made[-1] if made else None
        if before is None or before.seq != entry.seq - 1:
            made.append(entry)
            continue
        void = entry.void or ("" if entry.prev == before.digest else f"prev is not the digest of entry {before.seq}")
        made.append(replace(entry, time=max(entry.time, before.time), void=void))
    return tuple(made)


def concerns(entry: Entry, key: str, leases: set[str]) -> bool:
    """Whether an entry is about a run, or ends or closes one of its leases."""
    if entry.run is not None and entry.run.key == key:
        return True
    ended = (f"{part.namespace}/{part.lease}" for part in entry.ends)
    closed = (f"{part.namespace}/{part.lease}" for part in entry.closes)
    return any(name in leases for name in (*ended, *closed))
