"""The ledger walked entry by entry: after each one no GPU is held twice and no cap is passed.

Caps are judged by the budgets as the entry recorded them (section 6), at the entries that take something: a budget
lowered later is `OverCap` (R6) and nobody's fault here. Nodes have no history, so they are judged by today's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from planner.audit_fleet import NodeUse, gpus_now
from planner.audit_history import (
    Check,
    Findings,
    History,
    PayerClass,
    Result,
    counts_in_concurrency,
    entry_name,
)
from planner.model import Budget, Entry, EntryKind, Envelope, FundingClass, Lease, Payer, Reservation

HOUR = 3600


class State:
    """What is held after the entries walked so far: GPUs by node and payer, GPU-seconds by payer."""

    def __init__(self) -> None:
        self.open: dict[str, Lease] = {}
        self.nodes: dict[str, NodeUse] = defaultdict(NodeUse)
        self.held: dict[Payer, int] = defaultdict(int)
        self.lent: dict[Payer, int] = defaultdict(int)
        self.settled: dict[PayerClass, int] = defaultdict(int)
        self._burning: dict[PayerClass, int] = defaultdict(int)  # GPUs of open leases, fillers too
        self._starts: dict[PayerClass, int] = defaultdict(int)  # sum of GPUs x start
        self._of_run: dict[str, dict[str, Lease]] = defaultdict(dict)
        self._taken_over: set[str] = set()
        self.promises: dict[str, Reservation] = {}  # that stand, by the UID of their run
        self.ending: set[str] = set()  # open leases that an entry has ended: their pods have to stop

    def add(self, lease: Lease) -> None:
        self.open[lease.key] = lease
        self._of_run[lease.run_uid][lease.key] = lease
        self._count(lease, 1)
        self._burn(lease, 1)

    def remove(self, key: str) -> None:
        lease = self.open.pop(key, None)
        if lease is not None:
            self.take_over(lease)
            self._burn(lease, -1)
            self._taken_over.discard(key)
            self.ending.discard(key)
            del self._of_run[lease.run_uid][key]

    def take_over(self, lease: Lease) -> None:
        """What a lease held passes to another one; it stays open until its Close (S2)."""
        if lease.key not in self._taken_over:
            self._taken_over.add(lease.key)
            self._count(lease, -1)

    def of_run(self, uid: str) -> tuple[Lease, ...]:
        return tuple(self._of_run[uid].values())

    def used_seconds(self, payer: Payer, until: int, *, lent: bool) -> int:
        """GPU-seconds settled and burnt so far by open leases, all of them or the borrowed ones."""
        classes = (FundingClass.BORROWED,) if lent else tuple(FundingClass)
        accounts = [(payer, funding) for funding in classes]
        burnt = sum(self._burning[one] * until - self._starts[one] for one in accounts)
        return burnt + sum(self.settled[one] for one in accounts)

    def _burn(self, lease: Lease, sign: int) -> None:
        self._burning[lease.payer, lease.funding] += sign * lease.gpus
        self._starts[lease.payer, lease.funding] += sign * lease.gpus * lease.start_at

    def _count(self, lease: Lease, sign: int) -> None:
        self.nodes[lease.node].add(lease, sign)
        if counts_in_concurrency(lease):  # O1
            self.held[lease.payer] += sign * lease.gpus
            if lease.funding is FundingClass.BORROWED:
                self.lent[lease.payer] += sign * lease.gpus


def before(history: History) -> Iterator[tuple[Entry, State]]:
    """Each entry that counts, with the state it found. The state is one object, changed from step to step."""
    return _walk(history, applied=False)


def after(history: History) -> Iterator[tuple[Entry, State]]:
    """Each entry that counts, with the state it left."""
    return _walk(history, applied=True)


def _walk(history: History, *, applied: bool) -> Iterator[tuple[Entry, State]]:
    state = State()
    outside = _Outside(history)
    for entry in history.counting:
        outside.until(entry, state)
        if not applied:
            yield entry, state
        _apply(history, entry, state)
        if applied:
            yield entry, state


def _apply(history: History, entry: Entry, state: State) -> None:
    for closed in entry.closes:
        state.remove(f"{closed.namespace}/{closed.lease}")
        state.settled[closed.payer, closed.funding] += closed.gpu_seconds
    state.ending.update(f"{ended.namespace}/{ended.lease}" for ended in entry.ends)
    if entry.kind is EntryKind.SWAP:
        for lease in swapped_out(entry, state.open):
            state.take_over(lease)
    _promise(entry, state)
    for lease in history.opens.get(entry.seq, ()):
        # A lease that is gone without a Close went with its namespace, or is reported as missing.
        if lease.key in history.leases or lease.key in history.closed or not history.finished(entry.seq):
            state.add(lease)


def _promise(entry: Entry, state: State) -> None:
    """F3: a promise stands from its entry until its run starts or is cancelled."""
    if entry.reserve is not None:
        state.promises[entry.reserve.run_uid] = entry.reserve
    elif entry.run is not None and entry.kind in (EntryKind.START, EntryKind.END):
        state.promises.pop(entry.run.uid, None)


def swapped_out(entry: Entry, open_leases: Mapping[str, Lease]) -> list[Lease]:
    """S2: what a Swap's new lease takes over from, the run's own spare and the lost lease."""
    keys = (f"{ended.namespace}/{ended.lease}" for ended in entry.ends)
    ended = (open_leases[key] for key in keys if key in open_leases)
    return [lease for lease in ended if entry.run and lease.run_uid == entry.run.uid]


class _Outside:
    """Leases that no kept entry opens: they count as held from their start to their end (section 6)."""

    def __init__(self, history: History) -> None:
        unattested = [lease for key, lease in history.leases.items() if key not in history.opened]
        self._starts = sorted(unattested, key=lambda lease: (lease.start_at, lease.key), reverse=True)
        ends = [lease for lease in unattested if lease.end_at is not None and lease.key not in history.closed]
        self._ends = sorted(ends, key=lambda lease: (lease.end_at or 0, lease.key), reverse=True)

    def until(self, entry: Entry, state: State) -> None:
        while self._starts and self._starts[-1].start_at < entry.time:
            state.add(self._starts.pop())
        while self._ends and (self._ends[-1].end_at or 0) <= entry.time:
            lease = self._ends.pop()
            state.remove(lease.key)
            state.settled[lease.payer, lease.funding] += lease.gpus * max(0, (lease.end_at or 0) - lease.start_at)


def gpus(history: History) -> Result:
    """No GPU held twice, neither after any entry nor now."""
    found = Findings(Check.GPUS)
    size = {node.name: node.gpus for node in history.snapshot.nodes}
    for entry, state in after(history):
        for node in sorted({opened.node for opened in entry.opens}):
            held = state.nodes[node].gpus
            if node in size and held > size[node]:
                found.error(
                    entry_name(entry.seq),
                    f"after it leases hold {held} GPUs of node {node}, which has {size[node]} today",
                )
    result = found.result(len(size))
    return Result(examined=result.examined, findings=(*result.findings, *gpus_now(history)))


def caps(history: History) -> Result:
    """No cap passed at any entry: concurrency, lending, aggregate, GPU-hours."""
    found = Findings(Check.CAPS)
    examined = 0
    for entry, state in after(history):
        recorded = {budget.name: budget for budget in entry.budgets}
        payers = {opened.payer for opened in entry.opens}
        examined += len(payers)
        for payer in sorted(payers):
            budget = recorded.get(payer.budget)
            envelope = _envelope(budget, payer)
            if budget is None or envelope is None:
                found.error(entry_name(entry.seq), f"{payer.name} pays, but the entry does not record it")
                continue
            lends = any(one.payer == payer and one.funding is FundingClass.BORROWED for one in entry.opens)
            for problem in _passed(history, entry, state, budget, envelope, lends=lends):
                found.error(entry_name(entry.seq), problem)
    _recorded_budgets(history, found)
    return found.result(examined)


def _envelope(budget: Budget | None, payer: Payer) -> Envelope | None:
    return next((one for one in budget.envelopes if one.name == payer.envelope), None) if budget else None


def _passed(
    history: History, entry: Entry, state: State, budget: Budget, envelope: Envelope, *, lends: bool
) -> list[str]:
    payer = Payer(budget.name, envelope.name)
    lending = envelope.lending
    passed = [
        _over(f"{payer.name} concurrency", state.held[payer], envelope.concurrency),
        _over_hours(f"{payer.name} maxGPUHours", history, state, entry, (payer,), envelope.gpu_hours_max),
    ]
    if lends:
        hours = lending.gpu_hours_max
        passed += [
            _over(f"{payer.name} lending.maxConcurrency", state.lent[payer], lending.concurrency_max),
            _over_hours(f"{payer.name} lending.maxGPUHours", history, state, entry, (payer,), hours, lent=True),
        ]
    for cap in budget.caps:
        if cap.flavor == envelope.flavor and envelope.name in cap.envelopes:
            members = tuple(Payer(budget.name, name) for name in sorted(set(cap.envelopes)))
            name = f"{budget.name} aggregate cap {cap.name}"
            passed += [
                _over(f"{name} maxConcurrency", sum(state.held[one] for one in members), cap.concurrency_max),
                _over_hours(f"{name} maxGPUHours", history, state, entry, members, cap.gpu_hours_max),
            ]
    return [problem for problem in passed if problem]


def _over(what: str, held: int, limit: int | None) -> str:
    return f"{what} is {limit}, after it {held} GPUs are held" if limit is not None and held > limit else ""


def _over_hours(
    what: str,
    history: History,
    state: State,
    entry: Entry,
    payers: tuple[Payer, ...],
    hours: int | None,
    *,
    lent: bool = False,
) -> str:
    """What was burnt when the entry was planned, and what it adds by its own duration, passes the cap (C2).

    What others still had to come at that time is not kept.
    """
    if hours is None:
        return ""
    used = sum(state.used_seconds(payer, entry.read_at, lent=lent) for payer in payers)
    if used > hours * HOUR:
        return f"{what} is {hours}, and {used} GPU-seconds were burnt when it was planned"
    ahead = _ahead(history, entry, payers, lent=lent)
    return f"{what} is {hours}, and with its duration {used + ahead} GPU-seconds" if used + ahead > hours * HOUR else ""


def _ahead(history: History, entry: Entry, payers: tuple[Payer, ...], *, lent: bool) -> int:
    run = history.runs_by_uid.get(entry.run.uid) if entry.run else None
    if run is None or run.duration is None or entry.kind is not EntryKind.START:
        return 0
    taken = [one for one in entry.opens if one.payer in payers and (not lent or one.funding is FundingClass.BORROWED)]
    return run.duration * sum(one.gpus for one in taken)


def _recorded_budgets(history: History, found: Findings) -> None:
    """One generation of a budget has one content: who records another has made up the caps it is judged by."""
    known: dict[tuple[str, int], tuple[Budget, str]] = {
        (budget.name, budget.generation): (budget, f"budget/{budget.name}") for budget in history.snapshot.budgets
    }
    for entry in history.counting:
        for budget in entry.budgets:
            first, where = known.setdefault((budget.name, budget.generation), (budget, entry_name(entry.seq)))
            if (first.envelopes, first.caps) != (budget.envelopes, budget.caps):
                found.error(
                    entry_name(entry.seq),
                    f"records budget {budget.name} generation {budget.generation} otherwise than {where}",
                )
