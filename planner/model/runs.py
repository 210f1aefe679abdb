"""The work asked for, the leases it holds and the reservations it waits with."""

from __future__ import annotations

from planner.model.fleet import PodNeeds, Selector
from planner.model.vocabulary import FundingClass, Opening, Payer, ReservationState, Role
from planner.values import dataclass


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
