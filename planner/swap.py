"""What a run does about lost pods: take a spare, shrink, begin again, or fail (S1-S3).

A node is lost only when its object is gone or it is fenced by the out-of-service taint; a pod also when it failed.
Decides for one run at a time; what was ended already is not decided again. Begging others for room is the resolver's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from planner.candidates import Candidate
from planner.elastic import HeldGroup, held_groups
from planner.ending import ending_leases
from planner.model import Closure, Lease, Node, Role, Run, Snapshot, Step
from planner.stages import Taking
from planner.values import dataclass
from planner.words import count
from planner.world import World

OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"


class Rescue(StrEnum):
    """What becomes of a run that lost something."""

    SWAP = "swap"  # every lost pod has a spare to move to
    SHRINK = "shrink"  # a malleable run gives up the groups that were hit
    REQUEUE = "requeue"  # it begins again with the next attempt, its place kept
    RETRY = "retry"  # likewise, counted against `maxRetries`
    FAIL = "fail"
    NOTHING = "nothing"  # only spares were lost: the run goes on without them


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One lost pod and the spare that it moves to: same rank, same group, each lost lease's payer as before (S2)."""

    lost: tuple[Lease, ...]  # the leases of one pod
    spares: tuple[Lease, ...]  # on one node
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """One lease that ends, and why."""

    lease: Lease
    reason: Closure


@dataclass(frozen=True, slots=True, kw_only=True)
class RescuePlan:
    """All that one run, and the fillers in its way, has to do about a loss."""

    run: str
    rescue: Rescue
    moves: tuple[Move, ...]
    ends: tuple[Ending, ...]  # by lease key
    message: str
    trace: tuple[Step, ...]


def failed_nodes(snapshot: Snapshot, world: World) -> frozenset[str]:
    """S1: nodes that open leases name and that are gone, and those out of service. Cordon or NotReady is neither."""
    named = {lease.node for lease in world.leases.values()}
    gone = {name for name in named if name not in world.fleet.nodes}
    return frozenset(gone | {node.name for node in snapshot.nodes if _out_of_service(node)})


def plan_rescues(snapshot: Snapshot, now: int) -> tuple[RescuePlan, ...]:
    """S1-S3 for every run that lost something, by key."""
    world = World.of(snapshot, now)
    lost = lost_leases(snapshot, world)
    hit = sorted({lease.run_key for lease in lost.values() if lease.run_key in world.runs})
    return tuple(rescue(world, world.runs[key], lost) for key in hit)


def lost_leases(snapshot: Snapshot, world: World) -> dict[str, Lease]:
    """Open leases whose node failed or whose pod did, that nothing has ended yet."""
    nodes, ending = failed_nodes(snapshot, world), ending_leases(snapshot)
    failed = {(pod.namespace, pod.name, pod.uid) for pod in snapshot.pods if pod.phase == "Failed"}
    return {
        key: lease
        for key, lease in sorted(world.leases.items())
        if key not in ending and (lease.node in nodes or _pod_of(lease) in failed)
    }


def rescue(world: World, run: Run, lost: Mapping[str, Lease]) -> RescuePlan:
    """S2 before S3: a spare if there is one for every lost pod of a group, else what the run can bear."""
    groups = [group for group in held_groups(world, run) if any(lease.key in lost for lease in group.leases)]
    nodes = failed_nodes(world.snapshot, world)
    moves: list[Move] = []
    unswapped: list[HeldGroup] = []
    for group in groups:
        found = _moves(group, lost, nodes)
        if found is None:
            unswapped.append(group)
        else:
            moves.extend(found)
    if not unswapped:
        return _swapped(world, run, groups, moves, lost, nodes)
    return _unswapped(world, run, groups, unswapped, moves, lost, nodes)


def _moves(group: HeldGroup, lost: Mapping[str, Lease], nodes: frozenset[str]) -> list[Move] | None:
    """S2: each lost pod to the smallest spare of its group that is large enough; None if one finds none."""
    slots = _spares_by_node(group, lost, nodes)
    moves = []
    for pod in _lost_pods(group, lost):
        need = sum(lease.gpus for lease in pod)
        spares = _smallest(slots, need)
        if spares is None:
            return None
        for lease in spares:
            slots[lease.node].remove(lease)
        moves.append(Move(lost=pod, spares=spares, node=spares[0].node))
    return moves


