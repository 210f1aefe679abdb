"""What a run does about a loss: swap to a spare (S2), or what the planner says else (S3).

The planner decides who moves where and what ends; here its answer becomes a Swap entry with the pod prepared on the
spare's behalf, or an End. A Swap needs the verb `resolve`, since it may end others' fillers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from kubectl_runs.commit.append import Appended, append
from kubectl_runs.commit.closing import Gone, first_ends
from kubectl_runs.commit.draft import Draft, run_ref
from kubectl_runs.commit.life import Life
from kubectl_runs.commit.prepare import Prepared, delete_pods, prepare
from kubectl_runs.commit.roll_forward import Rolled, roll_forward
from kubectl_runs.commit.steps import Means, Steps, try_one
from kubectl_runs.read import Reading
from kubectl_runs.store.protocol import MayI, Object, Reply
from kubectl_runs.wire import decode, encode
from kubectl_runs.wire.kinds import BUDGET, LEDGER_ENTRY, RUN
from kubectl_runs.wire.pods import Rank
from planner.fold import open_leases
from planner.model import Closure, Ended, EntryKind, Lease, Opened, Opening, Role, Run
from planner.swap import Ending, Move, RescuePlan, lost_leases, rescue
from planner.world import World

_RANK = re.compile(r".*-(\d+)")


def rescue_plan(reading: Reading, run: Run, gone: Sequence[Gone]) -> RescuePlan | None:
    """What the planner makes of what this run has lost; None: it lost nothing that is not dealt with."""
    world = World.of(reading.snapshot, reading.now)
    ended = first_ends(reading)
    lost = {key: lease for key, lease in lost_leases(reading.snapshot, world).items() if lease.run_uid == run.uid}
    # A pod that somebody deleted is lost like one that failed.
    for each in gone:
        if each.reason in (Closure.FAIL, Closure.NODE_FAILURE) and each.lease.key not in ended:
            lost[each.lease.key] = each.lease
    return rescue(world, run, lost) if lost else None


def ends_of_plan(endings: Sequence[Ending]) -> tuple[Ended, ...]:
    return tuple(
        Ended(namespace=ending.lease.namespace, lease=ending.lease.name, reason=str(ending.reason))
        for ending in endings
    )


def _in_use(reading: Reading, plan: RescuePlan) -> bool:
    """Whether fillers that were told to go still hold GPUs of a spare: two pods never share one."""
    ended = first_ends(reading)
    nodes = {move.node for move in plan.moves}
    held = open_leases(reading.snapshot).values()
    return any(lease.node in nodes and lease.role is Role.FILLER and lease.key in ended for lease in held)


def may_resolve() -> Steps[bool]:
    """Section 7: whether this user may append a Swap."""
    outcome = yield from try_one(MayI(verb="resolve", kind=LEDGER_ENTRY))
    return isinstance(outcome, Reply) and outcome.allowed


def swap(
    reading: Reading, run: Run, lived: Life, plan: RescuePlan, means: Means
) -> Steps[tuple[Reading, Rolled | None]]:
    """S2 in two entries: fillers on the spares end first; once they are gone the pods move.

    Never rebased: overtaken, it is given up and planned again by the next pass.
    """
    run_object = reading.object(RUN, run.key)
    if run_object is None or _in_use(reading, plan):
        return reading, None
    prepared = Prepared(namespace=run.namespace, nonce=means.nonce())
    draft = Draft(kind=EntryKind.SWAP, run=run_ref(run, lived.attempt), trace=tuple(encode.trace(plan.trace)))
    fillers = [ending for ending in plan.ends if ending.reason is Closure.RECLAIMED_BY_SPARE]
    if fillers:
        draft = replace(draft, ends=ends_of_plan(fillers))
    else:
        prepared = yield from _prepare(reading, run_object, lived, plan.moves, means)
        opens = tuple(open_ for move in plan.moves for open_ in _opens(move, prepared))
        names = sorted({open_.payer.budget for open_ in opens})
        records = tuple(encode.budget_record(reading.objects[BUDGET][name]) for name in names)
        draft = replace(draft, opens=opens, ends=ends_of_plan(plan.ends), budgets=records)
    outcome = yield from append(draft, reading, means)
    if not isinstance(outcome, Appended):
        yield from delete_pods(run.namespace, prepared.pods)
        return reading, None
    rolled = yield from roll_forward(outcome.entry, outcome.reading)
    return outcome.reading, rolled


def _prepare(reading: Reading, run_object: Object, lived: Life, moves: Sequence[Move], means: Means) -> Steps[Prepared]:
    """A pod for each lost rank, in the same group."""
    pods = len({lease.pod.name for lease in lived.held if lease.pod is not None})
    wanted = [
        Rank(rank=_rank(move), group=move.lost[0].group, role=move.lost[0].role, pods=pods, attempt=lived.attempt)
        for move in moves
    ]
    before = Prepared(namespace=run_object["metadata"]["namespace"], nonce=means.nonce())
    resource = decode.topology(reading.base_object).resource
    # The service is there since the start.
    made = yield from prepare(
        run_object, wanted, before, now=reading.read_at, gpu_resource=resource, with_service=False
    )
    return replace(made, ready_at=max(made.ready_at, reading.read_at))


def _rank(move: Move) -> int:
    """The rank is in the name of the pod that was lost."""
    pod = move.lost[0].pod
    found = _RANK.fullmatch(pod.name) if pod is not None else None
    return int(found[1]) if found else 0


def _opens(move: Move, prepared: Prepared) -> list[Opened]:
    """Same rank, same group, same payer: only the node is another."""
    return [_opened(lease, move, prepared) for lease in move.lost if lease.role is not Role.SPARE]


def _opened(lost: Lease, move: Move, prepared: Prepared) -> Opened:
    return Opened(
        lease="",
        pod=prepared.ref(_rank(move)),
        node=move.node,
        gpus=lost.gpus,
        role=lost.role,
        group=lost.group,
        owner=lost.owner,
        payer=lost.payer,
        funding=lost.funding,
        reason=Opening.SWAP,
    )
