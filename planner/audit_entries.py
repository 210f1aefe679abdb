"""Each entry replayed on the state before it: would the planner have allowed it (section 7)?

Caps are sums and the draws have their own proof, so both are judged elsewhere. What the planner saw and nobody keeps
(pods, nodes as they were, a run's funding before it was edited) is judged by today's objects and only warned about.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from planner.audit_history import (
    Check,
    Findings,
    History,
    Result,
    closing_reason,
    entry_name,
    is_closure,
)
from planner.audit_promises import promises_kept
from planner.audit_walk import State, before
from planner.family import Tree, admits
from planner.model import (
    Budget,
    Closed,
    Closure,
    Ended,
    Entry,
    EntryKind,
    Envelope,
    FundingClass,
    Lease,
    Opened,
    Payer,
    Role,
    Run,
)

FRESH_SECONDS = 120
_OPENS = (EntryKind.START, EntryKind.GROW, EntryKind.SWAP)
_ENDS = (EntryKind.CUT, EntryKind.SWAP, EntryKind.END)
# What a stage of the resolver may end (R2); shrinks and draws may end any role.
_ROLE_OF_CUT = {
    Closure.END_FILLER: Role.FILLER,
    Closure.DROP_SPARE: Role.SPARE,
    Closure.RECLAIMED_BY_SPARE: Role.FILLER,
}


def replay(history: History) -> Result:
    """Names every entry that the planner would not have allowed."""
    found = Findings(Check.REPLAY)
    nonces: dict[str, int] = {}
    ended: dict[str, str] = {}
    tree = Tree(history.snapshot.budgets)
    for entry, state in before(history):
        subject = entry_name(entry.seq)
        first = nonces.setdefault(entry.nonce, entry.seq)
        if entry.nonce and first != entry.seq:
            found.error(subject, f"has the nonce of entry {first}: one decision was recorded twice")
        if not 0 <= entry.created_at - entry.read_at <= FRESH_SECONDS:
            found.warning(subject, f"was not created within {FRESH_SECONDS} seconds after its readAt")
        for problem in (*_shape(entry), *_opens(history, entry, state), *_ends(history, entry, state)):
            found.error(subject, problem)
        for problem in _closes(history, entry, state, ended):
            found.error(subject, problem)
        for problem in (*_by_today(history, entry, state, tree), *promises_kept(history, entry, state)):
            found.warning(subject, problem)
        for one in entry.ends:
            ended.setdefault(f"{one.namespace}/{one.lease}", one.reason)
    return found.result(len(history.counting))


def _shape(entry: Entry) -> Iterator[str]:
    """Each kind records what it is for and nothing else (section 6)."""
    if entry.opens and entry.kind not in _OPENS:
        yield f"{entry.kind} opens leases"
    if entry.ends and entry.kind not in _ENDS:
        yield f"{entry.kind} ends leases"
    if entry.reserve and entry.kind not in (EntryKind.RESERVE, EntryKind.CUT):
        yield f"{entry.kind} makes a promise"
    if (entry.freeze is not None) != (entry.kind is EntryKind.FREEZE):
        yield f"{entry.kind} with{'out' if entry.freeze is None else ''} a frozen conflict set"
    if entry.draw and entry.kind is not EntryKind.CUT:
        yield f"{entry.kind} records a draw"
    if entry.kind in (EntryKind.START, EntryKind.GROW) and not entry.opens:
        yield f"{entry.kind} opens no lease"
    if entry.reserve and entry.run and entry.reserve.run_uid != entry.run.uid and entry.kind is EntryKind.RESERVE:
        yield "promises to another run than the one it is about"
    for index, opened in enumerate(entry.opens):
        if opened.lease != f"l-{entry.seq}-{index}":
            yield f"lease {index} is named {opened.lease}, not l-{entry.seq}-{index}"


def _opens(history: History, entry: Entry, state: State) -> Iterator[str]:
    if not entry.opens or entry.run is None:
        return
    run = history.runs_by_uid.get(entry.run.uid)
    budgets = {budget.name: budget for budget in entry.budgets}
    owners = {budget.name: budget.owner for budget in history.snapshot.budgets}
    for opened in entry.opens:
        if opened.gpus <= 0:
            yield f"lease {opened.lease} holds {opened.gpus} GPUs"
        envelope = _recorded(budgets, opened.payer)
        if envelope is not None:
            yield from _payment(entry, opened, envelope, owners.get(opened.payer.budget))
            if run is not None and envelope.flavor != run.flavor:
                yield f"{opened.payer.name} of flavor {envelope.flavor} pays for {run.flavor} of {run.key}"
        if run is not None and opened.owner != run.owner:
            yield f"lease {opened.lease} names owner {opened.owner}, that of {run.key} is {run.owner}"
    if entry.kind is EntryKind.SWAP:
        yield from _swapped(entry, state)
    elif run is not None:
        yield from _asked(entry, run, state)


def _recorded(budgets: dict[str, Budget], payer: Payer) -> Envelope | None:
    budget = budgets.get(payer.budget)
    return next((one for one in budget.envelopes if one.name == payer.envelope), None) if budget else None


def _payment(entry: Entry, opened: Opened, envelope: Envelope, payer_owner: str | None) -> Iterator[str]:
    """C1 window, C4 sharing, C5 lending, as the entry recorded them."""
    name = opened.payer.name
    late = envelope.end_at is not None and entry.read_at >= envelope.end_at
    early = envelope.start_at is not None and entry.read_at < envelope.start_at
    if (late or early) and entry.kind is not EntryKind.SWAP:
        yield f"{name} pays outside its window"
    owned = opened.funding is FundingClass.OWNED
    if payer_owner is not None and owned != (payer_owner == opened.owner):
        yield f"{name} of {payer_owner} pays for {opened.owner} as {opened.funding}"
    if opened.funding is FundingClass.SHARED and envelope.sharing == "none":
        yield f"{name} shares with nobody, but pays for {opened.owner} as shared"
    if opened.funding is FundingClass.BORROWED and not admits(envelope.lending, opened.owner):
        yield f"{name} does not lend to {opened.owner}"


def _swapped(entry: Entry, state: State) -> Iterator[str]:
    """S2: a swap moves a rank of the run to its own spare; it takes nothing that the run did not hold."""
    given = [state.open[key] for key in _keys(entry) if key in state.open]
    own = [lease for lease in given if entry.run and lease.run_uid == entry.run.uid]
    lost = sum(lease.gpus for lease in own if lease.role is not Role.SPARE)
    taken = sum(opened.gpus for opened in entry.opens)
    if taken > lost:
        yield f"opens {taken} GPUs in the place of {lost}"
    for opened in entry.opens:
        if not any(lease.payer == opened.payer and lease.group == opened.group for lease in own):
            yield f"lease {opened.lease} is paid by {opened.payer.name}, which paid for nothing that the swap ends"


def _keys(entry: Entry) -> list[str]:
    return [f"{ended.namespace}/{ended.lease}" for ended in entry.ends] + [
        f"{closed.namespace}/{closed.lease}" for closed in entry.closes
    ]


def _asked(entry: Entry, run: Run, state: State) -> Iterator[str]:
    """The width, the pods and the roles are those that the run asks for (P2, P5, O1)."""
    active = sum(opened.gpus for opened in entry.opens if opened.role is not Role.SPARE)
    held = sum(one.gpus for one in state.of_run(run.uid) if one.role is not Role.SPARE)
    if run.malleable is None:
        if active != run.gpus_total or entry.kind is EntryKind.GROW:
            yield f"opens {active} GPUs for {run.key}, which asks for {run.gpus_total}"
    elif not run.malleable.gpus_min <= held + active <= run.malleable.gpus_max:
        yield f"{run.key} would hold {held + active} GPUs, outside {run.malleable.gpus_min} to {run.malleable.gpus_max}"
    filler = {opened.role is Role.FILLER for opened in entry.opens if opened.role is not Role.SPARE}
    if filler and filler != {run.opportunistic}:
        yield f"the roles do not fit {run.key}, which is {'' if run.opportunistic else 'not '}opportunistic"
    yield from _pods(entry, run)


def _pods(entry: Entry, run: Run) -> Iterator[str]:
    gpus: dict[str, int] = defaultdict(int)
    nodes: dict[str, set[str]] = defaultdict(set)
    for opened in entry.opens:
        if opened.role is Role.SPARE:
            if opened.pod is not None:
                yield f"spare {opened.lease} has a pod"
        elif opened.pod is None:
            yield f"lease {opened.lease} has no pod"
        else:
            gpus[opened.pod.name] += opened.gpus
            nodes[opened.pod.name].add(opened.node)
    for pod in sorted(gpus):
        if gpus[pod] != run.gpus_per_pod or len(nodes[pod]) != 1:
            yield f"pod {pod} holds {gpus[pod]} GPUs on {len(nodes[pod])} nodes, it asks for {run.gpus_per_pod} on one"


def _ends(history: History, entry: Entry, state: State) -> Iterator[str]:
    ended_runs: dict[str, list[Lease]] = defaultdict(list)
    for ended in entry.ends:
        key = f"{ended.namespace}/{ended.lease}"
        lease = state.open.get(key)
        if lease is None:
            if not history.namespace_gone(ended.namespace):
                yield f"ends lease {key}, which was not open"
            continue
        yield from _end(entry, ended, lease)
        ended_runs[lease.run_uid].append(lease)
    for uid in sorted(ended_runs):
        yield from _shrunk(history, entry, state, uid, ended_runs[uid])


def _end(entry: Entry, ended: Ended, lease: Lease) -> Iterator[str]:
    if not is_closure(ended.reason):
        yield f"ends lease {lease.key} for {ended.reason}, which is no reason"
    if entry.kind is EntryKind.END and entry.run and lease.run_uid != entry.run.uid:
        yield f"ends lease {lease.key} of another run"
    reason = closing_reason(ended.reason)
    role = next((role for closure, role in _ROLE_OF_CUT.items() if closure == reason), lease.role)
    if lease.role is not role:
        yield f"ends lease {lease.key} of role {lease.role} as {reason}"


def _shrunk(history: History, entry: Entry, state: State, uid: str, ended: list[Lease]) -> Iterator[str]:
    """R2, E1: groups leave whole, a malleable run never goes below its minimum, and a fixed run never shrinks."""
    run = history.runs_by_uid.get(uid)
    shrunk = {f"{one.namespace}/{one.lease}" for one in entry.ends if one.reason == Closure.SHRINK.value}
    groups = {lease.group for lease in ended if lease.key in shrunk}
    if run is None or not groups:
        return
    gone = {lease.key for lease in ended} | state.ending
    for lease in state.of_run(uid):
        if lease.group in groups and lease.key not in gone:
            yield f"shrinks {run.key}, but leaves lease {lease.key} of group {lease.group}: groups leave whole"
    left = sum(lease.gpus for lease in state.of_run(uid) if lease.role is Role.ACTIVE and lease.key not in gone)
    left += sum(opened.gpus for opened in entry.opens if opened.role is Role.ACTIVE)  # S2 beside S3
    if run.malleable is None:
        yield f"shrinks {run.key}, which is not malleable"
    elif left < run.malleable.gpus_min:
        yield f"shrinks {run.key} to {left} GPUs, below its minimum {run.malleable.gpus_min}"


def _closes(history: History, entry: Entry, state: State, ended: dict[str, str]) -> Iterator[str]:
    if len({_run_of(history, closed) for closed in entry.closes}) > 1:
        yield "closes leases of several runs"
    for closed in entry.closes:
        key = f"{closed.namespace}/{closed.lease}"
        lease = state.open.get(key)
        if lease is None:
            yield f"closes lease {key}, which was not open"
            continue
        yield from _close(entry, closed, lease)
        own = next((one.reason for one in entry.ends if f"{one.namespace}/{one.lease}" == key), closed.reason)
        if closed.reason != ended.get(key, own):  # 6.6: the first `ends` gives the reason
            yield f"closes lease {key} as {closed.reason}, but it was ended as {ended.get(key, own)}"


def _run_of(history: History, closed: Closed) -> str:
    lease = history.fact(f"{closed.namespace}/{closed.lease}")
    return lease.run_uid if lease else ""


def _close(entry: Entry, closed: Closed, lease: Lease) -> Iterator[str]:
    if not is_closure(closed.reason):
        yield f"closes lease {lease.key} for {closed.reason}, which is no reason"
    if not lease.start_at <= closed.at <= entry.time:  # 6.6: clamped
        yield f"closes lease {lease.key} at a time outside its life"
    if closed.gpu_seconds != lease.gpus * (closed.at - lease.start_at):
        used = lease.gpus * (closed.at - lease.start_at)
        yield f"settles {closed.gpu_seconds} GPU-seconds for lease {lease.key}, which used {used}"
    if (closed.payer, closed.funding) != (lease.payer, lease.funding):
        yield f"charges {closed.payer.name} {closed.funding}, not {lease.payer.name} {lease.funding}, for {lease.key}"
    if entry.run and lease.run_uid != entry.run.uid:
        yield f"closes lease {lease.key} of another run"


def _by_today(history: History, entry: Entry, state: State, tree: Tree) -> Iterator[str]:
    """What the run may borrow and where its groups sit, by today's objects: funding is edited, labels move."""
    run = history.runs_by_uid.get(entry.run.uid) if entry.run else None
    if run is None or entry.kind not in (EntryKind.START, EntryKind.GROW):
        return
    opened = history.opens.get(entry.seq, ())
    owner = history.snapshot.namespace_owners.get(run.namespace, run.owner)
    if owner != run.owner:  # section 7
        yield f"{run.key} belongs to {run.owner}, its namespace to {owner} today"
    borrowed = [lease for lease in (*state.of_run(run.uid), *opened) if lease.funding is FundingClass.BORROWED]
    limit = run.funding.borrow_gpus_max
    if borrowed and not (run.funding.allow_borrow and run.funding.sponsors):  # C5
        yield f"borrows for {run.key}, which may not borrow by its funding of today"
    elif limit is not None and sum(lease.gpus for lease in borrowed) > limit:  # C6
        yield f"{run.key} would borrow {sum(lease.gpus for lease in borrowed)} GPUs, its limit of today is {limit}"
    yield from _family(history, run, opened, tree)
    yield from _islands(history, run, opened)