def _smallest(slots: Mapping[str, list[Lease]], need: int) -> tuple[Lease, ...] | None:
    """The smallest spare that is enough, else spares of one node together; ties by key."""
    single = [(lease.gpus, lease.key, lease) for held in slots.values() for lease in held if lease.gpus >= need]
    if single:
        return (min(single, key=lambda found: found[:2])[2],)
    for name in sorted(slots):
        together: list[Lease] = []
        for lease in sorted(slots[name], key=lambda lease: (-lease.gpus, lease.key)):
            together.append(lease)
            if sum(each.gpus for each in together) >= need:
                return tuple(sorted(together, key=lambda each: each.key))
    return None


def _spares_by_node(group: HeldGroup, lost: Mapping[str, Lease], nodes: frozenset[str]) -> dict[str, list[Lease]]:
    found: dict[str, list[Lease]] = {}
    for lease in group.leases:
        if lease.role is Role.SPARE and lease.key not in lost and lease.node not in nodes:
            found.setdefault(lease.node, []).append(lease)
    return found


def _lost_pods(group: HeldGroup, lost: Mapping[str, Lease]) -> list[tuple[Lease, ...]]:
    """The lost pods of a group, largest first; a pod with two payers has two leases (C8)."""
    pods: dict[tuple[str, str], list[Lease]] = {}
    for lease in group.leases:
        if lease.key in lost and lease.role is not Role.SPARE:
            pods.setdefault((lease.node, lease.pod.uid if lease.pod else lease.key), []).append(lease)
    found = [tuple(leases) for leases in pods.values()]
    return sorted(found, key=lambda pod: (-sum(lease.gpus for lease in pod), pod[0].key))


def _swapped(
    world: World,
    run: Run,
    groups: Sequence[HeldGroup],
    moves: Sequence[Move],
    lost: Mapping[str, Lease],
    nodes: frozenset[str],
) -> RescuePlan:
    """S2: fillers in the way end, the spares end, the lost leases end; the pods start again on the spares' nodes."""
    ends = [Ending(lease=lease, reason=_loss(lease, nodes)) for lease in _lost_of(groups, lost)]
    ends += [Ending(lease=lease, reason=Closure.SWAP) for move in moves for lease in move.spares]
    ends += [Ending(lease=lease, reason=Closure.RECLAIMED_BY_SPARE) for lease in _in_the_way(world, moves)]
    kind = Rescue.SWAP if moves else Rescue.NOTHING
    if not moves:
        words = f"{run.key} lost spares only"
    else:
        words = f"{run.key}: {count(len(moves), 'pod')} lost, swapped to {', '.join(move.node for move in moves)}"
    steps = [_step("S2", run, move.lost[0], move.node, sum(lease.gpus for lease in move.lost)) for move in moves]
    return _plan(run, kind, moves, ends, words, steps)


def _unswapped(
    world: World,
    run: Run,
    groups: Sequence[HeldGroup],
    unswapped: Sequence[HeldGroup],
    moves: Sequence[Move],
    lost: Mapping[str, Lease],
    nodes: frozenset[str],
) -> RescuePlan:
    """S3: the spares were too few or too small, which is said; then shrink, begin again, or fail."""
    note = "; ".join(_too_small(group, lost, nodes) for group in unswapped)
    width = sum(group.width for group in held_groups(world, run)) - sum(group.width for group in unswapped)
    if run.malleable is not None and width >= run.malleable.gpus_min:
        kept = [group for group in groups if group not in unswapped]
        swap = _swapped(world, run, kept, moves, lost, nodes)
        ends = [*swap.ends, *_group_ends(unswapped, lost, nodes)]
        words = f"{run.key} shrinks to {width}: {note}"
        return _plan(run, Rescue.SHRINK, moves, ends, words, [*swap.trace, *_lost_steps(run, unswapped)])
    kind, words = _begin_again(run, unswapped, lost, nodes)
    whole = held_groups(world, run)
    ends = [
        Ending(lease=lease, reason=_loss(lease, nodes) if lease.key in lost else Closure.FAIL)
        for group in whole
        for lease in group.leases
    ]
    return _plan(run, kind, (), ends, f"{words}: {note}", _lost_steps(run, unswapped))


def _begin_again(
    run: Run, hit: Sequence[HeldGroup], lost: Mapping[str, Lease], nodes: frozenset[str]
) -> tuple[Rescue, str]:
    """S3: after a lost node a run with a checkpoint is requeued; after a failed pod it is tried up to `maxRetries`."""
    leases = [lease for group in hit for lease in group.leases if lease.key in lost]
    attempt = max(lease.attempt for lease in leases)
    if all(lease.node in nodes for lease in leases) and run.checkpoint is not None:
        return Rescue.REQUEUE, f"{run.key} is requeued as attempt {attempt + 1}"
    if attempt <= run.retries_max:
        return Rescue.RETRY, f"{run.key} is tried again as attempt {attempt + 1} of {run.retries_max + 1}"
    return Rescue.FAIL, f"{run.key} fails in attempt {attempt}"


