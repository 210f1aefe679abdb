"""The ledger (section 6): its numbered entries, and the base from which reading begins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.model.budgets import Budget
from planner.model.runs import PodRef, Reservation
from planner.model.vocabulary import EntryKind, FundingClass, Opening, Payer, Role
from planner.values import dataclass

NO_DIGEST = "sha256:" + "0" * 64


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
