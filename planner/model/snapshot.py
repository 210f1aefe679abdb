"""What a decision is made from."""

from __future__ import annotations

from collections.abc import Mapping

from planner.model.budgets import Budget
from planner.model.fleet import Node, Pod
from planner.model.ledger import Entry, LedgerBase
from planner.model.runs import Lease, Reservation, Run
from planner.values import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The planner's one input. Order inside the tuples never matters: every index sorts for itself."""

    nodes: tuple[Node, ...] = ()
    pods: tuple[Pod, ...] = ()
    budgets: tuple[Budget, ...] = ()
    runs: tuple[Run, ...] = ()
    leases: tuple[Lease, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    entries: tuple[Entry, ...] = ()  # those in `pending` and those after `base.seq`
    base: LedgerBase | None = None  # None: no Ledger object; closed leases then count themselves
    namespace_owners: Mapping[str, str] = field(default_factory=dict)
    pods_visible: bool = True  # False: foreign pods could not be listed, no plan is exact (section 7)
