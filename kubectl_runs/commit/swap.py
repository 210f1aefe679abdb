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
from kubectl_runs.commit.draft import Draft
from kubectl_runs.commit.life import Life
from kubectl_runs.commit.prepare import Prepared, delete_pods, prepare
from kubectl_runs.commit.roll_forward import Rolled, roll_forward
from kubectl_runs.commit.steps import Means, Steps, attempt
from kubectl_runs.read import Reading
from kubectl_runs.store.protocol import MayI, Object, Reply
from kubectl_runs.wire import decode, encode
from kubectl_runs.wire.kinds import LEDGER_ENTRY, RUN
from kubectl_runs.wire.pods import Rank
from planner.model import Closure, Ended, EntryKind, Lease, Opened, Opening, Role, Run, RunRef
from planner.swap import Move, RescuePlan, lost_leases, rescue
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


def ends_of_plan(plan: RescuePlan) -> tuple[Ended, ...]:
    return tuple(
        Ended(namespace=ending.lease.namespace, lease=ending.lease.name, reason=str(ending.reason))
        for ending in plan.ends
    )


def may_resolve() -> Steps[bool]:
    """Section 7: whether this user may append a Swap."""
    outcome = yield from attempt(MayI(verb="resolve", kind=LEDGER_ENTRY))
    return isinstance(outcome, Reply) and outcome.allowed


def swap(
    reading: Reading, run: Run, lived: Life, plan: RescuePlan, means: Means
) -> Steps[tuple[Reading, Rolled | None]]:
    """S2: prepare the pods that take the lost ranks, append, roll forward. Never rebased: overtaken, it is given up."""
    run_object = reading.object(RUN, run.key)
    if run_object is None:
        return reading, None
    prepared = yield from _prepare(reading, run_object, lived, plan.moves, means)
    draft = Draft(
        kind=EntryKind.SWAP,
        run=RunRef(namespace=run.namespace, name=run.name, uid=run.uid, attempt=lived.attempt),
        trace=tuple(encode.trace(plan.trace)),
        opens=tuple(open_ for move in plan.moves for open_ in _opens(move, prepared)),
        ends=ends_of_plan(plan),
    )
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
