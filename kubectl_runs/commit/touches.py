"""May a draft still be appended, although others came first? Only if no entry between touches it (6.4).

Two decisions touch if they share a run (also the run of any lease opened, ended or closed), reservation, lease, pod,
node, envelope, lender or aggregate cap. A Close that freed GPUs touches as much as a Start that took them: both change
what the planner would have said.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from kubectl_runs.commit.draft import Draft
from planner.model import Budget, Closed, Ended, Entry, EntryKind, FundingClass, Lease, Opened, Payer, Reservation
from planner.values import dataclass

# 6.4: a resolver's decision or a promise made from another state is another decision.
NEVER_REBASED = frozenset({EntryKind.FREEZE, EntryKind.CUT, EntryKind.SWAP, EntryKind.RESERVE})

Mark = tuple[str, ...]
UNKNOWN_LEASE: Mark = ("unknown lease",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Where to look up what an entry only names: leases by key, and the aggregate caps over each payer."""

    leases: Mapping[str, Lease]
    caps: Mapping[Payer, frozenset[str]]

    @classmethod
    def of(cls, leases: Mapping[str, Lease], budgets: Iterable[Budget]) -> Surroundings:
        caps: dict[Payer, frozenset[str]] = {}
        for budget in budgets:
            for cap in budget.caps:
                for envelope in cap.envelopes:
                    payer = Payer(budget.name, envelope)
                    caps[payer] = caps.get(payer, frozenset()) | {cap.name}
        return cls(leases=leases, caps=caps)


def may_rebase(draft: Draft, between: Iterable[Entry], around: Surroundings) -> bool:
    """Whether the draft may be appended at a later number, as it stands."""
    if draft.kind in NEVER_REBASED:
        return False
    mine = footprint(draft, around)
    # A void entry changes nothing, so it touches nothing.
    theirs = [footprint(entry, around) for entry in between if not entry.void]
    return all(mine.isdisjoint(marks) and UNKNOWN_LEASE not in marks for marks in theirs)


def footprint(decision: Draft | Entry, around: Surroundings) -> frozenset[Mark]:
    """Everything a decision is about."""
    return frozenset(_marks(decision, around))


def _marks(decision: Draft | Entry, around: Surroundings) -> Iterator[Mark]:
    namespace = ""
    if decision.run is not None:
        namespace = decision.run.namespace
        yield ("run", decision.run.key)
    if decision.reservation is not None:
        yield ("reservation", decision.reservation.key)
    for open_ in decision.opens:
        yield from _of_opened(open_, namespace, around)
    for end in decision.ends:
        yield from _of_lease(end, around)
    for close in decision.closes:
        yield from _of_lease(close, around)
    if decision.reserve is not None:
        yield from _of_reserve(decision.reserve, around)


def _of_opened(open_: Opened, namespace: str, around: Surroundings) -> Iterator[Mark]:
    yield ("node", open_.node)
    if open_.lease:
        yield ("lease", f"{namespace}/{open_.lease}")
    if open_.pod is not None:
        yield ("pod", f"{namespace}/{open_.pod.name}")
    yield from _of_payer(open_.payer, around, borrowed=open_.funding is FundingClass.BORROWED)


def _of_lease(ending: Ended | Closed, around: Surroundings) -> Iterator[Mark]:
    key = f"{ending.namespace}/{ending.lease}"
    yield ("lease", key)
    lease = around.leases.get(key)
    if lease is None:
        yield UNKNOWN_LEASE
        return
    yield ("run", lease.run_key)
    yield ("node", lease.node)
    if lease.pod is not None:
        yield ("pod", f"{lease.namespace}/{lease.pod.name}")
    yield from _of_payer(lease.payer, around, borrowed=lease.funding is FundingClass.BORROWED)


def _of_reserve(reserve: Reservation, around: Surroundings) -> Iterator[Mark]:
    """Reserve and Cut count with slices and payers: from its start on they are somebody's."""
    yield ("run", reserve.run_key)
    yield ("reservation", reserve.key)
    for group in reserve.groups:
        yield from (("node", node.name) for node in group.nodes)
    for share in reserve.payers:
        yield from _of_payer(share.payer, around, borrowed=True)


def _of_payer(payer: Payer, around: Surroundings, *, borrowed: bool) -> Iterator[Mark]:
    yield ("envelope", *payer)
    yield from (("cap", payer.budget, cap) for cap in around.caps.get(payer, ()))
    if borrowed:
        yield ("lender", payer.budget)
