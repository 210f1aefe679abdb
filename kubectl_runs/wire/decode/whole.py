"""All objects of a cluster or a file as the planner's one snapshot.

On a cluster a bad object is reported and the rest goes on: a bad lease still holds its GPUs, as far as it says which;
a bad budget pays nothing new; a bad run starts nothing. In a file of ours one bad object refuses the whole file.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from kubectl_runs.errors import WireError
from kubectl_runs.wire.decode import budgets, entries, fleet, leases, runs, shape
from kubectl_runs.wire.decode.fleet import Topology
from kubectl_runs.wire.kinds import GROUP
from planner.model import (
    Budget,
    Entry,
    FundingClass,
    Lease,
    LedgerBase,
    Payer,
    Reservation,
    Role,
    Run,
    Snapshot,
)

Json = dict[str, Any]
T = TypeVar("T")

OWNER_ANNOTATION = f"{GROUP}/owner"
UNKNOWN = "?"


def _named(read: Callable[..., T], obj: Json, *args: Any) -> T:
    """Reads one object; whatever is wrong with it is said with its name."""
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str) or not metadata["name"]:
        raise shape.error(obj, shape.Wrong("metadata.name", "is required"))
    try:
        return read(obj, *args)
    except shape.Wrong as wrong:
        raise shape.error(obj, wrong) from None


def budget(obj: Json) -> Budget:
    return _named(budgets.budget, obj)


def run(obj: Json, namespace_owners: Mapping[str, str] | None = None) -> Run:
    """A run; without the namespaces' owners its own must be given."""
    return _named(runs.run, obj, namespace_owners or {})


def lease(obj: Json) -> Lease:
    return _named(leases.lease, obj)


def reservation(obj: Json) -> Reservation:
    return _named(leases.reservation, obj)


def entry(obj: Json) -> Entry:
    """An entry; one of a wrong shape is void (6.1)."""
    try:
        return _named(entries.entry, obj)
    except WireError as wrong:
        return entries.void(obj, f"{wrong.path}: {wrong.problem}")


def _strict_entry(obj: Json) -> Entry:
    return _named(entries.entry, obj)


def base(obj: Json) -> LedgerBase:
    return _named(entries.base, obj)[0]


def topology(obj: Json | None) -> Topology:
    """The label keys that a `Ledger` object sets; the usual ones without it."""
    return fleet.DEFAULT if obj is None else _named(entries.base, obj)[1]


def leniently(read: Callable[[Json], T], objects: Iterable[Json]) -> Iterator[T]:
    """Those that can be read, for screens: a bad object is reported where it counts."""
    for obj in objects:
        try:
            yield read(obj)
        except WireError:
            continue


def namespace_owners(namespaces: Iterable[Json]) -> dict[str, str]:
    """Who owns each namespace that says so (section 7)."""
    owners = {}
    for obj in namespaces:
        metadata = obj.get("metadata") or {}
        owner = (metadata.get("annotations") or {}).get(OWNER_ANNOTATION)
        if isinstance(owner, str) and owner:
            owners[str(metadata.get("name"))] = owner
    return owners


def snapshot(
    objects: Iterable[Json], *, base: Json | None = None, pods_visible: bool = True, strict: bool = False
) -> tuple[Snapshot, tuple[str, ...]]:
    """The planner's input from plain objects of any kind, and what was wrong with some of them.

    `base` is the Ledger object where it was read apart. `strict` raises at the first bad object of ours instead.
    """
    by_kind: dict[str, list[Json]] = defaultdict(list)
    for obj in objects:
        by_kind[str(obj.get("kind"))].append(obj)
    problems: list[str] = []
    ledger_object = base or next(iter(by_kind["Ledger"]), None)
    labels = topology(ledger_object)
    owners = namespace_owners(by_kind["Namespace"])

    def each(
        kind: str, read: Callable[..., T], *args: Any, instead: Callable[[Json], T | None] | None = None
    ) -> tuple[T, ...]:
        found: list[T] = []
        for obj in by_kind[kind]:
            try:
                found.append(read(obj, *args))
            except WireError as wrong:
                if strict:
                    raise
                problems.append(wrong.message)
                held = instead(obj) if instead else None
                if held is not None:
                    found.append(held)
        return tuple(found)

    made = Snapshot(
        nodes=each("Node", fleet.node, labels),
        pods=each("Pod", fleet.pod, labels),
        budgets=each("Budget", budget),
        runs=each("Run", run, owners),
        leases=each("Lease", lease, instead=held_anyway),
        reservations=each("Reservation", reservation),
        entries=each("LedgerEntry", _strict_entry if strict else entry),
        base=None if ledger_object is None else _named(entries.base, ledger_object)[0],
        namespace_owners=owners,
        pods_visible=pods_visible,
    )
    return made, tuple(problems)


def held_anyway(obj: Json) -> Lease | None:
    """A bad lease that is not closed counts as held on the node it names, paid by nobody we know."""
    spec, metadata = obj.get("spec") or {}, obj.get("metadata") or {}
    part = spec.get("slice") or {}
    nodes, gpus = part.get("nodes"), part.get("gpus")
    if (obj.get("status") or {}).get("closed") is True or not nodes or type(gpus) is not int:
        return None
    run_ref = spec.get("runRef") or {}
    return Lease(
        namespace=str(metadata.get("namespace") or "default"),
        name=str(metadata.get("name") or UNKNOWN),
        owner=str(spec.get("owner") or UNKNOWN),
        run_name=str(run_ref.get("name") or UNKNOWN),
        run_uid=str(run_ref.get("uid") or UNKNOWN),
        group=0,
        node=str(nodes[0]),
        gpus=gpus,
        role=Role.ACTIVE,
        start_at=0,
        payer=Payer(str(spec.get("paidByBudget") or UNKNOWN), str(spec.get("paidByEnvelope") or UNKNOWN)),
        funding=FundingClass.OWNED,
    )
