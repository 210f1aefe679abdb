"""Do leases and entries tell one story: every lease attested, closed ones unchanged, no GPU-second lost or made."""

from __future__ import annotations

from collections import defaultdict

from planner.audit_history import (
    Check,
    Closing,
    Evidence,
    Findings,
    History,
    PayerClass,
    Resolution,
    Result,
    is_closure,
)
from planner.audit_ledger import reserving_entry
from planner.fold import lease_number, settled
from planner.model import EntryKind, Lease, Reservation

# What an entry freezes of a lease: every field that says who held what, where and at whose expense.
_FROZEN = (
    "owner",
    "run_name",
    "run_uid",
    "attempt",
    "pod",
    "group",
    "node",
    "gpus",
    "role",
    "start_at",
    "payer",
    "funding",
    "reason",
)

_TOLD = ("seed", "tokens", "picks")  # of a draw, in the status of a reservation


def objects(history: History) -> Result:
    """Every object of ours can be read: what cannot be counts as held, and nobody knows by whom (section 8)."""
    found = Findings(Check.OBJECTS)
    for problem in sorted(history.evidence.unreadable):
        found.error(problem.partition(":")[0], problem.partition(": ")[2] or problem)
    snapshot = history.snapshot
    read = (snapshot.budgets, snapshot.runs, snapshot.leases, snapshot.reservations, snapshot.entries)
    return found.result(sum(map(len, read)) + len(history.evidence.unreadable))


def attested(history: History) -> Result:
    """Each lease and reservation is named by an entry that is kept, and says what that entry says (section 6)."""
    found = Findings(Check.ATTESTED)
    for key, lease in history.leases.items():
        opening = history.opened.get(key)
        if opening is None:
            _unattested(history, lease, found)
        else:
            for name in _FROZEN:
                said, should = getattr(lease, name), getattr(opening.lease, name)
                if said != should:
                    found.error(
                        f"lease/{key}", f"{name} is {_word(said)}, entry {opening.entry.seq} says {_word(should)}"
                    )
    for reservation in sorted(history.snapshot.reservations, key=lambda one: one.key):
        _reservation(history, reservation, found)
        told = history.evidence.resolutions.get(reservation.key)
        if told is not None:
            _resolution(history, reservation, told, found)
    return found.result(len(history.leases) + len(history.snapshot.reservations))


def _unattested(history: History, lease: Lease, found: Findings) -> None:
    number = lease_number(lease.name)
    floor = history.base.floor
    if number <= floor and number not in history.by_seq:
        found.info(f"lease/{lease.key}", f"unattested: entry {number} is archived below floor {floor}")
    else:
        found.error(f"lease/{lease.key}", "unattested: no entry opens it; it counts as held")


def _reservation(history: History, reservation: Reservation, found: Findings) -> None:
    subject = f"reservation/{reservation.key}"
    entry = reserving_entry(history, reservation.key, reservation.run_uid)
    if entry is None or entry.reserve is None:
        # The floor stays below every open Reserve (6.8), so only a promise that is over may have outlived its entry.
        if history.base.floor and not reservation.open:
            found.info(subject, f"unattested: its entry is archived below floor {history.base.floor}")
        else:
            found.error(subject, "unattested: no entry makes this promise")
        return
    named = [one for one in history.counting if one.reservation and one.reservation.key == reservation.key]
    for one in named:
        if one.reservation and one.reservation.uid != reservation.uid and one.seq >= entry.seq:
            found.error(subject, f"its uid is {reservation.uid}, entry {one.seq} names {one.reservation.uid}")
    if not history.finished(entry.seq):
        return  # its newest slice may not have been written yet
    for name in ("run_name", "gpus", "groups", "payers", "earliest_start"):
        if getattr(reservation, name) != getattr(entry.reserve, name):
            found.error(subject, f"{name} is not what entry {entry.seq} promised")


