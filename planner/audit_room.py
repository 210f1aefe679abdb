"""Was a lottery as wide as its domain, and did it stop when there was room (R2, R4)? By today's nodes: it only warns.

Whoever could leave a run out of the list, or draw on until somebody else comes up and give the others back, would
choose who is cut.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planner.admit import widths
from planner.audit_history import History
from planner.audit_walk import State
from planner.model import Closure, Entry, Freeze, Lease, Role, Run
from planner.pack import place
from planner.shape import Placement, shape_of
from planner.world import World


def is_drawn(history: History, leases: list[Lease]) -> bool:
    """Whether a run is known to be drawn: fixed, and with active GPUs there."""
    run = history.runs_by_uid.get(leases[0].run_uid)
    active = any(lease.role is Role.ACTIVE for lease in leases)
    return run is not None and run.malleable is None and not run.opportunistic and active


def left_out(history: History, entry: Entry, freeze: Freeze, state: State) -> Iterator[str]:
    """Fixed runs on nodes of the domain that the scope does not name. A budget's scope is no domain."""
    if entry.reservation is None:
        return
    nodes = {node.name: node for node in history.snapshot.nodes}
    domains = {nodes[name].domain for name in freeze.nodes if name in nodes} - {None}
    tokens = {token.run for token in freeze.tokens}
    for lease in sorted(state.open.values(), key=lambda one: one.key):
        node = nodes.get(lease.node)
        beside = node is not None and node.domain in domains and node.flavor == freeze.flavor
        if not beside or lease.node in freeze.nodes or lease.run_key in tokens or lease.key in state.ending:
            continue
        if is_drawn(history, [lease]):
            tokens.add(lease.run_key)
            yield f"{lease.run_key} held GPUs of {lease.node}, by today's labels in the domain, but has no token"


def needless_picks(history: History, entry: Entry, state: State) -> Iterator[str]:
    """R2: tokens are drawn until pack succeeds, so without the last one there was no room."""
    run = history.runs_by_uid.get(entry.run.uid) if entry.run else None
    if run is None or entry.draw is None or entry.reservation is None or len(entry.draw.picks) < 2:
        return
    *others, last = entry.draw.picks
    lottery = Closure.RANDOM_PREEMPT.value
    gone = state.ending | {f"{one.namespace}/{one.lease}" for one in entry.ends if not one.reason.startswith(lottery)}
    stays = [lease for lease in state.open.values() if lease.key not in gone and lease.run_key not in others]
    if _fits(history, entry, run, stays, state):
        yield f"draws {last}, but by today's nodes {', '.join(others)} had made room already"


def _fits(history: History, entry: Entry, run: Run, leases: list[Lease], state: State) -> bool:
    """Whether pack places the run at its least width beside those leases and what others were promised."""
    world = World.of(
        replace(
            history.snapshot,
            leases=tuple(replace(lease, closed=False, end_at=None, closure=None) for lease in leases),
            reservations=tuple(made for uid, made in sorted(state.promises.items()) if uid != run.uid),
            entries=(),
            base=None,
            pods=(),
        ),
        entry.read_at,
    )
    return isinstance(place(world.room(run), shape_of(run, widths(run)[-1])), Placement)
