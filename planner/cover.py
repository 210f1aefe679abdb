"""Who pays: one request at a time, every source in the order of C3, each take counted at once (C2, C5, C6, C8).

Decides the split and nothing about place: the domain comes from `pack`, the order from `family`, the numbers from
`books`. Every asking leaves a step, whether it paid or not, so a no can name them all (C7).
"""

from __future__ import annotations

from planner.books import Ask, Books, Limit, Tab, look_ahead, window_open
from planner.family import Lineup, Purse, Source, admits
from planner.holds import FOREVER
from planner.model import Domain, FundingClass, Payer, PayerShare, Reason, Role, Run, Step
from planner.values import dataclass

# F1 (d): an envelope that said one of these was full: a Blocked run waits for it.
FULL = (Reason.CONCURRENCY_CAP, Reason.GPU_HOUR_CAP, Reason.AGGREGATE_CAP, Reason.LENDING_CAP, Reason.QUEUED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """What one source pays of a request."""

    payer: Payer
    owner: str
    funding: FundingClass
    gpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """GPUs of one group in one role, in one domain."""

    group: int
    role: Role
    domain: Domain
    gpus: int
    gpus_per_pod: int


class Till:
    """The payments of one plan: requests are covered one after another, and each counts for the next."""

    def __init__(self, books: Books, ask: Ask, run: Run, lineup: Lineup, queued: frozenset[Payer], held: int) -> None:
        self._books, self._ask, self._run, self._lineup = books, ask, run, lineup
        self._queued = queued
        self._tab = Tab(borrowed_gpus=held)
        self.trace: list[Step] = []
        self.asked: set[str] = set()
        self.reason: Reason = Reason.NO_ENVELOPE
        self.waits_for: dict[Payer, int] = {}

    def pay(self, request: Request) -> tuple[Segment, ...] | None:
        """C8: every source for whole pods; only if that cannot cover the request, once more to the last GPU."""
        before = self._tab.copy()
        segments, steps = self._ask_all(request, request.gpus_per_pod)
        paid = sum(segment.gpus for segment in segments)
        if paid < request.gpus and request.gpus_per_pod > 1:
            self._tab = before
            segments, steps = self._ask_all(request, 1)
            self.trace.append(_asked_again(self._run, request, paid))
            paid = sum(segment.gpus for segment in segments)
        self.trace += steps
        if paid == request.gpus:
            return tuple(segments)
        self._say_no(steps)
        return None

    def _ask_all(self, request: Request, unit: int) -> tuple[list[Segment], list[Step]]:
        segments, steps, left = list[Segment](), list[Step](), request.gpus
        for source in self._lineup.at(request.domain):
            if not left:
                break
            if source.passed:
                steps.append(_passed(source, request, left))
                continue
            limit = self._offer(source)
            took = min(left, limit.gpus) // unit * unit
            steps.append(_asked(source, request, left, limit, took))
            if source.purse is not None:
                self.asked.add(source.purse.budget.name)
                if took:
                    segments.append(self._take(source, source.purse, took))
                    left -= took
        return segments, steps

    def _take(self, source: Source, purse: Purse, gpus: int) -> Segment:
        seconds = look_ahead(self._ask, purse.envelope)
        self._tab.put(purse.payer, gpus, seconds, source.funding is FundingClass.BORROWED)
        return Segment(payer=purse.payer, owner=source.owner, funding=source.funding, gpus=gpus)

    def _offer(self, source: Source) -> Limit:
        """What a source has for this run, and what stops it from having more."""
        borrowed = source.funding is FundingClass.BORROWED
        if borrowed and not self._run.funding.allow_borrow:  # C5
            return Limit(0, Reason.BORROW_NOT_ALLOWED)
        if source.purse is None:
            return Limit(0, Reason.NO_ENVELOPE)
        envelope = source.purse.envelope
        if not window_open(envelope, self._ask.now):  # C1
            return Limit(0, Reason.WINDOW_CLOSED)
        if borrowed and not admits(envelope.lending, self._run.owner):  # C5
            return Limit(0, Reason.ACL_DENIED)
        if envelope.queueing == "StrictFIFO" and source.purse.payer in self._queued:  # F1 (d)
            return Limit(0, Reason.QUEUED)
        best = self._books.headroom(source.purse, self._ask, self._tab)
        return self._loan(source.purse, best) if borrowed else best

    def _loan(self, purse: Purse, best: Limit) -> Limit:
        """C5, C6: the lending sub-caps and the run's own guardrail; of equal limits the first."""
        best = min(best, self._books.lending_room(purse, self._ask, self._tab), key=lambda limit: limit.gpus)
        most = self._run.funding.borrow_gpus_max
        if most is None:
            return best
        guard = Limit(max(0, most - self._tab.borrowed_gpus), Reason.BORROW_LIMIT, most)
        return min(best, guard, key=lambda limit: limit.gpus)

    def _say_no(self, steps: list[Step]) -> None:
        """C7: what stopped the last source asked; a source without an envelope is not one that can be full."""
        asked = [step for step in steps if step.act != "passed" and step.reason is not None]
        reasons = [step.reason for step in asked if step.reason is not Reason.NO_ENVELOPE]
        if reasons and reasons[-1] is not None:
            self.reason = reasons[-1]
        if Reason.QUEUED in reasons:  # F1 (d)
            self.reason = Reason.QUEUED
        for step in asked:
            if step.reason in FULL:
                budget, _, envelope = step.subject.partition("/")
                self.waits_for[Payer(budget, envelope)] = (step.need or 0) - (step.took or 0)

    def shares(self) -> tuple[PayerShare, ...]:
        """F1 (d): the envelopes that were asked and were full, by name, with what each lacked."""
        return tuple(PayerShare(payer=payer, gpus=gpus) for payer, gpus in sorted(self.waits_for.items()))


def _asked(source: Source, request: Request, need: int, limit: Limit, took: int) -> Step:
    return Step(
        rule=source.rule,
        act="took" if took else "asked",
        subject=source.purse.payer.name if source.purse else source.owner,
        group=request.group,
        role=request.role,
        funding=source.funding,
        need=need,
        had=None if limit.gpus >= FOREVER else limit.gpus,
        took=took,
        cap=limit.cap,
        reason=None if took == need else limit.reason,
        note=source.relation.value,
    )


def _passed(source: Source, request: Request, need: int) -> Step:
    """C4: family that shares with nobody is passed over; it was never asked, so it names no reason."""
    return Step(
        rule="C4",
        act="passed",
        subject=source.purse.payer.name if source.purse else source.owner,
        group=request.group,
        role=request.role,
        need=need,
        note=f"{source.relation.value}, sharing: none",
    )


def _asked_again(run: Run, request: Request, paid: int) -> Step:
    return Step(
        rule="C8",
        act="asked",
        subject=run.key,
        group=request.group,
        role=request.role,
        need=request.gpus,
        had=paid,
        note="whole pods do not cover it, asked again to the last GPU",
    )
