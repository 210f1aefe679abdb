"""Where each envelope and cap stands: held, lent, promised, left, and which limit is nearest (C2, R6).

Headroom is that of work without a duration which would start now: for such work every promise counts (F3). Nothing
here decides; the sums are those of `books`.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from fractions import Fraction

from planner.accounts import Account, Sums
from planner.books import UNLIMITED, Ask, Tab, window_open
from planner.family import Purse
from planner.holds import FOREVER
from planner.model import AggregateCap, Budget, Envelope, Payer, Reason
from planner.tighten import overruns
from planner.world import World

HOUR = 3600
_NOTHING = Account(Sums(), Sums())


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvelopeLine:
    """One envelope. `promised_seconds` are those used by open leases, their look-ahead and reservations' hours."""

    payer: Payer
    owner: str
    envelope: Envelope
    held_gpus: int
    lent_gpus: int
    reserved_gpus: int
    headroom_gpus: int
    settled_seconds: int
    promised_seconds: int
    elapsed_seconds: int  # of open leases, the part of `promised_seconds` that is gone already
    burning_gpus: int  # what uses up hours now: fillers too (O1)
    limit: Reason | None

    @property
    def left_seconds(self) -> int | None:
        """GPU-seconds not yet spent or promised; below zero when the envelope is over its hours."""
        hours = self.envelope.gpu_hours_max
        return None if hours is None else hours * HOUR - self.settled_seconds - self.promised_seconds

    @property
    def over(self) -> bool:
        """R6: holds more than it may."""
        return self.limit is Reason.OVER_CAP

    def runs_out_at(self, now: int) -> int | None:
        """When the hours are gone if everything held now goes on; None if they last."""
        hours = self.envelope.gpu_hours_max
        if hours is None or not self.burning_gpus:
            return None
        left = hours * HOUR - self.settled_seconds - self.elapsed_seconds
        return now + max(0, left) // self.burning_gpus


@dataclass(frozen=True, slots=True, kw_only=True)
class CapLine:
    cap: AggregateCap
    held_gpus: int
    left_gpus: int | None  # None: it caps hours only
    used_seconds: int  # settled, used, promised
    over: bool  # R6


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One budget: its envelopes, nearest limit first, and its caps."""

    budget: Budget
    envelopes: tuple[EnvelopeLine, ...]
    caps: tuple[CapLine, ...]

    @property
    def over(self) -> bool:
        return any(line.over for line in self.envelopes) or any(line.over for line in self.caps)

    @property
    def nearest(self) -> Fraction:
        """How much of the tightest envelope is left, as a part of what it may hold."""
        return min((closeness(line) for line in self.envelopes), default=Fraction(1))


def statements(world: World) -> tuple[Statement, ...]:
    """Every budget, nearest limit first; of equal ones by name."""
    made = [statement(world, budget) for budget in world.snapshot.budgets]
    return tuple(sorted(made, key=lambda one: (not one.over, one.nearest, one.budget.name)))


def statement(world: World, budget: Budget) -> Statement:
    overrun = [found.cap for found in overruns(world, budget)]
    over = frozenset(payer for cap in overrun for payer in cap.payers)
    limits = {(cap.payers, cap.gpus_max, cap.gpu_hours_max) for cap in overrun}
    caps = tuple(_cap(world, budget, cap, limits) for cap in sorted(budget.caps, key=lambda cap: cap.name))
    lines = [_line(world, Payer(budget.name, envelope.name), over) for envelope in budget.envelopes]
    found = [line for line in lines if line is not None]
    ordered = sorted(found, key=lambda line: (not line.over, closeness(line), line.envelope.name))
    return Statement(budget=budget, envelopes=tuple(ordered), caps=caps)


def closeness(line: EnvelopeLine) -> Fraction:
    return Fraction(line.headroom_gpus, max(1, line.envelope.concurrency))


def asking(world: World) -> Ask:
    """Work without a duration that would start now."""
    return Ask(now=world.now, horizon=FOREVER, ahead=None)


def _line(world: World, payer: Payer, over: frozenset[Payer]) -> EnvelopeLine | None:
    purse = world.tree.purse(payer)
    if purse is None:
        return None
    ask, books = asking(world), world.books
    account = books.accounts.get(payer) or _NOTHING
    limit = books.headroom(purse, ask, Tab())
    spent = books.spent_seconds(purse, ask)
    return EnvelopeLine(
        payer=payer,
        owner=purse.owner,
        envelope=purse.envelope,
        held_gpus=account.total.gpus,
        lent_gpus=account.lent.gpus,
        reserved_gpus=books.promises.gpus((payer,), ask),
        headroom_gpus=limit.gpus if window_open(purse.envelope, world.now) else 0,
        settled_seconds=account.total.settled,
        promised_seconds=spent - account.total.settled,
        elapsed_seconds=account.total.elapsed(world.now),
        burning_gpus=account.total.timed_gpus + account.total.endless_gpus,
        limit=_limit(world, purse, over, None if limit == UNLIMITED else limit.reason),
    )


def _limit(world: World, purse: Purse, over: frozenset[Payer], nearest: Reason | None) -> Reason | None:
    """R6 first: an envelope over its cap takes on nothing; then a closed window (C1); then the least headroom (C2)."""
    if purse.payer in over:
        return Reason.OVER_CAP
    return nearest if window_open(purse.envelope, world.now) else Reason.WINDOW_CLOSED


def _cap(world: World, budget: Budget, cap: AggregateCap, overrun: Set[tuple[object, ...]]) -> CapLine:
    purses = [world.tree.purse(Payer(budget.name, name)) for name in sorted(set(cap.envelopes))]
    members = [purse for purse in purses if purse is not None]
    ask, books = asking(world), world.books
    held = sum(books.held(purse.payer) for purse in members)
    reserved = sum(books.promises.gpus((purse.payer,), ask) for purse in members)
    return CapLine(
        cap=cap,
        held_gpus=held,
        left_gpus=None if cap.concurrency_max is None else max(0, cap.concurrency_max - held - reserved),
        used_seconds=sum(books.spent_seconds(purse, ask) for purse in members),
        over=(frozenset(purse.payer for purse in members), cap.concurrency_max, cap.gpu_hours_max) in overrun,
    )
