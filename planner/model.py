"""The words of the design as frozen values: what a snapshot holds and what a decision is made of.

Nothing here decides. Instants are whole Unix seconds in UTC and spans are whole seconds, so GPU-hours are integer
GPU-seconds. Keys of runs are `namespace/name`; a payer is written `budget/envelope`; a domain `region/cluster/fabric`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from planner.values import dataclass, field

DAY = 24 * 3600
NO_DIGEST = "sha256:" + "0" * 64


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
    NOT_DUE = "NotDue"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """Limits a location; an absent key or `*` matches any value (section 4)."""

    region: str = "*"
    cluster: str = "*"
    fabric: str = "*"

    def matches(self, domain: Domain) -> bool:
        return (
            self.region in ("*", domain.region)
            and self.cluster in ("*", domain.cluster)
            and self.fabric in ("*", domain.fabric)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Toleration:
    key: str = ""  # empty with operator Exists tolerates everything
    operator: str = "Equal"
    value: str = ""
    effect: str = ""  # empty matches every effect


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelRequirement:
    """One expression of a node affinity; `field` ones are about `metadata.name`."""

    key: str
    operator: str  # In NotIn Exists DoesNotExist Gt Lt
    values: tuple[str, ...] = ()
    is_field: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PodNeeds:
    """What one pod of a run asks of a node besides GPUs (P1)."""

    cpu_milli: int = 0
    memory_bytes: int = 0
    node_selector: tuple[tuple[str, str], ...] = ()
    # Required node affinity: any one term must hold, and in it every requirement. None: no affinity at all.
    affinity: tuple[tuple[LabelRequirement, ...], ...] | None = None
    tolerations: tuple[Toleration, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    name: str
    domain: Domain | None = None  # None: a label is missing, so the node takes no work (P1)
    flavor: str | None = None
    rack: str | None = None
    gpus: int = 0  # allocatable
    cpu_milli: int | None = None  # None: the node does not state it
    memory_bytes: int | None = None
    pods: int | None = None
    cordoned: bool = False
    ready: bool = True
    taints: tuple[Taint, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod as the planner sees it. `live` is false once its phase is Succeeded or Failed."""

    namespace: str
    name: str
    uid: str
    node: str = ""  # empty: not bound
    gpus: int = 0
    cpu_milli: int = 0
    memory_bytes: int = 0
    phase: str = "Pending"
    terminating: bool = False
    finished_at: int | None = None
    run_uid: str = ""  # of the owning Run, from its owner reference; empty for foreign pods
    created_at: int = 0

    @property
    def live(self) -> bool:
        return self.phase not in ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lending:
    allow: bool = False
    to: tuple[str, ...] = ()  # globs; an empty list lends to nobody
    concurrency_max: int | None = None
    gpu_hours_max: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    name: str
    flavor: str
    selector: Selector = Selector()
    concurrency: int
    gpu_hours_max: int | None = None
    start_at: int | None = None
    end_at: int | None = None
    sharing: str = "family"  # family | none
    queueing: str = "BestEffortFIFO"  # BestEffortFIFO | StrictFIFO
    lending: Lending = Lending()


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateCap:
    name: str
    flavor: str
    envelopes: tuple[str, ...]
    concurrency_max: int | None = None
    gpu_hours_max: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    name: str
    owner: str
    parents: tuple[str, ...] | None = None  # None: the owner's path without its last part
    envelopes: tuple[Envelope, ...] = ()
    caps: tuple[AggregateCap, ...] = ()
    generation: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Malleable:
    gpus_min: int
    gpus_max: int
    gpus_step: int
    gpus_desired: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Funding:
    allow_borrow: bool = False
    borrow_gpus_max: int | None = None
    sponsors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The work asked for. `owner` is resolved (the namespace's where the spec is silent)."""

    namespace: str
    name: str
    uid: str = ""  # empty: not created yet
    owner: str
    flavor: str
    gpus_total: int
    gpus_per_pod: int = 1
    group_gpus: int | None = None
    cross_group_spread: bool = True
    selector: Selector = Selector()
    malleable: Malleable | None = None
    spares_per_group: int = 0  # in pods
    canceled: bool = False
    funding: Funding = Funding()
    duration: int | None = None
    opportunistic: bool = False
    checkpoint: int | None = None
    retries_max: int = 0
    needs: PodNeeds = PodNeeds()
    created_at: int = 0
    deleting: bool = False

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRef:
    name: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The fact that a run held GPUs of one node, for one payer, in one role, from a start to an end."""

    namespace: str
    name: str
    owner: str
    run_name: str
    run_uid: str
    attempt: int = 1
    pod: PodRef | None = None
    group: int
    node: str
    gpus: int
    role: Role
    start_at: int
    payer: Payer
    funding: FundingClass
    reason: Opening = Opening.START
    closed: bool = False
    end_at: int | None = None
    closure: str | None = None

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def run_key(self) -> str:
        return f"{self.namespace}/{self.run_name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceNode:
    name: str
    gpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceGroup:
    index: int
    domain: str
    nodes: tuple[SliceNode, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PayerShare:
    payer: Payer
    gpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """A promise: this run, this slice, not before this time. `earliest_start` is None while Blocked."""

    namespace: str
    name: str
    uid: str = ""
    run_name: str
    run_uid: str
    gpus: int
    groups: tuple[SliceGroup, ...] = ()
    payers: tuple[PayerShare, ...] = ()
    earliest_start: int | None = None
    state: ReservationState = ReservationState.PENDING
    reason: str = ""
    created_at: int = 0

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def run_key(self) -> str:
        return f"{self.namespace}/{self.run_name}"

    @property
    def open(self) -> bool:
        return self.state not in (ReservationState.RELEASED, ReservationState.CANCELED)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRef:
    namespace: str
    name: str
    uid: str
    attempt: int = 1

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """One lease that an entry opens; it starts at the entry's time, in the run's namespace."""

    lease: str
    pod: PodRef | None = None
    node: str
    gpus: int
    role: Role
    group: int
    owner: str
    payer: Payer
    funding: FundingClass
    reason: Opening


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A lease whose pod has to stop; its GPUs stay held until a Close."""

    namespace: str
    lease: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    namespace: str
    lease: str
    at: int
    reason: str
    gpu_seconds: int
    payer: Payer
    funding: FundingClass
    spec: str  # digest of the lease's spec


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """One ticket of the lottery: a fixed run, cut whole (R3)."""

    owner: str
    run: str
    gpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Freeze:
    algorithm: str
    flavor: str
    nodes: tuple[str, ...]
    deficit_gpus: int
    tokens: tuple[Token, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawRecord:
    freeze: int  # number of the Freeze entry
    seed: str  # hex
    picks: tuple[str, ...]
    given_back: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One numbered record of the append-only ledger. `void` says why it changes nothing; empty: it counts."""

    seq: int
    prev: str
    digest: str
    nonce: str
    read_at: int
    time: int  # max(creationTimestamp, time of the entry before)
    created_at: int
    created_at_raw: str = ""  # as the server wrote it: the seed hashes this text (R4)
    uid: str = ""
    kind: EntryKind
    run: RunRef | None = None
    reservation: RunRef | None = None  # namespace, name, uid; attempt unused
    budgets: tuple[Budget, ...] = ()
    plan: str = ""
    trace: tuple[Mapping[str, Any], ...] = ()
    opens: tuple[Opened, ...] = ()
    ends: tuple[Ended, ...] = ()
    closes: tuple[Closed, ...] = ()
    reserve: Reservation | None = None
    freeze: Freeze | None = None
    draw: DrawRecord | None = None
    void: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """GPU-seconds that closed leases add up to, for one payer and class."""

    payer: Payer
    funding: FundingClass
    gpu_seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerBase:
    """Where reading begins: everything at or below `seq` is in the leases, save what is `pending`."""

    seq: int = 0
    digest: str = NO_DIGEST
    time: int = 0
    floor: int = 0
    floor_at: int | None = None
    pending: tuple[int, ...] = ()
    settled: tuple[Settled, ...] = ()


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One fact of a decision: who was asked, what was needed, had and taken, and the rule it follows from.

    `act` is one of: asked took passed placed unplaced fits cut spared drew gave-back waited tried. A field that says
    nothing for an act stays None and is left out of the JSON.
    """

    rule: str  # "C3.1", "P3", "R2.3"
    act: str
    subject: str  # "rai/west-h100", "us-west/a/d1", "ns/run"
    group: int | None = None
    node: str | None = None
    role: Role | None = None
    funding: FundingClass | None = None
    need: int | None = None
    had: int | None = None
    took: int | None = None
    cap: int | None = None
    reason: Reason | None = None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """One lease to be: GPUs of one node for one pod (or spare slot) of a group, paid by one envelope.

    `rank` numbers the pods of the run, `slot` the spares of its group; two seats of one rank are one pod with two
    payers (C8).
    """

    group: int
    rank: int | None = None  # None: a spare, which has no pod
    slot: int | None = None
    node: str
    gpus: int
    role: Role
    payer: Payer
    owner: str  # the payer's owner
    funding: FundingClass


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSlice:
    """A group's domain; its placements are the seats with this index."""

    index: int
    domain: Domain


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Leases that one stage of the resolver ends. `group` is None where a run is cut whole."""

    kind: Closure  # END_FILLER DROP_SPARE SHRINK RANDOM_PREEMPT
    run: str
    group: int | None
    leases: tuple[str, ...]  # keys, sorted
    gpus: int
    provisional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Chance:
    """A token with its chance at the first draw, as a fraction in words ("1/4")."""

    token: Token
    chance: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lottery:
    seed: str
    provisional: bool
    chances: tuple[Chance, ...]
    freeze: Freeze
    picks: tuple[str, ...] = ()
    given_back: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """One change that the planner tried itself, and what it would achieve (F4)."""

    kind: str  # AskLess ShrinkOther AddSponsor AllowBorrow RaiseBorrowLimit AllowSpread DropSpares SetDuration Wait
    message: str
    command: str
    starts_at: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What the planner says, and why. `seats` hold the whole slice; payers and groups of the JSON are derived."""

    verdict: Verdict
    run: str | None
    reason: Reason | None = None
    message: str = ""
    width: int = 0  # active GPUs
    groups: tuple[GroupSlice, ...] = ()
    seats: tuple[Seat, ...] = ()
    earliest_start: int | None = None
    confidence: Confidence | None = None
    deficit_gpus: int = 0
    cuts: tuple[Cut, ...] = ()
    lottery: Lottery | None = None
    remedies: tuple[Remedy, ...] = ()
    trace: tuple[Step, ...] = ()
    asked: tuple[str, ...] = ()  # names of the budgets that were asked: an entry records them as they stood
    # A Blocked reservation names the envelopes it asked and found full (F1 d); others leave this empty.
    waits_for: tuple[PayerShare, ...] = ()
