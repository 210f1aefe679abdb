"""The words of the design as frozen values: what a snapshot holds and what a decision is made of.

Nothing here decides. Instants are whole Unix seconds in UTC and spans are whole seconds, so GPU-hours are integer
GPU-seconds. Keys of runs are `namespace/name`; a payer is written `budget/envelope`; a domain `region/cluster/fabric`.

Each module holds one topic: `vocabulary`, `fleet`, `budgets`, `runs` (with leases and reservations), `ledger`,
`snapshot` (what goes in) and `decision` (what comes out). Everything outside imports from `planner.model`.
"""

from __future__ import annotations

from planner.model.budgets import AggregateCap, Budget, Envelope, Lending
from planner.model.decision import Chance, Cut, Decision, GroupSlice, Lottery, Remedy, Seat, Step
from planner.model.fleet import ENDED_PHASES, LabelRequirement, Node, Pod, PodNeeds, Selector, Taint, Toleration
from planner.model.ledger import (
    NO_DIGEST,
    Closed,
    DrawRecord,
    Ended,
    Entry,
    Freeze,
    LedgerBase,
    Opened,
    RunRef,
    Settled,
    Token,
)
from planner.model.runs import Funding, Lease, Malleable, PayerShare, PodRef, Reservation, Run, SliceGroup, SliceNode
from planner.model.snapshot import Snapshot
from planner.model.vocabulary import (
    DAY,
    Closure,
    Confidence,
    Domain,
    EntryKind,
    FundingClass,
    Opening,
    Payer,
    Reason,
    ReservationState,
    Role,
    Verdict,
)

__all__ = [
    "DAY",
    "ENDED_PHASES",
    "NO_DIGEST",
    "AggregateCap",
    "Budget",
    "Chance",
    "Closed",
    "Closure",
    "Confidence",
    "Cut",
    "Decision",
    "Domain",
    "DrawRecord",
    "Ended",
    "Entry",
    "EntryKind",
    "Envelope",
    "Freeze",
    "Funding",
    "FundingClass",
    "GroupSlice",
    "LabelRequirement",
    "Lease",
    "LedgerBase",
    "Lending",
    "Lottery",
    "Malleable",
    "Node",
    "Opened",
    "Opening",
    "Payer",
    "PayerShare",
    "Pod",
    "PodNeeds",
    "PodRef",
    "Reason",
    "Remedy",
    "Reservation",
    "ReservationState",
    "Role",
    "Run",
    "RunRef",
    "Seat",
    "Selector",
    "Settled",
    "SliceGroup",
    "SliceNode",
    "Snapshot",
    "Step",
    "Taint",
    "Token",
    "Toleration",
    "Verdict",
]
