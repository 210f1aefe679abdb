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
        for domain, island in world.room(run).islands.items():
            for name in island.free:
                self._use[name] = world.fleet.use[name].copy()
            self._pods[domain] = sum(self._holds(name) for name in island.free)

    def end(self, leases: Iterable[Lease]) -> None:
        """These leases are over."""
        for lease in leases:
            use, domain = (
                self._use.get(lease.node),
                self._nodes[lease.node].domain if lease.node in self._nodes else None,
            )
            if use is None or domain is None:
                continue
            before = self._holds(lease.node)
            use.hold(lease.role, -lease.gpus)
            self._pods[domain] += self._holds(lease.node) - before

    def could_hold(self) -> bool:
        """P2: whether the groups could lie in the domains, by pods alone."""
        shape, counts = self._shape, self._pods.values()
        if not shape.spread:
            return max(counts, default=0) >= shape.pods
        if shape.group_pods is None:
            return sum(counts) >= shape.pods
        return sum(count // shape.group_pods for count in counts) >= shape.groups

    def _holds(self, name: str) -> int:
        use, node = self._use[name], self._nodes[name]
        under = 0 if self._filler else max(use.spare, use.filler)
        held = use.active + (use.filler if self._filler else under) + use.rest
        return max(0, node.gpus - held) // self._shape.gpus_per_pod
