"""One domain as the resolver tries it: whether a piece of the winner fits there once some leases are gone (R2).

Pack alone says yes. A count of pods, kept up to date lease by lease, says no early, so that pack is asked only where
the answer is open.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from planner.candidates import Candidate
from planner.model import Domain, Lease, Run
from planner.piece import Piece, less, missing, put
from planner.shape import PlacedGroup, Shape
from planner.topology import NodeUse, Room
from planner.world import World


class Ground:
    """The goal of the stages in one domain: that pack places the piece there."""

    def __init__(
        self, world: World, run: Run, shape: Shape, piece: Piece, domain: Domain, placed: Sequence[PlacedGroup]
    ) -> None:
        self._world, self._run, self._shape, self._piece, self._placed = world, run, shape, piece, placed
        self.domain = domain
        self._freed: dict[str, Lease] = {}
        self._use: dict[str, NodeUse] = {}
        self._base: dict[str, int] = {}  # GPUs that no ending of a lease can free: foreign pods, promises, this plan
        room = less(world.room(run, only=domain), placed, shape.gpus_per_pod)
        self._count = 0
        for name, free in room.islands[domain].free.items() if domain in room.islands else ():
            use = world.fleet.use[name].copy()
            self._use[name] = use
            # What is free now tells what else is held: free = base - Active - max(Spare, Borrowed), or less if 0.
            self._base[name] = free + use.active + max(use.spare, use.filler)
            self._count += free // shape.gpus_per_pod

    def free(self, leases: Iterable[Lease]) -> None:
        for lease in leases:
            self._freed[lease.key] = lease
            self._recount(lease, -1)

    def unfree(self, leases: Iterable[Lease]) -> None:
        for lease in leases:
            del self._freed[lease.key]
            self._recount(lease, 1)

    def lacks(self) -> int:
        """Pods that certainly find no place; spares are left out of this bound, since they may lie elsewhere (P4)."""
        return self._piece.pods - self._count

    def could_hold(self) -> bool:
        """Whether the piece could find room here if every lease ended; where it could not, nobody need be asked."""
        size = self._shape.gpus_per_pod
        return sum(gpus // size for gpus in self._base.values()) >= self._piece.pods

    def gain_max(self, candidate: Candidate) -> int:
        """Pods that a candidate could make room for: those it gives whole, and one more on each node it leaves."""
        by_node: dict[str, int] = {}
        for lease in candidate.leases:
            if lease.node in self._use:
                by_node[lease.node] = by_node.get(lease.node, 0) + lease.gpus
        size = self._shape.gpus_per_pod
        return sum(-(-gpus // size) for gpus in by_node.values())

    def reached(self) -> bool:
        return self.groups() is not None

    def groups(self) -> tuple[PlacedGroup, ...] | None:
        """The piece as pack places it here now."""
        return put(self._room(), self.domain, self._shape, self._piece)

    def missing(self) -> int:
        """GPUs of pods and spares that pack cannot place here yet."""
        return missing(self._room(), self.domain, self._shape, self._piece)

    def _room(self) -> Room:
        only = None if self._shape.spares else self.domain
        room = self._world.room_without(self._freed.values(), self._run, only)
        return less(room, self._placed, self._shape.gpus_per_pod)

    def _recount(self, lease: Lease, sign: int) -> None:
        use = self._use.get(lease.node)
        if use is None:
            return
        before = self._pods(lease.node, use)
        use.hold(lease.role, sign * lease.gpus)
        self._count += self._pods(lease.node, use) - before

    def _pods(self, name: str, use: NodeUse) -> int:
        held = use.active + max(use.spare, use.filler)
        return max(0, self._base[name] - held) // self._shape.gpus_per_pod
