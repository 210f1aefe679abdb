"""An upper bound of what the fleet could hold as leases end: whether asking pack is worth it at all.

Counts pods by node and ignores everything that could only take away (promises, CPU, memory, spares). It never says no
where pack would say yes; `pack` alone says yes.
"""

from __future__ import annotations

from collections.abc import Iterable

from planner.model import Domain, Lease, Run
from planner.shape import shape_of
from planner.topology import NodeUse
from planner.world import World


class Outlook:
    """How many pods of a run each domain could hold, kept up to date lease by lease."""

    def __init__(self, world: World, run: Run) -> None:
        least = run.malleable.gpus_min if run.malleable else None
        self._shape = shape_of(run, least)
        self._nodes = world.fleet.nodes
        self._filler = run.opportunistic
        self._use: dict[str, NodeUse] = {}
        self._pods: dict[Domain, int] = {}
        self._copied: set[str] = set()  # nodes whose use is a copy of our own
        use = world.fleet.use
        for domain, island in world.room(run).islands.items():
            for name in island.free:
                self._use[name] = use[name]
            self._pods[domain] = sum([self._holds(name) for name in island.free])

    def end(self, leases: Iterable[Lease], sign: int = 1) -> None:
        """These leases are over; with sign -1 they are not after all."""
        for lease in leases:
            use, node = self._use.get(lease.node), self._nodes.get(lease.node)
            if use is None or node is None or node.domain is None:
                continue
            if lease.node not in self._copied:
                self._copied.add(lease.node)
                use = self._use[lease.node] = use.copy()
            before = self._holds(lease.node)
            use.hold(lease.role, -sign * lease.gpus)
            self._pods[node.domain] += self._holds(lease.node) - before

    def could_hold_without(self, leases: Iterable[Lease]) -> bool:
        """Whether it could once these are over too."""
        gone = tuple(leases)
        self.end(gone)
        could = self.could_hold()
        self.end(gone, sign=-1)
        return could

    def gpus_most(self) -> int:
        """The most that the run's own shape could be given, in whole groups."""
        shape, counts = self._shape, self._pods.values()
        unit = shape.group_pods or 1
        whole = [count // unit * unit for count in counts]
        pods = sum(whole) if shape.spread else max(whole, default=0)
        return pods * shape.gpus_per_pod

    def could_hold(self) -> bool:
        """P2: whether the groups could lie in the domains, by pods alone."""
        shape, counts = self._shape, self._pods.values()
        if not shape.spread:
            return max(counts, default=0) >= shape.pods
        if shape.group_pods is None:
            return sum(counts) >= shape.pods
        return sum(count // shape.group_pods for count in counts) >= shape.groups

    def _holds(self, name: str) -> int:
        use = self._use[name]
        shared = use.filler if self._filler or use.filler > use.spare else use.spare
        free = self._nodes[name].gpus - use.active - use.rest - shared
        return free // self._shape.gpus_per_pod if free > 0 else 0
