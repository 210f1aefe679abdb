"""The facts that an audit goes by: what the entries say, what the objects say, and where to look either up.

Nothing here judges. A void entry keeps its number and has no effect (6.1), so only its place in the chain is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TypeVar

from planner.fold import opened_leases
from planner.model import (
    NO_DIGEST,
    Closed,
    Closure,
    Ended,
    Entry,
    FundingClass,
    Lease,
    LedgerBase,
    Payer,
    Pod,
    Role,
    Run,
    Snapshot,
    Token,
)

T = TypeVar("T")


class Severity(StrEnum):
    """An error breaks what must hold; a warning deserves a look; an info only says how far the audit could see."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Check(StrEnum):
    """What must hold (section 6), one name each."""

    OBJECTS = "objects"
    CHAIN = "chain"
    BASE = "base"
    ATTESTED = "attested"
    GPUS = "gpus"
    CAPS = "caps"
    ONCE = "once"
    PODS = "pods"
    CLOSED_LEASES = "closed-leases"
    TERMINAL_RUNS = "terminal-runs"
    CONSERVATION = "conservation"
    REPLAY = "replay"
    DRAWS = "draws"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that does not hold, and where."""

    check: Check
    severity: Severity
    object: str  # "lease/ns/name", "ledgerentry/000000000042"
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What one check looked at and what it found."""

    examined: int
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """How a reservation's status says that room was made for it; None: it does not say."""

    entry: int | None = None
    seed: str | None = None
    tokens: tuple[Token, ...] | None = None
    picks: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What the objects say beyond the planner's words. What is missing here is not judged."""

    lease_specs: Mapping[str, str] = field(default_factory=dict)  # lease key -> digest of its spec
    phases: Mapping[str, str] = field(default_factory=dict)  # run key -> status.phase
    own_pods: frozenset[str] = frozenset()  # keys of pods with our scheduler's name: nobody else binds those
    resolutions: Mapping[str, Resolution] = field(default_factory=dict)  # reservation key -> status.resolution
    unreadable: tuple[str, ...] = ()  # what was wrong with objects of ours that could not be read
    namespaces: frozenset[str] | None = None  # those that exist and are not Terminating; None: not known


class Findings:
    """Collects the findings of one check."""

    def __init__(self, check: Check) -> None:
        self._check = check
        self._list: list[Finding] = []

    def error(self, subject: str, message: str) -> None:
        self._add(Severity.ERROR, subject, message)

    def warning(self, subject: str, message: str) -> None:
        self._add(Severity.WARNING, subject, message)

    def info(self, subject: str, message: str) -> None:
        self._add(Severity.INFO, subject, message)

    def result(self, examined: int) -> Result:
        return Result(examined=examined, findings=tuple(self._list))

    def _add(self, severity: Severity, subject: str, message: str) -> None:
        self._list.append(Finding(check=self._check, severity=severity, object=subject, message=message))


def entry_name(seq: int) -> str:
    """How findings name an entry: its object's name."""
    return f"ledgerentry/{seq:012d}"


def closing_reason(reason: str) -> str:
    """A closing reason without the seed of its draw."""
    return reason.partition("(")[0]


