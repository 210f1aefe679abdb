"""Known ends of open leases, as what they give back: holds of fewer than no GPUs, from the end on.

Beside the promises on the same node or envelope they tell how much is held at any one time, so that a promise may
follow a lease on its GPUs without counting twice (F3).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from planner.holds import FOREVER, Hold
from planner.model import FundingClass, Lease, Payer, Role
from planner.topology import NodeUse


class KnownEnds:
    """What ends when, by node and by payer."""

    def __init__(self, ends: Iterable[tuple[int, Lease]], use: Mapping[str, NodeUse]) -> None:
        self.by_node: dict[str, list[Hold]] = {}
        self.by_payer: dict[tuple[Payer, bool], list[Hold]] = {}
        left: dict[str, NodeUse] = {}
        for end, lease in ends:
            if lease.node in use:
                here = left.get(lease.node)
                if here is None:
                    here = left[lease.node] = use[lease.node].copy()
                self._give_back_gpus(here, end, lease)
            if lease.role is not Role.FILLER:  # O1
                self._give_back_room(end, lease)

    def _give_back_gpus(self, here: NodeUse, end: int, lease: Lease) -> None:
        """P1: a filler and the spare under it count once, so the end of one of them may free nothing."""
        before = _held(here)
        here.hold(lease.role, -lease.gpus)
        freed = before - _held(here)
        if freed:
            self.by_node.setdefault(lease.node, []).append(Hold(end, FOREVER, -freed))

    def _give_back_room(self, end: int, lease: Lease) -> None:
        hold = Hold(end, FOREVER, -lease.gpus)
        self.by_payer.setdefault((lease.payer, False), []).append(hold)
        if lease.funding is FundingClass.BORROWED:
            self.by_payer.setdefault((lease.payer, True), []).append(hold)


def _held(use: NodeUse) -> int:
    return use.active + max(use.spare, use.filler)
