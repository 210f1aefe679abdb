"""Where a run stands in its life, derived in one place from leases, entries and the run's own policy (6.7, S3).

Labels and a run's status are never looked at. Everything else (may it start, with which attempt, what does its status
say) follows from the one value made here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from enum import StrEnum

from planner.fold import opened_leases
from planner.model import Closure, Entry, EntryKind, Lease, Opening, Role, Run, Snapshot
from planner.values import dataclass

PREEMPTED = (Closure.RANDOM_PREEMPT, Closure.END_FILLER, Closure.RECLAIMED_BY_SPARE)


class Stage(StrEnum):
    """What a run is doing."""

    NEW = "New"  # it never held anything
    HOLDS = "Holds"  # it has open leases
    COMPLETED = "Completed"
    FAILED = "Failed"
    CANCELED = "Canceled"
    AGAIN = "Again"  # its last attempt is over, and another one is due


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """`attempt` is the one that runs or would start next; `reason` says why the last one ended."""

    stage: Stage
    attempt: int = 1
    reason: str = ""
    leases: tuple[Lease, ...] = ()  # all of this run, as entries and objects together tell
    held: tuple[Lease, ...] = ()  # the open ones

    @property
    def over(self) -> bool:
        return self.stage in (Stage.COMPLETED, Stage.FAILED, Stage.CANCELED)

    @property
    def may_start(self) -> bool:
        """6.7: a run that has a lease or an entry of an attempt does not start it again, however it ended."""
        return self.stage in (Stage.NEW, Stage.AGAIN)

    @property
    def width(self) -> int:
        """Active GPUs held; spares stand by and do not count."""
        return sum(lease.gpus for lease in self.held if lease.role is not Role.SPARE)


def life(snapshot: Snapshot, run: Run) -> Life:
    """The run's life so far. The snapshot has to hold all leases of the run's UID, closed ones too (6.1)."""
    leases = leases_of(snapshot, run)
    held = tuple(lease for lease in leases if not lease.closed)
    told = _entries_of(snapshot.entries, run)
    last = max([lease.attempt for lease in leases] + [entry.run.attempt for entry in told if entry.run], default=0)
    if held:
        return Life(stage=Stage.HOLDS, attempt=last, leases=leases, held=held)
    if run.canceled or run.deleting:
        return Life(stage=Stage.CANCELED, attempt=max(1, last), reason=Closure.CANCELED, leases=leases)
    if last == 0:
        return Life(stage=Stage.NEW, leases=leases)
    if any(_cancels(entry) for entry in told):
        # 6.7: the End of a cancel counts also where this reading of the field is older.
        return Life(stage=Stage.CANCELED, attempt=last, reason=Closure.CANCELED, leases=leases)
    return _after(run, leases, last)


def leases_of(snapshot: Snapshot, run: Run) -> tuple[Lease, ...]:
    """All leases of the run, those that only entries tell of included, closed as soon as an entry closes them."""
    entries = [entry for entry in snapshot.entries if not entry.void]
    found = {lease.key: lease for lease in snapshot.leases if lease.run_uid == run.uid and run.uid}
    for lease in opened_leases(entries):
        if lease.run_uid == run.uid and lease.key not in found:
            found[lease.key] = lease
    for entry in entries:
        for close in entry.closes:
            key = f"{close.namespace}/{close.lease}"
            if key in found and not found[key].closed:
                found[key] = replace(found[key], closed=True, end_at=close.at, closure=close.reason)
    return tuple(found[key] for key in sorted(found))


def _entries_of(entries: Iterable[Entry], run: Run) -> list[Entry]:
    """6.7: entries that begin or end an attempt of this run; a promise (Reserve) begins nothing."""
    kinds = (EntryKind.START, EntryKind.END)
    return [
        entry
        for entry in entries
        if not entry.void and entry.kind in kinds and entry.run is not None and entry.run.uid == run.uid
    ]


def _cancels(entry: Entry) -> bool:
    """A cancel always appends an End, even with nothing to end; no other End is empty."""
    return entry.kind is EntryKind.END and (not entry.ends or any(end.reason == Closure.CANCELED for end in entry.ends))


def _after(run: Run, leases: Sequence[Lease], last: int) -> Life:
    """What follows from how the last attempt ended (R5, S3)."""
    reason = ending([lease for lease in leases if lease.attempt == last], run)
    if reason == Closure.COMPLETED:
        return Life(stage=Stage.COMPLETED, attempt=last, reason=reason, leases=tuple(leases))
    if reason == Closure.CANCELED:
        return Life(stage=Stage.CANCELED, attempt=last, reason=reason, leases=tuple(leases))
    if _tried_again(run, leases, last, reason):
        return Life(stage=Stage.AGAIN, attempt=last + 1, reason=reason, leases=tuple(leases))
    return Life(stage=Stage.FAILED, attempt=last, reason=reason, leases=tuple(leases))


def ending(leases: Sequence[Lease], run: Run) -> str:
    """Why an attempt ended, from the reasons on its leases: the worst one that nothing made good."""
    working = [lease for lease in leases if lease.role is not Role.SPARE]
    reasons = [_plain(lease.closure) for lease in working]
    if Closure.CANCELED in reasons:
        return Closure.CANCELED
    completed = sum(lease.gpus for lease in working if _plain(lease.closure) == Closure.COMPLETED)
    if run.malleable is not None and completed >= min(run.malleable.gpus_min, run.gpus_total):
        return Closure.COMPLETED  # what it lost on the way it could do without (S3)
    for preempted in PREEMPTED:
        if preempted in reasons:
            return preempted
    swapped_in = sum(lease.gpus for lease in working if lease.reason is Opening.SWAP)
    lost = sum(lease.gpus for lease in working if _plain(lease.closure) in (Closure.NODE_FAILURE, Closure.FAIL))
    if lost <= swapped_in and completed:
        return Closure.COMPLETED
    return Closure.NODE_FAILURE if Closure.NODE_FAILURE in reasons else Closure.FAIL


def _tried_again(run: Run, leases: Sequence[Lease], last: int, reason: str) -> bool:
    """S3: after a cut or the loss of a node a run that can save is requeued; else up to `maxRetries` more tries."""
    if reason in (*PREEMPTED, Closure.NODE_FAILURE) and run.checkpoint is not None:
        return True
    if reason in PREEMPTED:
        return False  # R5: a fixed run that was cut becomes Failed
    failures = 0
    for attempt in range(1, last + 1):
        ended = ending([lease for lease in leases if lease.attempt == attempt], run)
        failures += ended in (Closure.FAIL, Closure.NODE_FAILURE)
    return failures <= run.retries_max


def _plain(closure: str | None) -> str:
    """A closing reason without the seed of its lottery."""
    return (closure or "").partition("(")[0]