def is_closure(reason: str) -> bool:
    """Whether a closing reason is one of the design's."""
    return closing_reason(reason) in {closure.value for closure in Closure}


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    entry: Entry
    lease: Lease


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    entry: Entry
    ended: Ended


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    entry: Entry
    closed: Closed


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Entries and objects side by side. Where two entries claim one lease the first counts (6.6)."""

    snapshot: Snapshot
    now: int
    evidence: Evidence
    base: LedgerBase
    entries: tuple[Entry, ...]  # all, by number
    counting: tuple[Entry, ...]  # without the void ones
    by_seq: Mapping[int, Entry]
    leases: Mapping[str, Lease]  # the objects, by key
    opens: Mapping[int, tuple[Lease, ...]]  # by the number of the entry
    opened: Mapping[str, Opening]
    ended: Mapping[str, Ending]
    closed: Mapping[str, Closing]
    runs_by_uid: Mapping[str, Run]
    pods: Mapping[str, Pod]  # by namespace/name

    @classmethod
    def of(cls, snapshot: Snapshot, now: int, evidence: Evidence) -> History:
        entries = linked(snapshot)
        snapshot = replace(snapshot, entries=entries)
        counting = tuple(entry for entry in entries if not entry.void)
        opens = {entry.seq: tuple(opened_leases((entry,))) for entry in counting if entry.opens}
        return cls(
            snapshot=snapshot,
            now=now,
            evidence=evidence,
            base=snapshot.base or LedgerBase(),
            entries=entries,
            counting=counting,
            by_seq={entry.seq: entry for entry in entries},
            leases={lease.key: lease for lease in sorted(snapshot.leases, key=lambda lease: lease.key)},
            opens=opens,
            opened=_first(counting, lambda entry: _openings(entry, opens)),
            ended=_first(counting, _endings),
            closed=_first(counting, _closings),
            runs_by_uid={run.uid: run for run in snapshot.runs if run.uid},
            pods={f"{pod.namespace}/{pod.name}": pod for pod in snapshot.pods},
        )

    def fact(self, key: str) -> Lease | None:
        """A lease as its object says, else as its entry says."""
        lease = self.leases.get(key)
        if lease is not None:
            return lease
        opening = self.opened.get(key)
        return opening.lease if opening else None

    def finished(self, seq: int) -> bool:
        """Whether `base` says that all an entry asks for has been written (6.8)."""
        return seq <= self.base.seq and seq not in self.base.pending

    def whole(self) -> bool:
        """Whether every entry up to `base` is at hand, so that sums can be exact."""
        return all(seq in self.by_seq for seq in range(1, self.base.seq + 1))

    def is_open(self, key: str) -> bool:
        """Whether a lease holds its GPUs now: only a Close frees them, written as a lease or not (6.6)."""
        lease = self.leases.get(key)
        return key not in self.closed and not (lease is not None and lease.closed)

    def open_leases(self) -> tuple[Lease, ...]:
        """All that hold GPUs now: open objects, and opens not yet written as leases (P1), by key."""
        # A lease that was written and is no more went with its namespace (6.5) or is reported as missing.
        unwritten = (
            opening.lease
            for key, opening in self.opened.items()
            if key not in self.leases and not self.finished(opening.entry.seq)
        )
        leases = (*self.leases.values(), *unwritten)
        return tuple(sorted((lease for lease in leases if self.is_open(lease.key)), key=lambda lease: lease.key))

    def namespace_gone(self, namespace: str) -> bool:
        """Whether a namespace no longer exists: what was in it went with it (6.5)."""
        return self.evidence.namespaces is not None and namespace not in self.evidence.namespaces


def linked(snapshot: Snapshot) -> tuple[Entry, ...]:
    """The entries by number, void where `prev` is not the digest of the one before, each with its time (6.1).

    Time of an entry = max(its creationTimestamp, the time of the entry before).
    """
    base = snapshot.base or LedgerBase()
    digest, time, seq = NO_DIGEST, 0, 0
    chain: list[Entry] = []
    for entry in sorted(snapshot.entries, key=lambda entry: entry.seq):
        if entry.seq != seq + 1:  # what came before is archived, or missing
            digest, time = (base.digest, base.time) if entry.seq == base.seq + 1 else (entry.prev, entry.time)
        void = entry.void or ("" if entry.prev == digest else f"prev is not the digest of entry {entry.seq - 1}")
        digest, time, seq = entry.digest, max(entry.created_at, time), entry.seq
        chain.append(replace(entry, time=time, void=void))
    return tuple(chain)


def counts_in_concurrency(lease: Lease) -> bool:
    """A filler counts in GPU-hours, not in concurrency (O1)."""
    return lease.role is not Role.FILLER


PayerClass = tuple[Payer, FundingClass]


def _openings(entry: Entry, opens: Mapping[int, tuple[Lease, ...]]) -> list[tuple[str, Opening]]:
    return [(lease.key, Opening(entry=entry, lease=lease)) for lease in opens.get(entry.seq, ())]


def _endings(entry: Entry) -> list[tuple[str, Ending]]:
    return [(f"{ended.namespace}/{ended.lease}", Ending(entry=entry, ended=ended)) for ended in entry.ends]


def _closings(entry: Entry) -> list[tuple[str, Closing]]:
    return [(f"{closed.namespace}/{closed.lease}", Closing(entry=entry, closed=closed)) for closed in entry.closes]


def _first(entries: tuple[Entry, ...], claims: Callable[[Entry], list[tuple[str, T]]]) -> dict[str, T]:
    found: dict[str, T] = {}
    for entry in entries:
        for key, claim in claims(entry):
            found.setdefault(key, claim)
    return found
