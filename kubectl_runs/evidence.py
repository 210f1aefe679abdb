"""Everything that is kept, as an audit goes by it: all entries and leases, and what objects say beyond the words.

Decides what is read and in which order; what it means is the planner's. A cluster moves while it is read: `base`
comes first and the entries last, so that whatever an object shows is in some entry by then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from kubectl_runs.store.protocol import Forbidden, List, Object, Store, StoreError
from kubectl_runs.wire import decode
from kubectl_runs.wire.kinds import (
    BUDGET,
    LEASE,
    LEDGER,
    LEDGER_ENTRY,
    NAMESPACE,
    NODE,
    POD,
    RESERVATION,
    RUN,
    Kind,
)
from kubectl_runs.wire.pods import SCHEDULER_NAME
from planner.audit import Evidence, Resolution
from planner.digest import digest
from planner.model import Snapshot, Token

_BEFORE_ENTRIES = (RUN, RESERVATION, LEASE, POD, NODE, BUDGET, NAMESPACE)


def read_everything(store: Store, hidden: Callable[[Kind], None] | None = None) -> list[Object]:
    """All objects of a cluster that an audit needs.

    Pods and namespaces may be hidden from an auditor (section 7): then `hidden` is told, and they are not judged.
    """
    base = store.perform(List(kind=LEDGER)).items
    between = store.perform_all([List(kind=kind) for kind in _BEFORE_ENTRIES])
    entries = store.perform(List(kind=LEDGER_ENTRY)).items
    found: list[Object] = [*base]
    for kind, outcome in zip(_BEFORE_ENTRIES, between, strict=True):
        if isinstance(outcome, Forbidden) and kind in (POD, NAMESPACE) and hidden is not None:
            hidden(kind)
        elif isinstance(outcome, StoreError):
            raise outcome
        else:
            found += outcome.items
    return [*found, *entries]


def evidence(objects: Sequence[Object]) -> tuple[Snapshot, Evidence]:
    """The planner's input with every entry and lease, and what else an audit goes by."""
    snapshot, problems = decode.snapshot(objects)
    return snapshot, replace(evidence_of(objects), unreadable=problems)


def evidence_of(objects: Iterable[Object]) -> Evidence:
    """Digests of the leases' specs, phases of runs, and which namespaces exist."""
    specs: dict[str, str] = {}
    phases: dict[str, str] = {}
    own_pods: set[str] = set()
    resolutions: dict[str, Resolution] = {}
    namespaces: set[str] | None = None
    for obj in objects:
        kind, metadata = obj.get("kind"), obj.get("metadata") or {}
        key = f"{metadata.get('namespace') or 'default'}/{metadata.get('name')}"
        if kind == "Lease":
            specs[key] = _digest(obj.get("spec"))
        elif kind == "Run":
            phases[key] = str((obj.get("status") or {}).get("phase") or "")
        elif kind == "Pod" and (obj.get("spec") or {}).get("schedulerName") == SCHEDULER_NAME:
            own_pods.add(key)
        elif kind == "Reservation" and isinstance(told := (obj.get("status") or {}).get("resolution"), dict):
            resolutions[key] = _resolution(told)
        elif kind == "Namespace":
            namespaces = namespaces or set()
            if (obj.get("status") or {}).get("phase") != "Terminating":
                namespaces.add(str(metadata.get("name")))
    return Evidence(
        lease_specs=specs,
        phases=phases,
        own_pods=frozenset(own_pods),
        resolutions=resolutions,
        namespaces=None if namespaces is None else frozenset(namespaces),
    )


def _resolution(told: Object) -> Resolution:
    """A status is read leniently (section 8): what has another shape says nothing."""
    entry, seed, tokens, draws = (told.get(name) for name in ("entry", "seed", "conflictSet", "draws"))
    shaped = isinstance(tokens, list) and all(isinstance(one, dict) for one in tokens)
    picked = isinstance(draws, list) and all(isinstance(one, dict) and "pick" in one for one in draws)
    return Resolution(
        entry=entry if isinstance(entry, int) else None,
        seed=seed if isinstance(seed, str) else None,
        tokens=tuple(map(_token, tokens)) if tokens and shaped else None,
        picks=tuple(str(one["pick"]) for one in draws) if draws and picked else None,
    )


def _token(told: Object) -> Token:
    return Token(owner=str(told.get("owner")), run=str(told.get("run")), gpus=told.get("gpus", 0))


def _digest(spec: Any) -> str:
    try:
        return digest(spec)
    except ValueError:
        return "no canonical spelling"
