"""Does a Start leave to others what they were promised (F3)? By today's nodes, so it only warns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from planner.audit_history import History
from planner.audit_walk import State
from planner.holds import horizon
from planner.model import Entry, EntryKind, Lease, Reservation, Role


def promises_kept(history: History, entry: Entry, state: State) -> Iterator[str]:
    """Nodes on which a Start takes GPUs that somebody else was promised while it would still run."""
    run = history.runs_by_uid.get(entry.run.uid) if entry.run else None
    if run is None or entry.kind is not EntryKind.START:
        return
    opened: dict[str, int] = defaultdict(int)
    for lease in entry.opens:
        opened[lease.node] += lease.gpus
    sizes = {node.name: node.gpus for node in history.snapshot.nodes if node.name in opened}
    reach = horizon(entry.read_at, run.duration, run.opportunistic)
    mine = state.promises.get(run.uid)
    own = _by_node(mine) if mine is not None else {}
    for uid, made in sorted(state.promises.items()):
        # A run that is gone is promised nothing (F3), and nobody knows since when it is gone.
        if uid == run.uid or uid not in history.runs_by_uid:
            continue
        if made.earliest_start is None or made.earliest_start >= reach:
            continue
        for node, promised in sorted(_by_node(made).items()):
            if mine is not None and mine.created_at < made.created_at and opened.get(node, 0) <= own.get(node, 0):
                continue  # in its own slice, around which the later promise was planned
            stays = _stays(history, state, node, made.earliest_start) if node in sizes else 0
            if node in sizes and stays + opened[node] + promised > sizes[node]:
                yield f"takes {opened[node]} GPUs of {node}, of which {promised} are promised to {made.key}"


def _stays(history: History, state: State, node: str, until: int) -> int:
    """GPUs of a node whose leases are not known to end by then: a promise may follow those that are, and fillers."""
    return sum(
        lease.gpus
        for lease in state.open.values()
        if lease.node == node and lease.role is not Role.FILLER and not _over(history, lease, until)
    )


def _over(history: History, lease: Lease, until: int) -> bool:
    run = history.runs_by_uid.get(lease.run_uid)
    return run is not None and run.duration is not None and lease.start_at + run.duration <= until


def _by_node(made: Reservation) -> dict[str, int]:
    gpus: dict[str, int] = defaultdict(int)
    for group in made.groups:
        for node in group.nodes:
            gpus[node.name] += node.gpus
    return gpus
