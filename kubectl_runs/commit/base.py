"""Moving `base` behind entries whose effects are known, so that reading stays short however long the history (6.8).

Each entry's effect on `base` follows from the entry alone (number, digest, time, settled sums), so all writers agree;
only whether an entry is finished is observed, and what is not known to be finished stays in `pending`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from kubectl_runs.commit.roll_forward import Rolled, ended_keys, still_open
from kubectl_runs.commit.steps import Steps, all_of
from kubectl_runs.read import Reading
from kubectl_runs.store.protocol import Replace, Request
from kubectl_runs.wire import encode
from kubectl_runs.wire.kinds import LEASE, LEDGER, POD, RESERVATION, RUN
from planner.fold import open_leases
from planner.model import Entry, FundingClass, LedgerBase, Payer, Settled

PENDING_MAX = 64
MOVE_MAX = 64  # a policy holds it: base moves by at most 64 a write (section 7)


def advance(reading: Reading, rolled: Mapping[int, Rolled]) -> Steps[None]:
    """6.8: by compare-and-swap. Losing is no harm: somebody else moved it, or somebody later will."""
    yield from all_of(base_writes(reading, rolled))


def base_writes(reading: Reading, rolled: Mapping[int, Rolled]) -> list[Request]:
    """The write that moves base, if there is anything to move it for."""
    if reading.base_object is None:
        return []
    moved = moved_base(reading, rolled)
    if moved == reading.base:
        return []
    topology = reading.base_object["spec"].get("topology") or {}
    return [Replace(kind=LEDGER, object={**reading.base_object, "spec": encode.base_spec(moved, topology)})]


def moved_base(reading: Reading, rolled: Mapping[int, Rolled]) -> LedgerBase:
    """Where `base` may stand by what this command has read and written."""
    base = reading.base
    known = {entry.seq: entry for entry in reading.snapshot.entries}
    pending = [seq for seq in base.pending if seq in known and is_unfinished(known[seq], reading, rolled)]
    sums = Counter({(row.payer, row.funding): row.gpu_seconds for row in base.settled})
    for seq in range(base.seq + 1, min(reading.tip.seq, base.seq + MOVE_MAX) + 1):
        entry = known[seq]
        unfinished = is_unfinished(entry, reading, rolled)
        if unfinished and len(pending) >= PENDING_MAX:
            break  # 6.8: at most 64, then base waits
        pending += [seq] if unfinished else []
        _settle(sums, entry)
        base = replace(base, seq=seq, digest=entry.digest, time=entry.time)
    return replace(base, pending=tuple(pending), settled=_rows(sums))


def _settle(sums: Counter[tuple[Payer, FundingClass]], entry: Entry) -> None:
    """GPU-seconds of what an entry closes count once, when base passes it."""
    for close in entry.closes if not entry.void else ():
        sums[close.payer, close.funding] += close.gpu_seconds


def _rows(sums: Counter[tuple[Payer, FundingClass]]) -> tuple[Settled, ...]:
    return tuple(
        Settled(payer=payer, funding=funding, gpu_seconds=sums[payer, funding]) for payer, funding in sorted(sums)
    )


def is_unfinished(entry: Entry, reading: Reading, rolled: Mapping[int, Rolled]) -> bool:
    """6.8: whether anything an entry decided may still be unwritten, by what was just done or else by the reading."""
    if entry.void:
        return False
    if entry.seq in rolled and not (entry.ends and not entry.closes):
        return bool(rolled[entry.seq].unfinished)
    return any(_unwritten(entry, reading, rolled))


def _unwritten(entry: Entry, reading: Reading, rolled: Mapping[int, Rolled]) -> Iterable[bool]:
    """A lease or Reservation unwritten, a pod neither bound nor gone, a close unwritten, a lease in `ends` open."""
    leases = reading.objects.get(LEASE, {})
    held = open_leases(reading.snapshot)
    ended = ended_keys(reading.snapshot.entries)
    namespace = entry.run.namespace if entry.run else ""
    for open_ in entry.opens:
        key = f"{namespace}/{open_.lease}"
        yield key not in leases and not reading.terminating(namespace)
        if open_.pod is not None and key in held:
            pod = reading.object(POD, f"{namespace}/{open_.pod.name}")
            here = pod is not None and pod["metadata"].get("uid") == open_.pod.uid
            bound = pod is not None and bool((pod.get("spec") or {}).get("nodeName"))
            yield entry.seq > reading.seen or (here and not bound) or key in ended
    for close in entry.closes:
        lease = leases.get(f"{close.namespace}/{close.lease}")
        closed = lease is not None and (lease.get("status") or {}).get("closed") is True
        yield not closed and not reading.terminating(close.namespace)
    still = still_open(reading, [seq for seq, done in rolled.items() if not done.unfinished]) if entry.ends else set()
    for end in entry.ends:
        yield f"{end.namespace}/{end.lease}" in still
    # R4: a frozen order binds its reservation until that has started or is cancelled, so it must stay in sight.
    yield entry.freeze is not None and _still_promised(entry, reading)
    yield _promise_unwritten(entry, reading)


def _still_promised(entry: Entry, reading: Reading) -> bool:
    ref = entry.reservation
    promise = next((made for made in reading.snapshot.reservations if ref and made.key == ref.key), None)
    return promise is not None and ref is not None and promise.uid == ref.uid and promise.open


def _promise_unwritten(entry: Entry, reading: Reading) -> bool:
    if entry.reserve is None or entry.run is None:
        return False
    run = reading.object(RUN, entry.run.key)
    if run is None or run["metadata"].get("uid") != entry.run.uid:
        return False  # nobody is left to promise anything to
    written = reading.object(RESERVATION, entry.reserve.key)
    return written is None or written["spec"]["runRef"]["uid"] != entry.reserve.run_uid
