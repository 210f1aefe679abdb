"""Reading the cluster in the one order that is safe (6.1), and turning what was read into the planner's snapshot.

Decides what is asked for and when; what it means is decided in `wire.decode` and in the planner. Every read is direct:
a watch cache may only say that there is work. Whatever has left the entries is in the leases by then, because base
and entries are read before them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace

from kubectl_runs.commit.chain import Tip, link
from kubectl_runs.commit.steps import Outcome, Steps, all_of, good, try_one
from kubectl_runs.errors import RunsError
from kubectl_runs.store.protocol import Forbidden, Get, List, NotFound, Object, Reply, Request, StoreError
from kubectl_runs.wire import decode, encode
from kubectl_runs.wire.kinds import BUDGET, LEASE, LEDGER, LEDGER_ENTRY, NAMESPACE, NODE, POD, RESERVATION, RUN, Kind
from planner.fold import closed_keys, opened_leases
from planner.model import Entry, LedgerBase, Run, Snapshot
from planner.values import dataclass

BASE_NAME = "base"
OPEN = "status.closed!=true"  # also finds leases without a status
BATCH_FIRST = 4
BATCH_CAUGHT_UP = 2
BATCH_MAX = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One consistent look at the cluster, and where the ledger stood."""

    snapshot: Snapshot
    objects: Mapping[Kind, Mapping[str, Object]] = field(hash=False)  # by `namespace/name`, or name
    base: LedgerBase
    base_object: Object | None = field(hash=False)  # None: nobody has installed a Ledger
    tip: Tip
    seen: int  # the tip when pods were listed: of later entries' pods this reading knows nothing (6.6)
    read_at: int  # server time of its first reply: the plan is no younger than this
    pod_namespaces: frozenset[str] = frozenset()  # whose pods were listed, where not all could be
    namespaces_listed: bool = True
    problems: tuple[str, ...] = ()

    @property
    def now(self) -> int:
        """The server's time, as plans use it."""
        return self.read_at

    def object(self, kind: Kind, key: str) -> Object | None:
        return self.objects.get(kind, {}).get(key)

    def run(self, key: str) -> Run | None:
        return next((run for run in self.snapshot.runs if run.key == key), None)

    def terminating(self, namespace: str) -> bool:
        """6.5: whether a namespace is Terminating or gone, so that nothing more can be written there."""
        found = self.object(NAMESPACE, namespace)
        if found is None:
            return self.namespaces_listed  # not allowed to list them: unknown, and so taken to be there
        return (found.get("status") or {}).get("phase") == "Terminating"


def read(*, runs: Sequence[str] = ()) -> Steps[Reading]:
    """Everything a plan needs, in the order of 6.1; `runs` are the keys of those whose closed leases count too."""
    base_object, read_at = yield from _read_base()
    base = decode.ledger(base_object) if base_object else LedgerBase()
    pending, entries = yield from _read_entries(base)
    held = yield from _read_held(runs)
    strays = yield from _read_strays(pending, held[LEASE])
    around, visible, listed = yield from _read_surroundings(runs)
    objects = {**held, LEASE: {**held[LEASE], **strays}, **around}
    tip, linked = link(Tip.of_base(base), map(decode.entry, entries))
    old = tuple(decode.entry(entry) for entry in pending)
    snapshot, problems = decode.snapshot(_flat(objects), base=base_object, pods_visible=visible)
    return Reading(
        snapshot=replace(snapshot, entries=(*old, *linked), base=base if base_object else None),
        objects=objects,
        base=base,
        base_object=base_object,
        tip=tip,
        seen=tip.seq,
        read_at=read_at,
        namespaces_listed=listed,
        pod_namespaces=frozenset(key.partition("/")[0] for key in runs),
        problems=tuple(problems),
    )


