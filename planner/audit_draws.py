"""Each lottery replayed from its frozen list and its seed (R3, R4): nobody was chosen."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from planner.audit_history import Check, Findings, History, Result, closing_reason, entry_name
from planner.audit_walk import State, before
from planner.draw import ALGORITHM, budget_seed, frozen, order, reservation_seed
from planner.model import Closure, DrawRecord, Entry, EntryKind, Freeze, Lease, Role

_LOTTERY = Closure.RANDOM_PREEMPT.value


def draws(history: History, seed: str = "") -> Result:
    """Every freeze and every draw; with a seed only the lottery of that seed."""
    found = Findings(Check.DRAWS)
    examined = 0
    frozen_before: dict[str, int] = {}
    for entry, state in before(history):
        if entry.kind is EntryKind.FREEZE and entry.freeze is not None and not seed:
            for problem in _frozen_list(history, entry.freeze, state):
                found.error(entry_name(entry.seq), problem)
            _frozen_again(entry, frozen_before, found)
        if entry.kind is EntryKind.CUT and (not seed or (entry.draw is not None and entry.draw.seed == seed)):
            examined += entry.draw is not None
            for problem in _cut(history, entry, state):
                found.error(entry_name(entry.seq), problem)
    if seed and not examined:
        found.error(f"draw/{seed}", "no entry records a draw with this seed")
    return found.result(examined)


def _frozen_again(entry: Entry, frozen_before: dict[str, int], found: Findings) -> None:
    """R4: a reservation freezes again only if pack fails with all of the first list."""
    if entry.reservation is None or entry.freeze is None:
        return
    where = f"{entry.reservation.uid} {' '.join(entry.freeze.nodes)}"
    first = frozen_before.setdefault(where, entry.seq)
    if first != entry.seq:
        found.warning(
            entry_name(entry.seq),
            f"freezes again for reservation {entry.reservation.key} after entry {first}; by today's nodes it cannot be "
            "told whether the first list was not enough",
        )


def _frozen_list(history: History, freeze: Freeze, state: State) -> Iterator[str]:
    """The conflict set: every fixed run that held GPUs there, and nobody else (R3)."""
    if freeze.algorithm != ALGORITHM:
        yield f"algorithm {freeze.algorithm} is not {ALGORITHM}"
    if freeze.tokens != frozen(freeze.tokens):
        yield "its tokens are not sorted by owner, then run"
    held = _held_there(freeze, state)
    tokens = {token.run: token for token in freeze.tokens}
    if len(tokens) != len(freeze.tokens):
        yield "one run has two tokens"
    for run, token in sorted(tokens.items()):
        if run not in held:
            yield f"{run} has a token, but held no GPU there"
        elif token.owner != held[run][0].owner:
            yield f"the token of {run} names owner {token.owner}, its leases {held[run][0].owner}"
    for run in sorted(held):
        if run not in tokens and _is_fixed(history, held[run]):
            yield f"{run} held GPUs there and is fixed, but has no token"


def _held_there(freeze: Freeze, state: State) -> dict[str, list[Lease]]:
    nodes = frozenset(freeze.nodes)
    held: dict[str, list[Lease]] = defaultdict(list)
    for lease in state.open.values():
        if lease.node in nodes and lease.role is not Role.FILLER:
            held[lease.run_key].append(lease)
    return held


def _is_fixed(history: History, leases: list[Lease]) -> bool:
    """Whether a run is known to be drawn: fixed, with active GPUs there that nothing has ended yet."""
    run = history.runs_by_uid.get(leases[0].run_uid)
    active = any(lease.role is Role.ACTIVE and lease.key not in history.ended for lease in leases)
    return run is not None and run.malleable is None and active


def _cut(history: History, entry: Entry, state: State) -> Iterator[str]:
    """Seed, order and who had to end follow from the frozen entry."""
    preempted = {
        state.open[key].run_key
        for ended in entry.ends
        if closing_reason(ended.reason) == _LOTTERY and (key := f"{ended.namespace}/{ended.lease}") in state.open
    }
    if entry.draw is None:
        if preempted:
            yield f"preempts {min(preempted)} without a draw"
        return
    draw = entry.draw
    source = history.by_seq.get(draw.freeze)
    if source is None or source.freeze is None or source.void or source.seq >= entry.seq:
        yield f"draws from entry {draw.freeze}, which froze nothing"
        return
    yield from _seed(history, entry, source, draw)
    yield from _picks(source.freeze, draw, state)
    for run in sorted(preempted ^ (set(draw.picks) - set(draw.given_back))):
        yield f"{run} {'is preempted, but was not drawn' if run in preempted else 'was drawn, but is not preempted'}"
    yield from _reasons(entry, draw)


def _seed(history: History, entry: Entry, source: Entry, draw: DrawRecord) -> Iterator[str]:
    if entry.reservation is not None:
        promise = next((one for one in history.snapshot.reservations if one.uid == entry.reservation.uid), None)
        if promise is None:
            return  # the reservation is gone, and with it a part of the seed
        expected = reservation_seed(source, promise)
    else:
        expected = budget_seed(source, entry.budgets[0].name if entry.budgets else "")
    if expected.hex() != draw.seed:
        yield f"seed {draw.seed} does not follow from entry {source.seq}, which gives {expected.hex()}"


def _picks(freeze: Freeze, draw: DrawRecord, state: State) -> Iterator[str]:
    """The picks are the frozen order, passing over runs that have ended meanwhile (R4)."""
    alive = {lease.run_key for lease in state.open.values()}
    whole = [token.run for token in order(bytes.fromhex(draw.seed), freeze.tokens)]
    due = [run for run in whole if run in alive]
    if list(draw.picks) != due[: len(draw.picks)]:
        yield f"picks {', '.join(draw.picks)} are not the first of the order drawn: {', '.join(due) or 'nobody'}"
    strangers = [run for run in draw.given_back if run not in draw.picks]
    if strangers:
        yield f"gives back {strangers[0]}, which was not drawn"


def _reasons(entry: Entry, draw: DrawRecord) -> Iterator[str]:
    for ended in entry.ends:
        if closing_reason(ended.reason) == _LOTTERY and ended.reason != f"{_LOTTERY}({draw.seed})":
            yield f"ends lease {ended.namespace}/{ended.lease} with another seed than the draw's"
