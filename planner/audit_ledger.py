"""Is the ledger itself whole: the chain of digests, and a `base` that equals what the entries up to it add up to."""

from __future__ import annotations

from collections import defaultdict

from planner.audit_history import Check, Findings, History, PayerClass, Result, entry_name
from planner.model import NO_DIGEST, Entry

LEDGER = "ledger/base"
PENDING_MAX = 64


def chain(history: History) -> Result:
    """Numbers without a gap, each `prev` the digest of the entry before (section 6)."""
    found = Findings(Check.CHAIN)
    _gaps(history, found)
    for entry in history.entries:
        expected = _expected_prev(history, entry)
        if entry.prev and expected is not None and entry.prev != expected:
            # Also the mark of a tampered predecessor, whose own digest has changed under it.
            found.error(
                entry_name(entry.seq),
                f"prev is not the digest of entry {entry.seq - 1}: one of the two was altered, and this one is void",
            )
        elif entry.void:
            found.warning(entry_name(entry.seq), f"void, it changes nothing: {entry.void}")
    return found.result(len(history.entries))


def _gaps(history: History, found: Findings) -> None:
    floor, base = history.base.floor, history.base
    last = max([base.seq, *history.by_seq])
    missing = [seq for seq in range(floor + 1, last + 1) if seq not in history.by_seq]
    if missing and missing[-1] <= base.seq and _only_planning_state(history):
        found.warning(LEDGER, f"entries up to {base.seq} are not at hand: only what follows them is checked")
        return
    for first, final in _stretches(missing):
        span = f"entry {first} is" if first == final else f"entries {first} to {final} are"
        found.error(entry_name(first), f"{span} missing, above floor {floor}")


def _only_planning_state(history: History) -> bool:
    """A file saved for planning holds no entry up to `base`, save those that planning reads (6.1)."""
    read = {history.base.seq, *history.base.pending}
    return not any(seq <= history.base.seq and seq not in read for seq in history.by_seq)


def _stretches(numbers: list[int]) -> list[tuple[int, int]]:
    stretches: list[tuple[int, int]] = []
    for number in numbers:
        if stretches and stretches[-1][1] == number - 1:
            stretches[-1] = (stretches[-1][0], number)
        else:
            stretches.append((number, number))
    return stretches


def _expected_prev(history: History, entry: Entry) -> str | None:
    """What an entry's `prev` has to be; None where the entry before is archived and nothing vouches for it."""
    if entry.seq == 1:
        return NO_DIGEST
    before = history.by_seq.get(entry.seq - 1)
    if before is not None:
        return before.digest
    return history.base.digest if entry.seq - 1 == history.base.seq else None


def base(history: History) -> Result:
    """`base` equals what the entries up to it add up to, and has passed nothing unfinished (6.8)."""
    found = Findings(Check.BASE)
    if history.snapshot.base is None:
        return found.result(0)
    _tip_of_base(history, found)
    _marks(history, found)
    _settled(history, found)
    for entry in history.counting:
        if history.finished(entry.seq) and entry.seq > history.base.floor:
            for missing in unwritten(history, entry):
                found.error(entry_name(entry.seq), f"base has passed it and it is not pending, but {missing}")
    return found.result(1)


def _tip_of_base(history: History, found: Findings) -> None:
    base = history.base
    entry = history.by_seq.get(base.seq)
    if base.seq == 0:
        if base.digest != NO_DIGEST:
            found.error(LEDGER, "digest is not that of an empty ledger")
    elif entry is None:
        if base.seq > base.floor:
            found.error(LEDGER, f"entry {base.seq}, where base stands, is missing above floor {base.floor}")
    elif entry.digest != base.digest:
        found.error(LEDGER, f"digest is not that of entry {base.seq}")
    elif entry.time != base.time:
        found.error(LEDGER, f"time is not that of entry {base.seq}")


