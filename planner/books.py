"""What every envelope, lender and cap holds and may still take on (C2, C5, F3).

Leases fold into sums by payer, once per snapshot; questions about an instant are arithmetic on those sums. Whom to
ask, and in which order, is `family`; how a request is split is `cover`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from planner.accounts import Account, Sums
from planner.family import Purse, Tree, funding_class
from planner.fold import Settlement
from planner.holds import FOREVER, Hold, Timeline
from planner.model import (
    DAY,
    Envelope,
    FundingClass,
    Lease,
    Payer,
    Reason,
    Reservation,
    Run,
)
from planner.values import dataclass, field

HOUR = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """What one reservation holds of one envelope (F3); `ahead` is its run's duration, None if it has none."""

    payer: Payer
    hold: Hold
    counted: bool  # in concurrency: an opportunistic run's is not (O1)
    lent: bool
    ahead: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """On whose behalf headroom is asked, and when."""

    now: int
    horizon: int  # promises that begin before it count (F3)
    ahead: int | None  # the run's look-ahead where it has a duration (C2)
    counted: bool = True  # in concurrency (O1)
    own: tuple[Promise, ...] = ()  # its own reservation never counts against it
    # Known ends of open leases by payer, of all that count and of loans: promises may follow them (F3).
    known_ends: Mapping[tuple[Payer, bool], Sequence[Hold]] = field(default_factory=dict)


class Limit(NamedTuple):
    """The least of several limits: how many GPUs, what sets it, and the number that was set."""

    gpus: int
    reason: Reason | None = None
    cap: int | None = None


UNLIMITED = Limit(FOREVER)


class Tab:
    """Takes already made in this plan (C2, C5, C6)."""

    def __init__(self, borrowed_gpus: int = 0) -> None:
        self.gpus: dict[Payer, int] = {}
        self.seconds: dict[Payer, int] = {}
        self.lent: dict[Payer, int] = {}
        self.borrowed_gpus = borrowed_gpus  # held ones too: one guardrail for held and planned together

    def put(self, payer: Payer, gpus: int, seconds: int, borrowed: bool) -> None:
        self.gpus[payer] = self.gpus.get(payer, 0) + gpus
        self.seconds[payer] = self.seconds.get(payer, 0) + gpus * seconds
        if borrowed:
            self.lent[payer] = self.lent.get(payer, 0) + gpus
            self.borrowed_gpus += gpus

    def copy(self) -> Tab:
        other = Tab(self.borrowed_gpus)
        other.gpus, other.seconds, other.lent = dict(self.gpus), dict(self.seconds), dict(self.lent)
        return other


