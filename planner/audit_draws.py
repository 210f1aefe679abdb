"""Each lottery replayed from its frozen list and its seed (R3, R4): nobody was chosen."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator

from planner.audit_history import Check, Findings, History, Result, closing_reason, entry_name
from planner.audit_room import is_drawn, left_out, needless_picks
from planner.audit_walk import State, before
from planner.draw import ALGORITHM, budget_seed, frozen, order, seed_of
from planner.instants import rfc3339
from planner.model import Closure, DrawRecord, Entry, EntryKind, Freeze, Lease, Token

_SEED = re.compile("[0-9a-f]{64}")
_LOTTERY = Closure.RANDOM_PREEMPT.value


def draws(history: History, seed: str = "") -> Result:
    """Every freeze and every draw; with a seed only the lottery of that seed."""
    found = Findings(Check.DRAWS)
    examined = 0
    frozen_before: dict[str, int] = {}
    asked = {one.draw.freeze for one in history.counting if one.draw and one.draw.seed == seed}
    for entry, state in before(history):
        subject = entry_name(entry.seq)
        if entry.kind is EntryKind.FREEZE and entry.freeze is not None and (not seed or entry.seq in asked):
            for problem in _frozen_list(history, entry, entry.freeze, state):
                found.error(subject, problem)
            for problem in left_out(history, entry, entry.freeze, state):
                found.warning(subject, problem)
            _frozen_again(entry, frozen_before, found)
        if entry.kind is EntryKind.CUT and (not seed or (entry.draw is not None and entry.draw.seed == seed)):
            examined += entry.draw is not None
            for problem in _cut(history, entry, state):
                found.error(subject, problem)
            for problem in needless_picks(history, entry, state):
                found.warning(subject, problem)
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


def _frozen_list(history: History, entry: Entry, freeze: Freeze, state: State) -> Iterator[str]:
    """The conflict set: every fixed run that held GPUs there, and nobody else (R3)."""
    if freeze.algorithm != ALGORITHM:
        yield f"algorithm {freeze.algorithm} is not {ALGORITHM}"
    if freeze.tokens != frozen(freeze.tokens):
        yield "its tokens are not sorted by owner, then run"
    tokens = {token.run: token for token in freeze.tokens}
    if len(tokens) != len(freeze.tokens):
        yield "one run has two tokens"
    held = _held_there(entry, freeze, state)
    for run, token in sorted(tokens.items()):
        yield from _token(state, token, held.get(run, []))
    for run in sorted(held):
        if run not in tokens and is_drawn(history, held[run]):
            yield f"{run} held GPUs there and is fixed, but has no token"


def _token(state: State, token: Token, held: list[Lease]) -> Iterator[str]:
    if not held:
        yield f"{token.run} has a token, but held no GPU there"
        return
    if token.owner != held[0].owner:
        yield f"the token of {token.run} names owner {token.owner}, its leases {held[0].owner}"
    most = sum(lease.gpus for lease in state.of_run(held[0].run_uid) if lease.key not in state.ending)
    if token.gpus > most:
        yield f"the token of {token.run} names {token.gpus} GPUs, it held {most}"


def _held_there(entry: Entry, freeze: Freeze, state: State) -> dict[str, list[Lease]]:
    """Leases in conflict by run: on the nodes in scope, and for a tightened budget (R6) only those that it pays."""
    nodes = frozenset(freeze.nodes)
    winner = entry.run.key if entry.run and entry.reservation else ""
    budgets = frozenset() if entry.reservation else frozenset(budget.name for budget in entry.budgets)
    held: dict[str, list[Lease]] = defaultdict(list)
    for lease in state.open.values():
        paid = not budgets or lease.payer.budget in budgets
        if lease.node in nodes and paid and lease.key not in state.ending and lease.run_key != winner:
            held[lease.run_key].append(lease)
    if not entry.reservation:
        # Of a budget only some envelopes may be over: those that pay for somebody in the list.
        drawn = {token.run for token in freeze.tokens}
        concerned = {lease.payer for run, leases in held.items() if run in drawn for lease in leases}
        return {run: leases for run, leases in held.items() if any(lease.payer in concerned for lease in leases)}
    return held


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
    if _SEED.fullmatch(draw.seed) is None:
        yield f"seed {draw.seed} is not 64 hexadecimal digits"
        return
    yield from _seed(history, entry, source, draw)
    yield from _picks(source.freeze, draw, state)
    for run in sorted(preempted ^ (set(draw.picks) - set(draw.given_back))):
        yield f"{run} {'is preempted, but was not drawn' if run in preempted else 'was drawn, but is not preempted'}"
    yield from _whole_gangs(entry, preempted, state)
    yield from _reasons(entry, draw)


def _seed(history: History, entry: Entry, source: Entry, draw: DrawRecord) -> Iterator[str]:
    if source.reservation is not None:
        start = _promised_start(history, source)
        if start is None:
            return  # the promise is archived, and with it a part of the seed
        ref = source.reservation
        expected = seed_of(source, namespace=ref.namespace, name=ref.name, uid=ref.uid, earliest_start=start)
    else:
        expected = budget_seed(source, entry.budgets[0].name if entry.budgets else "")
    if expected.hex() != draw.seed:
        yield f"seed {draw.seed} does not follow from entry {source.seq}, which gives {expected.hex()}"


def _promised_start(history: History, freeze: Entry) -> str | None:
    """`earliestStart` of the reservation as it stood at the freeze: from its entry, else from the object."""
    assert freeze.reservation is not None
    key = freeze.reservation.key
    made = [one.reserve for one in history.counting if one.seq < freeze.seq and one.reserve and one.reserve.key == key]
    made += [one for one in history.snapshot.reservations if one.uid == freeze.reservation.uid and not made]
    if not made:
        return None
    start = made[-1].earliest_start
    return "" if start is None else rfc3339(start)


def _picks(freeze: Freeze, draw: DrawRecord, state: State) -> Iterator[str]:
    """The picks are the frozen order, passing over runs that have ended meanwhile (R4)."""
    alive = {lease.run_key for lease in state.open.values() if lease.key not in state.ending}
    whole = [token.run for token in order(bytes.fromhex(draw.seed), freeze.tokens)]
    due = [run for run in whole if run in alive]
    if list(draw.picks) != due[: len(draw.picks)]:
        yield f"picks {', '.join(draw.picks)} are not the first of the order drawn: {', '.join(due) or 'nobody'}"
    strangers = [run for run in draw.given_back if run not in draw.picks]
    if strangers:
        yield f"gives back {strangers[0]}, which was not drawn"
    if draw.picks and draw.picks[-1] in draw.given_back:  # R2: pack succeeded only with it
        yield f"gives back {draw.picks[-1]}, the last that was drawn: nobody is drawn once there is room"


def _whole_gangs(entry: Entry, preempted: Collection[str], state: State) -> Iterator[str]:
    """R3: a gang is cut whole."""
    ended = {f"{one.namespace}/{one.lease}" for one in entry.ends}
    for key, lease in state.open.items():
        if lease.run_key in preempted and key not in ended and key not in state.ending:
            yield f"preempts {lease.run_key}, but leaves its lease {key}: a gang is cut whole"


def _reasons(entry: Entry, draw: DrawRecord) -> Iterator[str]:
    for ended in entry.ends:
        if closing_reason(ended.reason) == _LOTTERY and ended.reason != f"{_LOTTERY}({draw.seed})":
            yield f"ends lease {ended.namespace}/{ended.lease} with another seed than the draw's"