def _marks(history: History, found: Findings) -> None:
    base = history.base
    if base.floor > base.seq:
        found.error(LEDGER, f"floor {base.floor} is above base {base.seq}")
    if len(base.pending) > PENDING_MAX:
        found.error(LEDGER, f"{len(base.pending)} entries are pending, at most {PENDING_MAX} may be")
    for seq in sorted(base.pending):
        if not base.floor < seq <= base.seq:
            found.error(LEDGER, f"pending entry {seq} is not above floor {base.floor} and up to base {base.seq}")
    for reservation in history.snapshot.reservations:
        entry = reserving_entry(history, reservation.key, reservation.run_uid)
        if reservation.open and entry is not None and entry.seq <= base.floor:
            found.error(
                LEDGER, f"floor {base.floor} has passed entry {entry.seq} of open reservation {reservation.key}"
            )


def reserving_entry(history: History, key: str, run_uid: str) -> Entry | None:
    """The last entry that wrote a reservation: its Reserve, or the Cut that gave it a new slice (6.9)."""
    for entry in reversed(history.counting):
        if entry.reserve is not None and entry.reserve.key == key and entry.reserve.run_uid == run_uid:
            return entry
    return None


def _settled(history: History, found: Findings) -> None:
    """Exact while every entry is kept; entries archived below the floor leave only a lower bound."""
    stated: dict[PayerClass, int] = defaultdict(int)
    for settled in history.base.settled:
        stated[settled.payer, settled.funding] += settled.gpu_seconds
    summed: dict[PayerClass, int] = defaultdict(int)
    for entry in history.counting:
        if entry.seq <= history.base.seq:
            for closed in entry.closes:
                summed[closed.payer, closed.funding] += closed.gpu_seconds
    exact = history.whole()
    for payer, funding in sorted({*stated, *summed}):
        have, need = stated[payer, funding], summed[payer, funding]
        if have < need or (exact and have != need):
            found.error(
                LEDGER,
                f"settled {payer.name} {funding}: {have} GPU-seconds, the entries add up to {need}",
            )
    if not exact and history.base.seq:
        found.info(
            LEDGER, f"entries up to floor {history.base.floor} are archived: settled is checked as a lower bound"
        )


def unwritten(history: History, entry: Entry) -> list[str]:
    """What an entry asks for and no object shows yet: the reasons why it belongs into `pending` (6.8)."""
    return [
        *_unwritten_opens(history, entry),
        *_unwritten_reservation(history, entry),
        *_unwritten_closes(history, entry),
    ]


def _unwritten_opens(history: History, entry: Entry) -> list[str]:
    pods = history.pods
    missing = []
    for opened in entry.opens if entry.run else ():
        namespace = entry.run.namespace if entry.run else ""
        key = f"{namespace}/{opened.lease}"
        closing = history.closed.get(key)
        archived = closing is not None and closing.entry.seq <= history.base.floor
        if key not in history.leases and not archived and not history.namespace_gone(namespace):
            missing.append(f"its lease {key} does not exist")
        pod = pods.get(f"{namespace}/{opened.pod.name}") if opened.pod else None
        if pod is not None and opened.pod and pod.uid == opened.pod.uid and not pod.node and pod.live and not closing:
            missing.append(f"its pod {namespace}/{pod.name} is not bound")
    return missing


def _unwritten_reservation(history: History, entry: Entry) -> list[str]:
    reserve = entry.reserve
    if reserve is None or reserve.run_uid not in history.runs_by_uid:
        return []
    written = any(one.key == reserve.key and one.run_uid == reserve.run_uid for one in history.snapshot.reservations)
    return [] if written else [f"its reservation {reserve.key} does not exist"]


def _unwritten_closes(history: History, entry: Entry) -> list[str]:
    missing = []
    for key in (f"{closed.namespace}/{closed.lease}" for closed in entry.closes):
        lease = history.leases.get(key)
        if lease is not None and not lease.closed:
            missing.append(f"its lease {key} is not closed")
    for key in (f"{ended.namespace}/{ended.lease}" for ended in entry.ends):
        lease = history.leases.get(key)
        if lease is not None and not lease.closed:
            missing.append(f"lease {key}, which it ends, is still open")
    return missing
