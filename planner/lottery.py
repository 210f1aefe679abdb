"""The lottery of one scope as the resolver holds it: who has a token, in which order they are drawn (R3, R4).

Where a Freeze entry stands, its list and its seed decide, and runs that came later are not drawn; before there is one
the order is an example. How a seed becomes an order is `draw`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from planner import draw
from planner.candidates import Candidate
from planner.model import Budget, Entry, EntryKind, Freeze, Lottery, Reservation, Token
from planner.values import dataclass

Subject = Reservation | Budget


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """One lottery: the frozen list, its seed and the order that follows. `entry` is 0 for an example."""

    freeze: Freeze
    seed: bytes
    entry: int
    order: tuple[Token, ...]

    @property
    def provisional(self) -> bool:
        return not self.entry

    def line(self, candidates: Iterable[Candidate]) -> tuple[Candidate, ...]:
        """The candidates in the order drawn, passing over runs that have ended meanwhile (R4)."""
        by_run = {candidate.run: candidate for candidate in candidates}
        return tuple(by_run[token.run] for token in self.order if token.run in by_run)

    def told(self, picks: Collection[str], cut: Collection[str]) -> Lottery:
        """The lottery as a decision shows it; picks in the order drawn, those given back included."""
        drawn = [token.run for token in self.order if token.run in picks]
        return Lottery(
            seed=self.seed.hex(),
            provisional=self.provisional,
            chances=draw.chances(self.freeze.tokens),
            freeze=self.freeze,
            picks=tuple(drawn),
            given_back=tuple(run for run in drawn if run not in cut),
        )


def standing_freezes(entries: Iterable[Entry], subject: Subject) -> tuple[Entry, ...]:
    """The Freeze entries that were made for a subject, newest first."""
    mine = [entry for entry in entries if entry.freeze is not None and not entry.void and _about(entry, subject)]
    return tuple(sorted(mine, key=lambda entry: entry.seq, reverse=True))


def example(freeze: Freeze, subject: Subject) -> Drawn:
    """R4: before there is an entry, an example with a provisional seed."""
    seed = draw.provisional_seed(freeze, subject)
    return Drawn(freeze=freeze, seed=seed, entry=0, order=draw.order(seed, freeze.tokens))


def attested(entry: Entry, subject: Subject) -> Drawn:
    """R4: the one order that a frozen entry fixes."""
    assert entry.freeze is not None
    if isinstance(subject, Budget):
        seed = draw.budget_seed(entry, subject.name)
    else:
        seed = draw.reservation_seed(entry, subject)
    return Drawn(freeze=entry.freeze, seed=seed, entry=entry.seq, order=draw.order(seed, entry.freeze.tokens))


def frozen_for(nodes: Collection[str], freezes: Iterable[Entry]) -> Entry | None:
    """The newest freeze whose scope lies on these nodes."""
    for entry in freezes:
        if entry.freeze is not None and any(name in nodes for name in entry.freeze.nodes):
            return entry
    return None


def _about(entry: Entry, subject: Subject) -> bool:
    if entry.kind is not EntryKind.FREEZE:
        return False
    if isinstance(subject, Budget):
        return entry.reservation is None and any(budget.name == subject.name for budget in entry.budgets)
    ref = entry.reservation
    return ref is not None and (ref.namespace, ref.name, ref.uid) == (subject.namespace, subject.name, subject.uid)