class Books:
    """All accounts of one world at one instant."""

    def __init__(self, tree: Tree, now: int, accounts: dict[Payer, Account], promises: Promises) -> None:
        self.tree, self.now = tree, now
        self.accounts, self.promises = accounts, promises

    @classmethod
    def of(cls, tree: Tree, now: int, settlement: Settlement, promises: Promises) -> Books:
        books = cls(tree, now, {}, promises)
        for (payer, funding), seconds in settlement.items():
            account = books.account(payer)
            account.total.settled += seconds
            if funding is FundingClass.BORROWED:
                account.lent.settled += seconds
        return books

    def account(self, payer: Payer) -> Account:
        found = self.accounts.get(payer)
        if found is None:
            found = self.accounts[payer] = Account(Sums(), Sums())
        return found

    def open_all(self, leases: Mapping[str, Lease], ends: Mapping[str, int]) -> None:
        """Takes open leases in, each with its known end if it has one."""
        for key, lease in leases.items():
            account = self.accounts.get(lease.payer) or self.account(lease.payer)
            account.total.open(lease, ends.get(key))
            if lease.funding is FundingClass.BORROWED:
                account.lent.open(lease, ends.get(key))

    def closed(self, ended: Iterable[tuple[Lease, int | None, int]], now: int) -> Books:
        """These books at `now` with leases (each with its known end and the instant it ended) settled."""
        accounts = dict(self.accounts)
        touched: set[Payer] = set()
        for lease, end_at, at in ended:
            if lease.payer not in touched:
                touched.add(lease.payer)
                accounts[lease.payer] = accounts[lease.payer].copy()
            account = accounts[lease.payer]
            both = lease.funding is FundingClass.BORROWED
            for sums in (account.total, account.lent) if both else (account.total,):
                sums.open(lease, end_at, sign=-1)
                sums.settled += lease.gpus * max(0, at - lease.start_at)
        return Books(self.tree, now, accounts, self.promises)

    def as_unused(self, now: int, burnt_at: int) -> Books:
        """F1 (a): as if no lease and no promise were held at `now`; hours burnt until `burnt_at` stay burnt."""
        accounts = {payer: _burnt(account, burnt_at) for payer, account in self.accounts.items()}
        return Books(self.tree, now, accounts, Promises(()))

    def headroom(self, purse: Purse, ask: Ask, tab: Tab) -> Limit:
        """C2: the least of concurrency, GPU-hours and every aggregate cap; of equal limits the first."""
        best = self._concurrency([purse.payer], purse.envelope.concurrency, Reason.CONCURRENCY_CAP, ask, tab)
        hours = purse.envelope.gpu_hours_max
        ahead = look_ahead(ask, purse.envelope)
        best = _least(best, self._hours([purse], hours, Reason.GPU_HOUR_CAP, ask, tab, ahead))
        for cap, members in self.tree.caps(purse):
            payers = [member.payer for member in members]
            if cap.concurrency_max is not None:
                best = _least(best, self._concurrency(payers, cap.concurrency_max, Reason.AGGREGATE_CAP, ask, tab))
            best = _least(best, self._hours(members, cap.gpu_hours_max, Reason.AGGREGATE_CAP, ask, tab, ahead))
        return best

    def lending_room(self, purse: Purse, ask: Ask, tab: Tab) -> Limit:
        """C5: what both lending sub-caps leave, counting this plan; both are `LendingCap`."""
        lending, payer, best = purse.envelope.lending, purse.payer, UNLIMITED
        if lending.concurrency_max is not None:
            held_gpus = self._account(payer).lent.gpus + self.promises.gpus((payer,), ask, lent=True)
            left = lending.concurrency_max - held_gpus - (tab.lent.get(payer, 0) if ask.counted else 0)
            if ask.counted or left < 0:
                best = Limit(max(0, left), Reason.LENDING_CAP, lending.concurrency_max)
        if lending.gpu_hours_max is not None:
            ahead = look_ahead(ask, purse.envelope)
            spent = self.lent_seconds(purse, ask) + tab.lent.get(payer, 0) * ahead
            gpus = _affordable(lending.gpu_hours_max * HOUR - spent, ahead)
            best = _least(best, Limit(gpus, Reason.LENDING_CAP, lending.gpu_hours_max))
        return best

    def _account(self, payer: Payer) -> Account:
        return self.accounts.get(payer) or _NOTHING

    def held(self, payer: Payer) -> int:
        """GPUs of the envelope's open leases, fillers aside (O1)."""
        return self._account(payer).total.gpus

    def spent_seconds(self, purse: Purse, ask: Ask) -> int:
        """C2, F3: GPU-seconds gone or promised: settled, used, look-ahead of what is open, and reservations."""
        spent = self._account(purse.payer).total.spent(ask.now, _rest(purse.envelope, ask.now))
        return spent + self.promises.seconds(purse.envelope, purse.payer, ask)

    def lent_seconds(self, purse: Purse, ask: Ask) -> int:
        """The same of what is lent alone (C5)."""
        spent = self._account(purse.payer).lent.spent(ask.now, _rest(purse.envelope, ask.now))
        return spent + self.promises.seconds(purse.envelope, purse.payer, ask, lent=True)

    def _concurrency(self, payers: list[Payer], cap: int, reason: Reason, ask: Ask, tab: Tab) -> Limit:
        left = cap - sum(self._account(payer).total.gpus for payer in payers)
        if not ask.counted:
            # O1: fillers do not count; R6: an envelope over its cap takes on nothing new, not even those.
            return Limit(0, reason, cap) if left < 0 else UNLIMITED
        left -= self.promises.gpus(payers, ask) + sum(tab.gpus.get(payer, 0) for payer in payers)
        return Limit(max(0, left), reason, cap)

    def _hours(self, purses: Iterable[Purse], cap: int | None, reason: Reason, ask: Ask, tab: Tab, ahead: int) -> Limit:
        if cap is None:
            return UNLIMITED
        left = cap * HOUR
        for purse in purses:
            left -= self.spent_seconds(purse, ask) + tab.seconds.get(purse.payer, 0)
        return Limit(_affordable(left, ahead), reason, cap)


