"""A history for people: the first line answers "why not now?" or "who took my GPUs?", then what happened, entry by
entry, then the recorded steps of the last decision. Pure: prints what was recorded and nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from kubectl_runs.history import History
from kubectl_runs.render.plan import asked, pasted, refusal
from kubectl_runs.render.plan import steps as all_steps
from kubectl_runs.text import clean, plural, span, table
from kubectl_runs.wire.times import rfc3339
from planner.model import Entry, EntryKind, Lease, Reservation, Role
from planner.score import scores

Json = dict[str, Any]

DECIDING = (EntryKind.START, EntryKind.GROW, EntryKind.RESERVE, EntryKind.CUT, EntryKind.SWAP)
LOST = ("Shrink", "EndFiller", "DropSpare", "RandomPreempt", "ReclaimedBySpare", "NodeFailure")


def render(history: History, *, now: int, verbose: bool) -> str:
    """The whole screen."""
    parts = [answer(history, now), payers(history.held), timeline(history), forecast(history), draws(history)]
    parts += [*_steps(history, verbose), remedies(history)]
    return "\n".join(part for part in parts if part)


def answer(history: History, now: int) -> str:
    """One line: how it stands and why."""
    if history.about is not None:
        return _lease_answer(history, history.about, now) + "\n"
    key, held = clean(history.key), history.held
    lost = [lease for lease in history.leases if _word(lease) in LOST]
    width = sum(lease.gpus for lease in held if lease.role is not Role.SPARE)
    if held:
        since = min(lease.start_at for lease in held)
        line = f"{key} holds {plural(width, 'GPU')} since {rfc3339(since)} ({span(max(0, now - since))})."
        return line + (f" {_taken(history, lost)}" if lost else "") + "\n"
    if history.reservation is not None and history.reservation.open and not history.leases:
        return f"{key} waits: {_promise(history.reservation, now)}\n"
    if lost:
        return f"{key} has no GPUs. {_taken(history, lost)}\n"
    if history.leases:
        last = max(history.leases, key=lambda lease: (lease.end_at or 0, lease.name))
        return f"{key} ended with {clean(last.closure)} at {rfc3339(last.end_at or 0)}.\n"
    if history.entries:
        last_entry = history.entries[-1]
        return f"{key} holds nothing; the last entry about it is {last_entry.seq} ({last_entry.kind}).\n"
    return f"{key} was never submitted: it waits until somebody does, or the daemon.\n"


def _promise(made: Reservation, now: int) -> str:
    reason = clean(made.reason or made.state)
    if made.earliest_start is None:
        return f"{reason}, {plural(made.gpus, 'GPU')} wanted, no start can be promised until a budget allows it."
    ahead = made.earliest_start - now
    when = f"in {span(ahead)}" if ahead > 0 else f"due since {span(-ahead)}" if ahead else "due now"
    return f"{reason}, {plural(made.gpus, 'GPU')} promised from {rfc3339(made.earliest_start)} ({when})."


def _taken(history: History, lost: Sequence[Lease]) -> str:
    """Who took GPUs, from the last loss."""
    last = max(lost, key=lambda lease: (lease.end_at or 0, lease.name))
    same = [lease for lease in lost if lease.end_at == last.end_at and _word(lease) == _word(last)]
    gpus = plural(sum(lease.gpus for lease in same), "GPU")
    winner = _winner(history, last)
    return f"It lost {gpus} at {rfc3339(last.end_at or 0)} ({_word(last)}){winner}."


def _winner(history: History, lease: Lease) -> str:
    """The run that a Cut made room for, if it was one."""
    for entry in reversed(history.others):
        ends = any((part.namespace, part.lease) == (lease.namespace, lease.name) for part in entry.ends)
        if ends and entry.kind is EntryKind.CUT and entry.run is not None:
            draw = f", draw of entry {entry.draw.freeze}" if entry.draw else ""
            return f" to {clean(entry.run.key)}, entry {entry.seq}{draw}"
        if ends:
            return f", entry {entry.seq}"
    return ""


def _lease_answer(history: History, lease: Lease, now: int) -> str:
    what = f"{clean(lease.key)}: {plural(lease.gpus, 'GPU')} of {clean(lease.node)}"
    what += f" for {clean(lease.run_key)} group {lease.group}"
    paid = f"paid by {clean(lease.payer.name)} ({lease.funding}), role {lease.role}, opened by {lease.reason}"
    if not lease.closed:
        return f"{what}, open for {span(max(0, now - lease.start_at))}, {paid}."
    ended = f"closed at {rfc3339(lease.end_at or 0)} with {clean(lease.closure)}{_winner(history, lease)}"
    return f"{what}, {ended}, {paid}."


def payers(held: Iterable[Lease]) -> str:
    """Who pays now; adds up to what is held, spares included."""
    shares: Counter[tuple[str, str]] = Counter()
    for lease in held:
        shares[(lease.payer.name, lease.funding.value)] += lease.gpus
    rows: list[tuple[object, ...]] = [
        ("paid by" if index == 0 else "", gpus, name, funding)
        for index, ((name, funding), gpus) in enumerate(sorted(shares.items()))
    ]
    if len(rows) > 1:
        rows.append(("in all", sum(shares.values()), "", ""))
    return table(rows, right=(1,), indent="  ")


def timeline(history: History) -> str:
    """What happened, oldest first; what no kept entry tells of is told by the leases themselves."""
    told = [(entry.time, entry.seq, entry.kind.value, event(entry, history.key)) for entry in history.entries]
    opened = {f"{entry.run.namespace}/{part.lease}" for entry in history.entries if entry.run for part in entry.opens}
    closed = {f"{part.namespace}/{part.lease}" for entry in history.entries for part in entry.closes}
    for lease in history.leases:
        if lease.key not in opened:
            told.append((lease.start_at, 0, lease.reason.value, _held(lease)))
        if lease.closed and lease.key not in closed:
            ended = f"{plural(lease.gpus, 'GPU')} of {lease.node}: {lease.closure}"
            told.append((lease.end_at or 0, 0, "Close", ended))
    rows = [(rfc3339(at), seq or "-", kind, what) for at, seq, kind, what in sorted(told)]
    return table([("WHEN", "ENTRY", "KIND", "WHAT"), *rows], indent="  ") if rows else ""


def _held(lease: Lease) -> str:
    return f"{plural(lease.gpus, 'GPU')} of {lease.node} ({lease.role}) paid by {lease.payer.name}"


def event(entry: Entry, key: str) -> str:
    """One entry in one line, as the run sees it."""
    if entry.void:
        return f"void: {entry.void}"
    parts = []
    if entry.opens:
        nodes = {part.node for part in entry.opens}
        parts.append(f"{plural(sum(part.gpus for part in entry.opens), 'GPU')} on {plural(len(nodes), 'node')}")
    if entry.reserve is not None:
        start = entry.reserve.earliest_start
        when = "when a budget allows" if start is None else f"from {rfc3339(start)}"
        parts.append(f"{plural(entry.reserve.gpus, 'GPU')} {when}")
    if entry.freeze is not None:
        missing = plural(entry.freeze.deficit_gpus, "GPU")
        parts.append(f"{plural(len(entry.freeze.tokens), 'token')} frozen for {missing}")
    if entry.ends:
        parts.append(_reasons("to end", (part.reason for part in entry.ends)))
    if entry.closes:
        parts.append(_reasons("closed", (part.reason for part in entry.closes)))
    if entry.draw is not None:
        parts.append(f"drawn: {', '.join(entry.draw.picks)}")
    if entry.run is not None and entry.run.key != key:
        parts.append(f"for {entry.run.key}")
    return ", ".join(parts) or "-"


def forecast(history: History) -> str:
    """F5: the promised start against the actual one."""
    promises = [entry.reserve for entry in history.entries if entry.reserve is not None and not entry.void]
    kept = scores(promises or ([history.reservation] if history.reservation else []), history.leases)
    if not kept:
        return ""
    last = kept[-1]
    how = "to the second" if last.late == 0 else f"{span(last.late)} {'late' if last.late > 0 else 'early'}"
    return f"  forecast   promised {rfc3339(last.promised_at)}, started {rfc3339(last.started_at)} ({how})\n"


def remedies(history: History) -> str:
    """What would help a run that waits, as its reservation keeps it: each was tried when it was made."""
    if history.held or history.reservation is None or not history.reservation.open or not history.remedies:
        return ""
    name = history.key.partition("/")[2]
    rows = [(part["message"], pasted(str(part.get("command") or ""), f"plan {name}")) for part in history.remedies]
    return "  what would have helped when it was reserved:\n" + table(rows, indent="    ")


def draws(history: History) -> str:
    """How to check each lottery that touched the run."""
    seeds = [entry.draw.seed for entry in history.entries if entry.draw is not None]
    return "".join(f"  to check the draw: kubectl runs verify --draw {clean(seed)}\n" for seed in seeds)


def _reasons(verb: str, reasons: Iterable[str]) -> str:
    counts = Counter(reason.partition("(")[0] for reason in reasons)
    return ", ".join(f"{plural(count, 'lease')} {verb} ({reason})" for reason, count in sorted(counts.items()))


def _steps(history: History, verbose: bool) -> Iterable[str]:
    """The recorded steps of the last decision, or with `-v` of every one, with all candidates."""
    deciding = [entry for entry in history.entries if entry.kind in DECIDING and entry.trace and not entry.void]
    if history.about is not None:
        deciding = [entry for entry in deciding if _names(entry, history.about.name)]
    for entry in deciding if verbose else deciding[-1:]:
        trace = [dict(step) for step in entry.trace]
        short = refusal if entry.kind is EntryKind.RESERVE else asked
        shown = all_steps(trace) if verbose else short(trace)
        if shown:
            yield f"  entry {entry.seq} ({entry.kind}), as recorded:\n{shown}"


def _names(entry: Entry, lease: str) -> bool:
    return any(part.lease == lease for part in entry.opens) or any(part.lease == lease for part in entry.ends)


def _word(lease: Lease) -> str:
    return (lease.closure or "").partition("(")[0]


def raw(history: History) -> Json:
    """`-o json`: the entries with their steps as recorded, and the leases."""
    return {
        "run": history.key,
        "lease": history.about.key if history.about else None,
        "remedies": list(history.remedies),
        "entries": [
            {
                "seq": entry.seq,
                "kind": entry.kind.value,
                "time": rfc3339(entry.time),
                "run": entry.run.key if entry.run else None,
                "attempt": entry.run.attempt if entry.run else None,
                "plan": entry.plan or None,
                "void": entry.void or None,
                "steps": [dict(step) for step in entry.trace],
            }
            for entry in history.entries
        ],
        "leases": [
            {
                "name": lease.name,
                "node": lease.node,
                "gpus": lease.gpus,
                "role": lease.role.value,
                "group": lease.group,
                "payer": lease.payer.name,
                "class": lease.funding.value,
                "start": rfc3339(lease.start_at),
                "end": None if lease.end_at is None else rfc3339(lease.end_at),
                "closure": lease.closure,
            }
            for lease in history.leases
        ],
    }
