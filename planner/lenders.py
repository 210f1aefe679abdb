"""Who could lend to whom, how much of it is left, and whether a given owner or run may borrow there (C5, C6).

Nothing is planned here; each envelope is asked the questions of C5 in their order, and the first "no" is the reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from planner.accounts import Account, Sums
from planner.books import Ask, Tab, window_open
from planner.family import Purse, admits
from planner.model import Reason, Run
from planner.statement import asking
from planner.world import World

HOUR = 3600
NEARLY = Fraction(9, 10)
_NOTHING = Account(Sums(), Sums())


@dataclass(frozen=True, slots=True, kw_only=True)
class Lender:
    """One envelope that lends. `may_borrow` is None where nobody in particular asks."""

    purse: Purse
    lends_gpus: int
    lent_gpus: int
    left_gpus: int
    left_seconds: int | None  # GPU-seconds it may still lend; None without a limit
    may_borrow: bool | None
    reason: Reason | None

    @property
    def nearly_used_up(self) -> bool:
        """A lending sub-cap of which nine tenths are used, GPUs or GPU-hours."""
        hours = self.purse.envelope.lending.gpu_hours_max
        gone = hours is not None and self.left_seconds is not None and self.left_seconds * 10 <= hours * HOUR
        return gone or self.lent_gpus >= NEARLY * self.lends_gpus


def lenders(world: World, borrower: str | None = None, run: Run | None = None) -> tuple[Lender, ...]:
    """Every envelope with `lending.allow`, but for the borrower's own; of a run only those of its flavor."""
    ask = world.ask(run) if run is not None else asking(world)
    return tuple(
        _lender(world, purse, ask, borrower, run)
        for owner in world.tree.owners
        for purse in world.tree.purses.get(owner, ())
        if purse.envelope.lending.allow and owner != borrower and (run is None or purse.envelope.flavor == run.flavor)
    )


def _lender(world: World, purse: Purse, ask: Ask, borrower: str | None, run: Run | None) -> Lender:
    lending = purse.envelope.lending
    lent = (world.books.accounts.get(purse.payer) or _NOTHING).lent.gpus
    reserved = world.books.promises.gpus((purse.payer,), ask, lent=True)
    cap = lending.concurrency_max
    lends = purse.envelope.concurrency if cap is None else min(cap, purse.envelope.concurrency)
    reason = None if borrower is None else _refusal(world, purse, ask, borrower, run)
    return Lender(
        purse=purse,
        lends_gpus=lends,
        lent_gpus=lent,
        left_gpus=max(0, lends - lent - reserved),
        left_seconds=_seconds_left(world, purse, ask),
        may_borrow=None if borrower is None else reason is None,
        reason=reason,
    )


def _seconds_left(world: World, purse: Purse, ask: Ask) -> int | None:
    """The least of the lending sub-cap's and the envelope's own GPU-hours, look-ahead and promises counted (C2)."""
    left = []
    lending_hours, own_hours = purse.envelope.lending.gpu_hours_max, purse.envelope.gpu_hours_max
    if lending_hours is not None:
        left.append(lending_hours * HOUR - world.books.lent_seconds(purse, ask))
    if own_hours is not None:
        left.append(own_hours * HOUR - world.books.spent_seconds(purse, ask))
    return max(0, min(left)) if left else None


def _refusal(world: World, purse: Purse, ask: Ask, borrower: str, run: Run | None) -> Reason | None:
    """The first reason why not (C5, C6, C2); a run's own settings first, since it can change them itself."""
    if run is not None:
        if not run.funding.allow_borrow:
            return Reason.BORROW_NOT_ALLOWED
        limit = run.funding.borrow_gpus_max
        if limit is not None and world.borrowed_gpus(run) >= limit:
            return Reason.BORROW_LIMIT
    if not admits(purse.envelope.lending, borrower):
        return Reason.ACL_DENIED
    if not window_open(purse.envelope, world.now):
        return Reason.WINDOW_CLOSED
    if world.books.lending_room(purse, ask, Tab()).gpus <= 0:
        return Reason.LENDING_CAP
    headroom = world.books.headroom(purse, ask, Tab())
    return headroom.reason if headroom.gpus <= 0 else None
