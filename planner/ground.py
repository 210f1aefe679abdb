"""One domain as the resolver tries it: whether a piece of the winner fits there once some leases are gone (R2).

A count of the pods that each node would take, kept up to date lease by lease, answers at once for a piece without
spares: its pods may lie on any nodes of the domain. Spares must keep off their group's nodes, so there pack is asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from planner.candidates import Candidate
from planner.model import Lease, Run
from planner.piece import Piece, less, missing, put
from planner.shape import PlacedGroup, Shape
from planner.topology import Fleet, Island, Room
from planner.world import World


class Ground:
    """The goal of the stages in one domain: that pack places the piece there."""

    def __init__(
        self, world: World, run: Run, shape: Shape, piece: Piece, island: Island, placed: Sequence[PlacedGroup]
    ) -> None:
        self._world, self._run, self._shape, self._piece, self._placed = world, run, shape, piece, placed
        self.domain = island.domain
        self._freed: dict[str, Lease] = {}
        self._gone_pods: Counter[tuple[str, str, str]] = Counter()
        ends = world.known_ends.by_node
        self._ends = {name: ends[name] for name in island.free if name in ends} if ends else {}
        self._view = replace(world.view(run), known_ends=self._ends)
        self._touched: set[str] = set()  # nodes whose use is a copy of our own
        self._fleet = Fleet(world.fleet.nodes, {name: world.fleet.use[name] for name in island.free}, world.fleet.holds)
        self._own = _pods_by_node(placed)
        self._pods = _pods_of(island, shape.gpus_per_pod, self._own)
        self._count = sum(self._pods.values())
        # Where spares or fillers are placed, a count of pods says no early but not yes.
        self._count_decides = not shape.spares and not shape.filler

    def free(self, leases: Iterable[Lease]) -> None:
        for lease in leases:
            self._freed[lease.key] = lease
            self._turn(lease, 1)

    def unfree(self, leases: Iterable[Lease]) -> None:
        for lease in leases:
            del self._freed[lease.key]
            self._turn(lease, -1)

    def lacks(self) -> int:
        """Pods that certainly find no place; spares are left out of this bound, since they may lie elsewhere (P4)."""
        return self._piece.pods - self._count

    def could_hold(self) -> bool:
        """Whether the piece could find room here if every lease ended; where it could not, nobody need be asked."""
        nodes, size = self._fleet.nodes, self._shape.gpus_per_pod
        return sum(nodes[name].gpus // size for name in self._pods) >= self._piece.pods

    def gain_max(self, candidate: Candidate) -> int:
        """Pods that a candidate could make room for: those it gives whole, and one more on each node it leaves."""
        by_node: dict[str, int] = {}
        for lease in candidate.leases:
            if lease.node in self._pods:
                by_node[lease.node] = by_node.get(lease.node, 0) + lease.gpus
        size = self._shape.gpus_per_pod
        return sum(-(-gpus // size) for gpus in by_node.values())

    def reached(self) -> bool:
        return self.lacks() <= 0 and (self._count_decides or self.groups() is not None)

    def groups(self) -> tuple[PlacedGroup, ...] | None:
        """The piece as pack places it here now."""
        return put(self._room(), self.domain, self._shape, self._piece)

    def missing(self) -> int:
        """GPUs of pods and spares that pack cannot place here yet."""
        if self._count_decides and len(self._piece.groups) == 1:
            return max(0, self.lacks()) * self._shape.gpus_per_pod
        return missing(self._room(), self.domain, self._shape, self._piece)

    def _room(self) -> Room:
        only = None if self._shape.spares else self.domain
        room = self._world.room_without(self._freed.values(), self._run, only)
        return less(room, self._placed, self._shape.gpus_per_pod)

    def _turn(self, lease: Lease, sign: int) -> None:
        """A lease goes (1) or comes back (-1), its pod with it; the node is counted anew."""
        use = self._fleet.use.get(lease.node)
        if use is None:
            return
        if lease.node not in self._touched:
            self._touched.add(lease.node)
            use = self._fleet.use[lease.node] = use.copy()
        use.hold(lease.role, -sign * lease.gpus)
        self._turn_pod(lease, sign)
        if lease.node in self._ends:
            self._ends[lease.node] = self._world.known_ends.on_node(lease.node, use, self._freed)
        pods = self._pods_free(lease.node)
        self._count += pods - self._pods[lease.node]
        self._pods[lease.node] = pods

    def _turn_pod(self, lease: Lease, sign: int) -> None:
        """A pod with two leases (C8) goes with the first of them and is back with the last."""
        if lease.pod is None:
            return
        ref = (lease.namespace, lease.pod.name, lease.pod.uid)
        before = self._gone_pods[ref]
        self._gone_pods[ref] += sign
        pod = self._world.pod(ref)
        if pod is not None and pod.live and (before == 0) != (self._gone_pods[ref] == 0):
            self._fleet.use[lease.node].unseat(pod, times=sign)

    def _pods_free(self, name: str) -> int:
        taken = self._own.get(name, 0)
        return max(0, self._fleet.pods_free(self._fleet.nodes[name], self._run, self._view) - taken)


def _pods_of(island: Island, size: int, own: Mapping[str, int]) -> dict[str, int]:
    """The pods that each node takes now."""
    most, free = island.pods_max, island.free
    pods = {name: min(gpus // size, most.get(name, gpus)) for name, gpus in free.items()}
    for name in own.keys() & pods.keys():
        pods[name] = max(0, pods[name] - own[name])
    return pods


def _pods_by_node(placed: Iterable[PlacedGroup]) -> Counter[str]:
    """Pods and spares of this plan that already have their place."""
    return Counter(node for group in placed for node in (*group.pods, *(node for _, node in group.spares)))
