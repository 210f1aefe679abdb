"""The closed lists of words, and the two names that everything else is keyed by: a domain and a payer.

What is spelled here is spelled so on the wire.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

DAY = 24 * 3600


class Role(StrEnum):
    """What a lease's GPUs are held for. A filler's role is spelled `Borrowed` on the wire (O1)."""

    ACTIVE = "Active"
    SPARE = "Spare"
    FILLER = "Borrowed"


class FundingClass(StrEnum):
    """How a lease is paid: by the run's own owner, by its family, or by a lender."""

    OWNED = "owned"
    SHARED = "shared"
    BORROWED = "borrowed"


class Opening(StrEnum):
    """Why a lease exists."""

    START = "Start"
    GROW = "Grow"
    SWAP = "Swap"


class Closure(StrEnum):
    """Why a lease ended. A lottery's is `RandomPreempt(<seed>)`, so closing reasons travel as plain strings."""

    COMPLETED = "Completed"
    FAIL = "Fail"
    NODE_FAILURE = "NodeFailure"
    SHRINK = "Shrink"
    SWAP = "Swap"
    RECLAIMED_BY_SPARE = "ReclaimedBySpare"
    END_FILLER = "EndFiller"
    DROP_SPARE = "DropSpare"
    RANDOM_PREEMPT = "RandomPreempt"
    CANCELED = "Canceled"


class Reason(StrEnum):
    """Every way to say no (C7), of funding, of placement and of the request."""

    NO_ENVELOPE = "NoEnvelope"
    WINDOW_CLOSED = "WindowClosed"
    CONCURRENCY_CAP = "ConcurrencyCap"
    GPU_HOUR_CAP = "GPUHourCap"
    AGGREGATE_CAP = "AggregateCap"
    BORROW_NOT_ALLOWED = "BorrowNotAllowed"
    ACL_DENIED = "ACLDenied"
    LENDING_CAP = "LendingCap"
    BORROW_LIMIT = "BorrowLimit"
    QUEUED = "Queued"
    NO_TOPOLOGY = "NoTopology"
    NO_CAPACITY = "NoCapacity"
    NO_SPARE_NODE = "NoSpareNode"
    OWNER_MISMATCH = "OwnerMismatch"
    BELOW_MINIMUM = "BelowMinimum"
    OVER_CAP = "OverCap"
    CANCELED = "Canceled"


class Verdict(StrEnum):
    """The answer of a decision."""

    START = "start"
    RESERVE = "reserve"
    REFUSE = "refuse"
    NONE = "none"
    CUT = "cut"


class Confidence(StrEnum):
    """How sure a forecast is (F1)."""

    EXACT = "exact"
    NEEDS_CUTS = "needs-cuts"


class EntryKind(StrEnum):
    """What a ledger entry records (section 6)."""

    START = "Start"
    GROW = "Grow"
    RESERVE = "Reserve"
    FREEZE = "Freeze"
    CUT = "Cut"
    SWAP = "Swap"
    END = "End"
    CLOSE = "Close"


class ReservationState(StrEnum):
    """Where a promise stands."""

    PENDING = "Pending"
    ACTIVE = "Active"
    RELEASED = "Released"
    BLOCKED = "Blocked"
    CANCELED = "Canceled"


class Domain(NamedTuple):
    """A fast-fabric island: nodes with equal `region`, `cluster` and `fabric.domain` labels."""

    region: str
    cluster: str
    fabric: str

    @property
    def name(self) -> str:
        return "/".join(self)


class Payer(NamedTuple):
    """The one envelope a lease is debited to."""

    budget: str
    envelope: str

    @property
    def name(self) -> str:
        return f"{self.budget}/{self.envelope}"