def _group_ends(groups: Iterable[HeldGroup], lost: Mapping[str, Lease], nodes: frozenset[str]) -> list[Ending]:
    """The groups that leave: what was lost as lost, the rest with their spares as shrunk (E1)."""
    return [
        Ending(lease=lease, reason=_loss(lease, nodes) if lease.key in lost else Closure.SHRINK)
        for group in groups
        for lease in group.leases
    ]


class _Seats:
    """The goal of ending fillers on a node: that the pods which move to its spares fit (P1)."""

    def __init__(self, world: World, node: str, moves: Iterable[Move]) -> None:
        self._node = world.fleet.nodes[node]
        self._use = world.fleet.use[node].copy()
        for move in moves:
            for lease in move.spares:
                self._use.hold(lease.role, -lease.gpus)
            self._use.hold(Role.ACTIVE, sum(lease.gpus for lease in move.lost))

    def free(self, leases: Iterable[Lease]) -> None:
        for lease in leases:
            if lease.node == self._node.name:
                self._use.hold(lease.role, -lease.gpus)

    def unfree(self, leases: Iterable[Lease]) -> None:
        for lease in leases:
            if lease.node == self._node.name:
                self._use.hold(lease.role, lease.gpus)

    def lacks(self) -> int:
        use = self._use
        return use.active + max(use.spare, use.filler) + use.rest - self._node.gpus

    def gain_max(self, candidate: Candidate) -> int:
        return candidate.gpus

    def reached(self) -> bool:
        return self.lacks() <= 0


def _in_the_way(world: World, moves: Sequence[Move]) -> list[Lease]:
    """S2: fillers on the spare end, whole runs of them, and no more than the pods need."""
    reclaimed: dict[str, Lease] = {}
    ending = ending_leases(world.snapshot)
    for node in sorted({move.node for move in moves}):
        left = world.without([*reclaimed, *ending])
        taking = Taking(_Seats(left, node, [move for move in moves if move.node == node]))
        here = {lease.run_key for lease in left.leases.values() if _fills(lease, node)}
        taking.take_sized([_filler(left, key) for key in sorted(here)])
        taking.give_back()
        reclaimed.update((lease.key, lease) for candidate in taking.taken for lease in candidate.leases)
    return [reclaimed[key] for key in sorted(reclaimed)]


def _filler(world: World, key: str) -> Candidate:
    leases = [lease for lease in world.leases.values() if lease.run_key == key]
    return Candidate.of(1, Closure.RECLAIMED_BY_SPARE, leases, group=None, key=key)


def _fills(lease: Lease, node: str) -> bool:
    return lease.role is Role.FILLER and lease.node == node


def _lost_of(groups: Iterable[HeldGroup], lost: Mapping[str, Lease]) -> list[Lease]:
    return [lease for group in groups for lease in group.leases if lease.key in lost]


def _loss(lease: Lease, nodes: frozenset[str]) -> Closure:
    return Closure.NODE_FAILURE if lease.node in nodes else Closure.FAIL


def _too_small(group: HeldGroup, lost: Mapping[str, Lease], nodes: frozenset[str]) -> str:
    need = sum(lease.gpus for lease in group.leases if lease.key in lost and lease.role is not Role.SPARE)
    have = sum(lease.gpus for held in _spares_by_node(group, lost, nodes).values() for lease in held)
    if not have:
        return f"group {group.index} lost {need} GPUs and has no spare"
    return f"group {group.index} lost {need} GPUs, its spares hold {have} together and are too small"


def _lost_steps(run: Run, groups: Iterable[HeldGroup]) -> list[Step]:
    return [_step("S3", run, group.leases[0], None, group.gpus) for group in groups]


def _step(rule: str, run: Run, lost: Lease, node: str | None, gpus: int) -> Step:
    return Step(rule=rule, act="cut", subject=run.key, group=lost.group, node=node, took=gpus, note=f"lost {lost.node}")


def _plan(
    run: Run, kind: Rescue, moves: Sequence[Move], ends: Iterable[Ending], words: str, steps: Iterable[Step]
) -> RescuePlan:
    ordered = tuple(sorted(ends, key=lambda ending: ending.lease.key))
    return RescuePlan(run=run.key, rescue=kind, moves=tuple(moves), ends=ordered, message=words, trace=tuple(steps))


def _pod_of(lease: Lease) -> tuple[str, str, str] | None:
    return (lease.namespace, lease.pod.name, lease.pod.uid) if lease.pod else None


def _out_of_service(node: Node) -> bool:
    return any(taint.key == OUT_OF_SERVICE for taint in node.taints)