def read_ledger() -> Steps[tuple[LedgerBase, tuple[Entry, ...]]]:
    """The ledger alone: base, and the entries that the leases may not show yet (6.1)."""
    base_object, _ = yield from _read_base()
    base = decode.ledger(base_object) if base_object else LedgerBase()
    pending, entries = yield from _read_entries(base)
    _, linked = link(Tip.of_base(base), map(decode.entry, entries))
    return base, (*map(decode.entry, pending), *linked)


def catch_up(reading: Reading) -> Steps[tuple[Reading, tuple[Entry, ...]]]:
    """The same reading with the entries that were appended since; what they opened and closed is folded in (6.4)."""
    found = yield from _read_numbers(reading.tip.seq + 1, size=BATCH_CAUGHT_UP)
    return extend(reading, found)


def extend(reading: Reading, entries: Sequence[Object]) -> tuple[Reading, tuple[Entry, ...]]:
    """A reading with entries that follow its tip."""
    tip, linked = link(reading.tip, map(decode.entry, entries))
    known = reading.snapshot.entries
    return replace(reading, tip=tip, snapshot=replace(reading.snapshot, entries=(*known, *linked))), linked


def _read_base() -> Steps[tuple[Object | None, int]]:
    """6.1: first `base`, so that nothing between it and the entries can be missed."""
    outcome = yield from try_one(Get(kind=LEDGER, name=BASE_NAME))
    if isinstance(outcome, NotFound):
        server_time = outcome.server_time
        if server_time is None:
            server_time = good((yield from try_one(List(kind=LEDGER)))).server_time
        return None, server_time
    reply = good(outcome)
    return reply.object, reply.server_time


def _read_entries(base: LedgerBase) -> Steps[tuple[list[Object], list[Object]]]:
    """6.1: the entries in `pending`, then base+1, base+2, … by number; no list, however long the history."""
    numbers = sorted(base.pending)
    # 6.1: the entry `base.seq` must exist with `base.digest`, unless it is at or below `floor`.
    vouch = [base.seq] if base.seq > base.floor else []
    first = range(base.seq + 1, base.seq + 1 + BATCH_FIRST)
    outcomes = yield tuple(_get_entry(number) for number in (*numbers, *vouch, *first))
    pending = [good(outcome).object for outcome in outcomes[: len(numbers)]]
    for outcome in outcomes[len(numbers) : len(numbers) + len(vouch)]:
        _check_base(base, outcome)
    early = dict(zip(first, outcomes[len(numbers) + len(vouch) :], strict=True))
    return pending, (yield from _read_numbers(base.seq + 1, early))


def _check_base(base: LedgerBase, outcome: Outcome) -> None:
    if isinstance(outcome, StoreError) and not isinstance(outcome, NotFound):
        raise outcome
    if isinstance(outcome, NotFound) or decode.entry(outcome.object).digest != base.digest:
        raise RunsError(
            f"ledger base stands at entry {base.seq}, which is missing or not the one it names",
            hint="kubectl runs verify",
        )


def _read_numbers(
    first: int, answers: Mapping[int, Outcome] | None = None, *, size: int = BATCH_FIRST
) -> Steps[list[Object]]:
    """Entries from `first` up to the number before the first missing one, in parallel batches."""
    outcomes = dict(answers or {})
    found: list[Object] = []
    asked_again: set[int] = set()
    number = first
    while True:
        if number not in outcomes:
            batch = range(number, number + size)
            outcomes.update(zip(batch, (yield tuple(map(_get_entry, batch))), strict=True))
            size = min(BATCH_MAX, size * 2)
        outcome = outcomes[number]
        if isinstance(outcome, Reply):
            found.append(outcome.object)
            number += 1
        elif not isinstance(outcome, NotFound):
            raise outcome
        elif number not in asked_again and _any_above(outcomes, number):
            # 6.1: in one batch 1 may answer "none" before 1 and 2 land, and 2 after: ask for the missing once more.
            asked_again.add(number)
            outcomes[number] = yield from try_one(_get_entry(number))
        else:
            return found


