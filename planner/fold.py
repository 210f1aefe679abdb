"""What a snapshot adds up to: which leases are open, what is settled, which reservations stand (section 6).

The ledger comes first: an entry counts from the moment it exists, whether or not its leases are written. Facts only;
headroom is `books`, free GPUs are `topology`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from planner.holds import FOREVER
from planner.model import (
    Entry,
    EntryKind,
    FundingClass,
    Lease,
    Payer,
    Reservation,
    ReservationState,
    Role,
    Run,
    Snapshot,
)

Attempt = tuple[str, str, str, int]  # namespace, name and uid of the run, attempt
Settlement = dict[tuple[Payer, FundingClass], int]


def open_leases(snapshot: Snapshot) -> dict[str, Lease]:
    """Leases not closed, plus what entries open and nobody wrote yet, less what entries close, by key."""
    entries = [entry for entry in snapshot.entries if not entry.void]
    closes = closed_keys(entries)
    # The key is spelled out where every lease of a fleet is asked for it: a property costs as much again.
    found = {f"{lease.namespace}/{lease.name}": lease for lease in snapshot.leases if not lease.closed}
    if entries:
        written = {lease.key for lease in snapshot.leases}
        for lease in opened_leases(entries):
            if lease.key not in written:
                found[lease.key] = lease
        for key in closes:
            found.pop(key, None)
    return found


def closed_keys(entries: Iterable[Entry]) -> set[str]:
    return {f"{closed.namespace}/{closed.lease}" for entry in entries for closed in entry.closes}


def opened_leases(entries: Iterable[Entry]) -> Iterable[Lease]:
    """The leases that entries open: each starts at the time of its entry, in the namespace of its run."""
    for entry in entries:
        run = entry.run
        if run is None:
            continue
        for opened in entry.opens:
            yield Lease(
                namespace=run.namespace,
                name=opened.lease,
                owner=opened.owner,
                run_name=run.name,
                run_uid=run.uid,
                attempt=run.attempt,
                pod=opened.pod,
                group=opened.group,
                node=opened.node,
                gpus=opened.gpus,
                role=opened.role,
                start_at=entry.time,
                payer=opened.payer,
                funding=opened.funding,
                reason=opened.reason,
            )


def settled(snapshot: Snapshot) -> Settlement:
    """GPU-seconds of ended leases by payer and class: the base and the closes after it, else the leases themselves."""
    sums: Counter[tuple[Payer, FundingClass]] = Counter()
    entries = [entry for entry in snapshot.entries if not entry.void]
    base = snapshot.base
    for row in base.settled if base else ():
        sums[row.payer, row.funding] += row.gpu_seconds
    for entry in entries:
        if base is None or entry.seq > base.seq:
            for closed in entry.closes:
                sums[closed.payer, closed.funding] += closed.gpu_seconds
    # Section 6: where nothing is settled yet, as in a snapshot without a Ledger, closed leases count themselves.
    if base is None or not (base.seq or base.settled):
        told = closed_keys(entries)
        for lease in snapshot.leases:
            if lease.closed and lease.end_at is not None and lease.key not in told:
                sums[lease.payer, lease.funding] += lease.gpus * max(0, lease.end_at - lease.start_at)
    return dict(sums)


def lease_number(name: str) -> int:
    """The entry that opened a lease, from `l-<seq>-<i>`; a name of another shape belongs to no entry kept."""
    parts = name.split("-")
    if len(parts) == 3 and parts[0] == "l" and parts[1].isdecimal() and parts[2].isdecimal():
        return int(parts[1])
    return 1 << 62


def first_starts(
    snapshot: Snapshot, leases: Mapping[str, Lease], attempts: Mapping[str, Attempt]
) -> dict[Attempt, int]:
    """C2: when each attempt that holds leases began: the start of its first Active lease, ended ones included."""
    starts: dict[Attempt, int] = {}
    for key, lease in leases.items():
        if lease.role is not Role.SPARE:
            attempt = attempts[key]
            if lease.start_at < starts.get(attempt, FOREVER):
                starts[attempt] = lease.start_at
    running = {uid for _, _, uid, _ in starts}
    none_closed = not snapshot.entries and len(leases) == len(snapshot.leases)
    for lease in () if none_closed else snapshot.leases:
        if lease.closed and lease.run_uid in running and lease.role is not Role.SPARE:
            attempt = attempt_of(lease)
            if lease.start_at < starts.get(attempt, lease.start_at):
                starts[attempt] = lease.start_at
    return starts


def by_run(leases: Iterable[Lease]) -> dict[str, list[Lease]]:
    """Leases by the key of their run."""
    found: dict[str, list[Lease]] = {}
    for lease in leases:
        key = f"{lease.namespace}/{lease.run_name}"
        if key in found:
            found[key].append(lease)
        else:
            found[key] = [lease]
    return found


def attempts(leases: Mapping[str, Lease]) -> dict[str, Attempt]:
    """The attempt that each lease belongs to."""
    return {key: (one.namespace, one.run_name, one.run_uid, one.attempt) for key, one in leases.items()}


def attempt_of(lease: Lease) -> Attempt:
    return lease.namespace, lease.run_name, lease.run_uid, lease.attempt


def same_run(run: Run | None, uid: str) -> bool:
    """Whether a run is the one that a lease or reservation means: a namesake made later is another run."""
    return run is not None and (not uid or not run.uid or run.uid == uid)


def standing_reservations(snapshot: Snapshot, runs: dict[str, Run], leases: Iterable[Lease]) -> tuple[Reservation, ...]:
    """F3: promises neither Released nor Canceled, whose run exists and has not started since, by key."""
    made_by_key = reservations_by_key(snapshot)
    begun = _last_starts(leases, {made.run_key for made in made_by_key.values()})
    found = []
    for _, made in sorted(made_by_key.items()):
        run = runs.get(made.run_key)
        if not made.open or run is None or run.canceled or not same_run(run, made.run_uid):
            continue
        if made.run_key in begun and begun[made.run_key] >= made.created_at:
            continue  # it has started: its leases speak for it
        found.append(made)
    return tuple(found)


def _last_starts(leases: Iterable[Lease], run_keys: set[str]) -> dict[str, int]:
    """When each of these runs last opened a lease that is open still."""
    begun: dict[str, int] = {}
    if run_keys:
        for lease in leases:
            key = lease.run_key
            if key in run_keys:
                begun[key] = max(begun.get(key, lease.start_at), lease.start_at)
    return begun


def reservations_by_key(snapshot: Snapshot) -> dict[str, Reservation]:
    """Reservation objects, overtaken by the Reserve and Cut entries that are newer than they are."""
    found = {made.key: made for made in snapshot.reservations}
    for entry in sorted(snapshot.entries, key=lambda entry: entry.seq):
        if not entry.void and entry.reserve is not None:
            found[entry.reserve.key] = _overtake(found.get(entry.reserve.key), entry, entry.reserve)
    return found


def _overtake(made: Reservation | None, entry: Entry, told: Reservation) -> Reservation:
    """6.9: a Cut's slice replaces the Reservation's; a Reserve counts until its object is there to speak for it."""
    if made is None or (entry.kind is EntryKind.RESERVE and made.created_at < entry.created_at and not made.open):
        state = ReservationState.BLOCKED if told.earliest_start is None else ReservationState.PENDING
        return replace(told, state=state, created_at=entry.created_at)
    if entry.kind is EntryKind.CUT or made.created_at < entry.created_at:
        return replace(made, gpus=told.gpus, groups=told.groups, payers=told.payers, earliest_start=told.earliest_start)
    return made
