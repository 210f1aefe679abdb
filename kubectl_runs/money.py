"""What the money commands share: windows of time, and who owns which budget.

A budget may be gone while its leases remain. A lease of class `owned` names its payer's owner, so the past still
tells whose the budget was.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kubectl_runs.errors import UsageError
from kubectl_runs.store.protocol import List, Store
from kubectl_runs.wire import decode, times
from kubectl_runs.wire.kinds import BUDGET
from planner.family import glob_matches
from planner.model import Budget, FundingClass, Lease, Payer
from planner.usage import Window

if TYPE_CHECKING:
    from kubectl_runs.past import Past

_DAY = re.compile(r"\d{4}-\d\d-\d\d")


def moment(word: str, now: int, flag: str) -> int:
    """An instant, a day's beginning (UTC), or a span before now: `2026-01-05T12:00:00Z`, `2026-01-05`, `24h`, `7d`."""
    try:
        return times.instant(f"{word}T00:00:00Z" if _DAY.fullmatch(word) else word)
    except ValueError:
        pass
    try:
        days, is_days, rest = word.partition("d")
        if is_days and days.isdecimal():
            return now - int(days) * 86400 - (times.duration(rest) if rest else 0)
        return now - times.duration(word)
    except ValueError:
        raise UsageError(
            f"{flag}: {word!r} is neither a time such as 2026-01-05T12:00:00Z or 2026-01-05 nor a span such as 24h"
        ) from None


def window(now: int, since: str | None, until: str | None) -> Window:
    """The window of `--since` and `--until`; what is in the future has not been used yet."""
    first = None if since is None else moment(since, now, "--since")
    last = now if until is None else min(now, moment(until, now, "--until"))
    if first is not None and first > last:
        raise UsageError("--since is not before --until")
    return Window(since=first, until=last)


class Owners:
    """Which owner holds which budget, as far as budgets and leases tell."""

    def __init__(self, budgets: Iterable[Budget]) -> None:
        self._budgets = {budget.name: budget for budget in budgets}
        self._learnt: dict[str, str] = {}

    @classmethod
    def read(cls, store: Store) -> Owners:
        return cls(decode.leniently(decode.budget, store.perform(List(kind=BUDGET)).items))

    def learn(self, lease: Lease) -> Lease:
        """Remembers the owner of a budget that is gone, from a lease that it paid for itself."""
        if lease.funding is FundingClass.OWNED and lease.payer.budget not in self._budgets:
            self._learnt[lease.payer.budget] = lease.owner
        return lease

    def of(self, payer: Payer) -> str | None:
        budget = self._budgets.get(payer.budget)
        return budget.owner if budget else self._learnt.get(payer.budget)

    def may_pay(self, owner: str, past: Past) -> list[str]:
        """Budgets that an owner (a glob) holds, and those that are gone and may have been its own."""
        held = {name for name, budget in self._budgets.items() if glob_matches(owner, budget.owner)}
        told = {row.payer.budget for row in past.base.settled}
        for entry in past.entries:
            told.update(opened.payer.budget for opened in entry.opens)
            told.update(closed.payer.budget for closed in entry.closes)
        return sorted(held | (told - self._budgets.keys()))

    def pays(self, lease: Lease, owner: str) -> bool:
        """Whether a lease is paid by an owner (a glob); of a budget that is gone only its own leases are sure."""
        budget = self._budgets.get(lease.payer.budget)
        if budget is not None:
            return glob_matches(owner, budget.owner)
        return lease.funding is FundingClass.OWNED and glob_matches(owner, lease.owner)

    def is_payer(self, lease: Lease, word: str) -> bool:
        """Whether a lease is paid by what a person calls its payer: a budget, an envelope of it, or their owner."""
        budget, slash, envelope = word.partition("/")
        if slash:
            return lease.payer == Payer(budget, envelope)
        return lease.payer.budget == word or self.pays(lease, word)

    def flavor(self, payer: Payer) -> str:
        budget = self._budgets.get(payer.budget)
        envelopes = budget.envelopes if budget else ()
        return next((one.flavor for one in envelopes if one.name == payer.envelope), "")