def _family(history: History, run: Run, opened: Iterable[Lease], tree: Tree) -> Iterator[str]:
    """C4: who shares is family, by the organisation of today."""
    owners = {budget.name: budget.owner for budget in history.snapshot.budgets}
    family = {run.owner, *tree.siblings(run.owner), *tree.parents(run.owner)}
    for payer in sorted({lease.payer for lease in opened if lease.funding is FundingClass.SHARED}):
        owner = owners.get(payer.budget)
        if owner is not None and owner not in family:
            yield f"{payer.name} of {owner} pays for {run.key} as shared, but is no family of {run.owner} today"


def _islands(history: History, run: Run, opened: Iterable[Lease]) -> Iterator[str]:
    domains = {node.name: node.domain for node in history.snapshot.nodes}
    groups: dict[int, set[str]] = defaultdict(set)
    for lease in opened:
        domain = domains.get(lease.node)
        if lease.role is not Role.SPARE and domain is not None:
            groups[lease.group].add(domain.name)
    for group in sorted(groups):
        if len(groups[group]) > 1:  # P2
            yield f"group {group} of {run.key} lies in {' and '.join(sorted(groups[group]))} by today's labels"


def once(history: History) -> Result:
    """A run starts at most once an attempt, and a new attempt only when the last one is all closed (6.7, S3)."""
    found = Findings(Check.ONCE)
    started: dict[tuple[str, int], int] = {}
    over: dict[str, int] = {}
    for entry, state in before(history):
        if entry.run is None:
            continue
        subject, run = entry_name(entry.seq), entry.run
        if entry.kind is EntryKind.START:
            first = started.setdefault((run.uid, run.attempt), entry.seq)
            if first != entry.seq:
                found.error(subject, f"starts attempt {run.attempt} of {run.key} again, entry {first} had started it")
            elif run.uid in over:
                found.error(subject, f"starts {run.key}, which entry {over[run.uid]} had cancelled")
            elif state.of_run(run.uid):
                found.error(subject, f"starts attempt {run.attempt} of {run.key} while leases of it are open")
        if entry.kind is EntryKind.END and _cancels(entry):
            over.setdefault(run.uid, entry.seq)
    return found.result(len(started))


def _cancels(entry: Entry) -> bool:
    """6.7: a cancel appends an End even with nothing to end."""
    return not entry.ends or any(one.reason == Closure.CANCELED for one in entry.ends)
