"""Which entries count: each must name the digest of the one before it (6.1).

An entry whose `prev` or shape is wrong is void: it keeps its number and changes nothing, and the next `prev` is its
digest all the same. So nobody can stop the ledger with one bad write, and everybody agrees on what counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from planner.model import NO_DIGEST, Entry, LedgerBase
from planner.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Tip:
    """The last number that is taken, and what the next entry follows from."""

    seq: int = 0
    digest: str = NO_DIGEST
    time: int = 0

    @classmethod
    def of_base(cls, base: LedgerBase) -> Tip:
        return cls(seq=base.seq, digest=base.digest, time=base.time)


def link(tip: Tip, entries: Iterable[Entry]) -> tuple[Tip, tuple[Entry, ...]]:
    """The entries after `tip` with their times, void where they do not follow; and the new tip.

    Time of an entry = max(its creationTimestamp, the time of the entry before): server clocks may disagree, and no
    lease may start before what its decision was made from.
    """
    linked = []
    for entry in sorted(entries, key=lambda entry: entry.seq):
        assert entry.seq == tip.seq + 1, "entries are read by number, up to the first missing one"
        void = entry.void or ("" if entry.prev == tip.digest else f"prev is not the digest of entry {tip.seq}")
        tip = Tip(seq=entry.seq, digest=entry.digest, time=max(entry.created_at, tip.time))
        linked.append(replace(entry, time=tip.time, void=void))
    return tip, tuple(linked)
