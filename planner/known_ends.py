"""Known ends of open leases, as what they give back: holds of fewer than no GPUs, from the end on.

Beside the promises on the same node or envelope they tell how much is held at any one time, so that a promise may
follow a lease on its GPUs without counting twice (F3).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from planner.holds import FOREVER, Hold
from planner.model import FundingClass, Lease, Payer, Role
from planner.topology import NodeUse


class KnownEnds:
    """What ends when, by node and by payer."""

    def __init__(self, ends: Iterable[tuple[int, Lease]], use: Mapping[str, NodeUse]) -> None:
        self.by_node: dict[str, list[Hold]] = {}
        self.by_payer: dict[tuple[Payer, bool], list[Hold]] = {}
        self._ends: dict[str, list[tuple[int, Lease]]] = {}
        for end, lease in ends:
            if lease.node in use:
                self._ends.setdefault(lease.node, []).append((end, lease))
            if lease.role is not Role.FILLER:  # O1
                self._give_back_room(end, lease)
        for node in self._ends:
            self.by_node[node] = self.on_node(node, use[node])

    def on_node(self, node: str, use: NodeUse, gone: Collection[str] = ()) -> list[Hold]:
        """What a node is given back when; leases that are gone already, by key, give nothing back a second time.

        P1: a filler and the spare under it count once, so the end of one of them may free nothing.
        """
        given, here = list[Hold](), use.copy()
        for end, lease in self._ends.get(node, ()):
            if lease.key in gone:
                continue
            before = _held(here)
            here.hold(lease.role, -lease.gpus)
            freed = before - _held(here)
            if freed:
                given.append(Hold(end, FOREVER, -freed))
        return given

    def without(self, leases: Iterable[Lease], use: Mapping[str, NodeUse]) -> Mapping[str, list[Hold]]:
        """The same by node once those leases are gone, `use` being what is held without them."""
        if not self.by_node:
            return self.by_node
        gone = {lease.key: lease.node for lease in leases}
        touched = {node for node in gone.values() if node in self._ends}
        return self.by_node | {node: self.on_node(node, use[node], gone) for node in sorted(touched)}

    def _give_back_room(self, end: int, lease: Lease) -> None:
        hold = Hold(end, FOREVER, -lease.gpus)
        self.by_payer.setdefault((lease.payer, False), []).append(hold)
        if lease.funding is FundingClass.BORROWED:
            self.by_payer.setdefault((lease.payer, True), []).append(hold)


def _held(use: NodeUse) -> int:
    return use.active + max(use.spare, use.filler)