def _resolution(history: History, reservation: Reservation, told: Resolution, found: Findings) -> None:
    """What a reservation's status says of its draw is what its Cut recorded (R4)."""
    subject = f"reservation/{reservation.key}"
    if told.entry is not None and told.entry <= history.base.floor and told.entry not in history.by_seq:
        return  # archived
    cuts = [one for one in history.counting if one.kind is EntryKind.CUT and one.reservation]
    mine = [one for one in cuts if one.reservation and one.reservation.key == reservation.key]
    named = [one for one in mine if told.entry in (None, one.seq, one.draw.freeze if one.draw else 0)]
    if not named:
        found.error(subject, f"its resolution names entry {told.entry or 'none'}, which is no cut for it")
        return
    cut = named[-1]
    draw = cut.draw
    source = history.by_seq.get(draw.freeze) if draw else None
    recorded = Resolution(
        seed=draw.seed if draw else "",
        tokens=source.freeze.tokens if source is not None and source.freeze is not None else None,
        picks=draw.picks if draw else (),
    )
    for name in _TOLD:
        said, should = getattr(told, name), getattr(recorded, name)
        if said is not None and should is not None and said != should:
            found.error(subject, f"its resolution differs in {name} from what entry {cut.seq} recorded")


def closed_leases(history: History) -> Result:
    """A closed lease never changes: its end, reason and spec are those of the entry that closed it."""
    found = Findings(Check.CLOSED_LEASES)
    for key, lease in history.leases.items():
        closing = history.closed.get(key)
        if lease.closed:
            _closed(history, lease, closing, found)
        elif closing is not None and history.finished(closing.entry.seq):
            found.error(f"lease/{key}", f"is open, but entry {closing.entry.seq} closed it")
        elif lease.end_at is not None or lease.closure is not None:
            found.error(f"lease/{key}", "has an end or a closing reason, but is not closed")
    return found.result(sum(1 for lease in history.leases.values() if lease.closed))


def _closed(history: History, lease: Lease, closing: Closing | None, found: Findings) -> None:
    subject = f"lease/{lease.key}"
    if lease.end_at is None or lease.closure is None:
        found.error(subject, "is closed without an end or a reason")
        return
    if lease.end_at < lease.start_at:
        found.error(subject, "ends before it starts")
    if not is_closure(lease.closure):
        found.error(subject, f"closing reason {lease.closure} is none of the design's")
    if closing is None:
        number = lease_number(lease.name)
        if number > history.base.floor:
            found.error(subject, "is closed, but no entry closes it")
        return
    _as_closed(history.evidence, lease, closing, found)


def _as_closed(evidence: Evidence, lease: Lease, closing: Closing, found: Findings) -> None:
    subject, entry, closed = f"lease/{lease.key}", closing.entry, closing.closed
    if lease.end_at != closed.at:
        found.error(subject, f"its end is not the one entry {entry.seq} recorded")
    if lease.closure != closed.reason:
        found.error(subject, f"closing reason is {lease.closure}, entry {entry.seq} recorded {closed.reason}")
    digest = evidence.lease_specs.get(lease.key)
    if digest is not None and digest != closed.spec:
        found.error(subject, f"its spec is not the one entry {entry.seq} closed: the digests differ")


def conservation(history: History) -> Result:
    """GPU-seconds by payer sum to GPU-seconds by lease; a payer's sum is exact unless leases were archived."""
    found = Findings(Check.CONSERVATION)
    by_payer = defaultdict(int, settled(history.snapshot))
    by_lease: dict[PayerClass, int] = defaultdict(int)
    for key in sorted({*history.leases, *history.closed}):
        lease = history.fact(key)
        if lease is not None and not history.is_open(key):
            by_lease[lease.payer, lease.funding] += _used(history, lease)
    archived = history.base.floor > 0
    for payer, funding in sorted({*by_payer, *by_lease}):
        ledger, leases = by_payer[payer, funding], by_lease[payer, funding]
        if ledger < leases or (ledger > leases and not archived):
            found.error(
                f"budget/{payer.budget}",
                f"envelope {payer.envelope} {funding}: the ledger settled {ledger} GPU-seconds, leases used {leases}",
            )
    return found.result(len({*by_payer, *by_lease}))


def _used(history: History, lease: Lease) -> int:
    if lease.end_at is not None:
        return lease.gpus * max(0, lease.end_at - lease.start_at)
    closing = history.closed.get(lease.key)
    return lease.gpus * max(0, closing.closed.at - lease.start_at) if closing else 0


def _word(value: object) -> str:
    name = getattr(value, "name", None)
    return str(name) if isinstance(name, str) and not isinstance(value, str) else str(value)