class Promises:
    """Reservations as holds on envelopes, sorted by time (F3)."""

    def __init__(self, promises: Iterable[Promise]) -> None:
        self.by_payer: dict[Payer, list[Promise]] = {}
        for promise in promises:
            self.by_payer.setdefault(promise.payer, []).append(promise)
        self._timelines: dict[tuple[tuple[Payer, ...], bool], Timeline] = {}
        self._seconds: dict[tuple[Payer, bool, int], int] = {}

    def gpus(self, payers: Sequence[Payer], ask: Ask, lent: bool = False) -> int:
        """Concurrency that promises hold against this work: the most at any one time while it runs (F3)."""
        if not any(payer in self.by_payer for payer in payers):
            return 0
        own = [p.hold for p in ask.own if p.payer in payers and p.counted and (p.lent or not lent)]
        ends = [hold for payer in payers for hold in ask.known_ends.get((payer, lent), ())]
        return self._timeline(tuple(payers), lent).held(ask.now, ask.horizon, without=own, beside=ends)

    def _timeline(self, payers: tuple[Payer, ...], lent: bool) -> Timeline:
        line = self._timelines.get((payers, lent))
        if line is None:
            mine = [p for payer in payers for p in self.by_payer.get(payer, ())]
            line = Timeline(p.hold for p in mine if p.counted and (p.lent or not lent))
            self._timelines[payers, lent] = line
        return line

    def seconds(self, envelope: Envelope, payer: Payer, ask: Ask, lent: bool = False) -> int:
        """GPU-hours that promises hold from the moment they are made, whatever the work."""
        mine = self.by_payer.get(payer)
        if not mine:
            return 0
        question = (payer, lent, ask.now)
        if question not in self._seconds:
            self._seconds[question] = _promised(mine, payer, lent, envelope, ask.now)
        return self._seconds[question] - _promised(ask.own, payer, lent, envelope, ask.now)


def promises_of(tree: Tree, runs: Mapping[str, Run], made: Reservation, now: int) -> tuple[Promise, ...]:
    """F3: a reservation with a start holds its payers; a Blocked one holds nothing (F1 d)."""
    run = runs[made.run_key]
    if made.earliest_start is None:
        return ()
    hold_end = FOREVER if run.duration is None else max(now, made.earliest_start) + run.duration
    found = []
    for share in made.payers:
        purse = tree.purse(share.payer)
        lent = purse is not None and funding_class(tree, run, purse) is FundingClass.BORROWED
        hold = Hold(made.earliest_start, hold_end, share.gpus)
        found.append(
            Promise(payer=share.payer, hold=hold, counted=not run.opportunistic, lent=lent, ahead=run.duration)
        )
    return tuple(found)


def look_ahead(ask: Ask, envelope: Envelope) -> int:
    """C2: the run's duration (what is left of it, if it runs), else what is left of the window, else a day."""
    return ask.ahead if ask.ahead is not None else _rest(envelope, ask.now)


def window_open(envelope: Envelope, now: int) -> bool:
    """C1: start <= now < end."""
    return (envelope.start_at is None or envelope.start_at <= now) and (
        envelope.end_at is None or now < envelope.end_at
    )


def _rest(envelope: Envelope, now: int) -> int:
    return DAY if envelope.end_at is None else max(0, envelope.end_at - now)


def _promised(promises: Iterable[Promise], payer: Payer, lent: bool, envelope: Envelope, now: int) -> int:
    return sum(
        promise.hold.gpus * _promised_span(promise, envelope, now)
        for promise in promises
        if promise.payer == payer and (promise.lent or not lent)
    )


def _promised_span(promise: Promise, envelope: Envelope, now: int) -> int:
    if promise.ahead is not None:
        return promise.ahead
    return _rest(envelope, max(now, promise.hold.start_at))


def _affordable(seconds_left: int, ahead: int) -> int:
    """GPUs that the seconds left pay for over the look-ahead; a run past its duration counts nothing more (C2)."""
    if seconds_left < 0:
        return 0
    return FOREVER if ahead <= 0 else seconds_left // ahead


def _least(best: Limit, other: Limit) -> Limit:
    return other if other.gpus < best.gpus else best


def _burnt(account: Account, now: int) -> Account:
    total = Sums(settled=account.total.settled + account.total.elapsed(now))
    return Account(total, Sums(settled=account.lent.settled + account.lent.elapsed(now)))


_NOTHING = Account(Sums(), Sums())