def _any_above(outcomes: Mapping[int, Outcome], number: int) -> bool:
    return any(above > number and isinstance(outcome, Reply) for above, outcome in outcomes.items())


def _get_entry(number: int) -> Request:
    return Get(kind=LEDGER_ENTRY, name=encode.entry_name(number))


def _read_held(runs: Sequence[str]) -> Steps[dict[Kind, dict[str, Object]]]:
    """6.1: runs and reservations, open leases, and all leases of the runs in question."""
    requests: list[Request] = [List(kind=RUN), List(kind=RESERVATION), List(kind=LEASE, fields=OPEN)]
    for key in runs:
        namespace, _, name = key.partition("/")
        requests.append(List(kind=LEASE, namespace=namespace, fields=f"spec.runRef.name={name}"))
    replies = [good(outcome) for outcome in (yield tuple(requests))]
    # A lease that was closed between two lists is closed: of two versions the later reply counts.
    leases = [lease for reply in replies[2:] for lease in reply.items]
    return {RUN: _by_key(replies[0].items), RESERVATION: _by_key(replies[1].items), LEASE: _by_key(leases)}


def _read_strays(pending: Sequence[Object], leases: Mapping[str, Object]) -> Steps[dict[str, Object]]:
    """Leases that an entry in `pending` opens or closes and that are not among the open ones: closed, or not written.

    The entry that closed one may be behind base already, so only the lease itself can tell.
    """
    entries = [entry for entry in map(decode.entry, pending) if not entry.void]
    wanted = sorted(({lease.key for lease in opened_leases(entries)} | closed_keys(entries)) - set(leases))
    outcomes = yield from all_of([_get_lease(key) for key in wanted])
    return {key: outcome.object for key, outcome in zip(wanted, outcomes, strict=True) if isinstance(outcome, Reply)}


def _get_lease(key: str) -> Request:
    namespace, _, name = key.partition("/")
    return Get(kind=LEASE, name=name, namespace=namespace)


def _read_surroundings(runs: Sequence[str]) -> Steps[tuple[dict[Kind, dict[str, Object]], bool, bool]]:
    """6.1: pods after the leases, so that a pod that looks gone is gone; nodes; budgets, namespaces."""
    outcomes = yield (List(kind=POD), List(kind=NODE), List(kind=BUDGET), List(kind=NAMESPACE))
    pods, nodes, budgets, namespaces = outcomes
    mine = sorted({key.partition("/")[0] for key in runs})
    visible = not isinstance(pods, Forbidden)
    if not visible:
        # Section 7: where foreign pods may not be listed, planning goes by leases and entries alone.
        own = yield from all_of([List(kind=POD, namespace=namespace) for namespace in mine])
        pods = Reply(server_time=0, items=[pod for outcome in own for pod in good(outcome).items])
    listed = not isinstance(namespaces, Forbidden)
    if not listed:
        own = yield from all_of([Get(kind=NAMESPACE, name=namespace) for namespace in mine])
        namespaces = Reply(server_time=0, items=[outcome.object for outcome in own if isinstance(outcome, Reply)])
    replies = {POD: good(pods), NODE: good(nodes), BUDGET: good(budgets), NAMESPACE: good(namespaces)}
    return {kind: _by_key(reply.items) for kind, reply in replies.items()}, visible, listed


def _by_key(items: Iterable[Object]) -> dict[str, Object]:
    return {object_key(item): item for item in items}


def object_key(item: Object) -> str:
    metadata = item["metadata"]
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])


def _flat(objects: Mapping[Kind, Mapping[str, Object]]) -> list[Object]:
    """All objects in one list, each with its kind: items of a list do not always carry it."""
    return [
        item if item.get("kind") else {**item, "kind": kind.name, "apiVersion": kind.api_version}
        for kind, items in objects.items()
        for item in items.values()
    ]
