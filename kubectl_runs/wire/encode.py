"""The planner's words as Kubernetes JSON: ledger entries, leases, reservations and the ledger's base.

Decides spelling only. Nothing here ever writes a null or an empty list: an absent value has no key, since the server
drops nulls and would break the chain of digests (section 6).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from kubectl_runs.wire.kinds import API_VERSION, GROUP
from kubectl_runs.wire.times import rfc3339
from planner.digest import canonical
from planner.model import (
    Closed,
    DrawRecord,
    Ended,
    Entry,
    Freeze,
    LedgerBase,
    Opened,
    Reservation,
    RunRef,
    Step,
)

Json = dict[str, Any]

TRACE_BYTES_MAX = 64 * 1024
ENTRY_BYTES_MAX = 1_200_000
LABEL_RUN = f"{GROUP}/run"
LABEL_GROUP_INDEX = f"{GROUP}/group-index"
LABEL_ROLE = f"{GROUP}/role"
LABEL_NODE = f"{GROUP}/node"
LABEL_PAYER = f"{GROUP}/payer"

_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?")


def entry_name(seq: int) -> str:
    """An entry's name is its number in 12 digits, so that names sort as numbers do."""
    return f"{seq:012d}"


def lease_name(seq: int, index: int) -> str:
    """A lease's name follows from the entry that opens it, so that everybody writes the same one (6.5)."""
    return f"l-{seq}-{index}"


def present(**values: Any) -> Json:
    """A JSON object of those values that say something."""
    return {key: value for key, value in values.items() if value not in (None, "", [], {})}


def labels(**values: str) -> Json:
    """Labels by our names; a value that is no legal label is left out (section 4)."""
    names = {"run": LABEL_RUN, "group": LABEL_GROUP_INDEX, "role": LABEL_ROLE, "node": LABEL_NODE, "payer": LABEL_PAYER}
    return {names[name]: value for name, value in values.items() if value and _LABEL_VALUE.fullmatch(value)}


def run_ref(ref: RunRef) -> Json:
    return {"namespace": ref.namespace, "name": ref.name, "uid": ref.uid, "attempt": ref.attempt}


def object_ref(ref: RunRef) -> Json:
    return {"namespace": ref.namespace, "name": ref.name, "uid": ref.uid}


def opened(open_: Opened) -> Json:
    return present(
        lease=open_.lease,
        pod={"name": open_.pod.name, "uid": open_.pod.uid} if open_.pod else None,
        node=open_.node,
        owner=open_.owner,
        role=open_.role.value,
        reason=open_.reason.value,
        budget=open_.payer.budget,
        envelope=open_.payer.envelope,
        **{"class": open_.funding.value},
    ) | {"gpus": open_.gpus, "group": open_.group}


def ended(end: Ended) -> Json:
    return {"namespace": end.namespace, "lease": end.lease, "reason": str(end.reason)}


def closed(close: Closed) -> Json:
    return {
        "namespace": close.namespace,
        "lease": close.lease,
        "at": rfc3339(close.at),
        "reason": str(close.reason),
        "gpuSeconds": close.gpu_seconds,
        "budget": close.payer.budget,
        "envelope": close.payer.envelope,
        "class": close.funding.value,
        "spec": close.spec,
    }


def freeze(frozen: Freeze) -> Json:
    return {
        "algorithm": frozen.algorithm,
        "scope": {"flavor": frozen.flavor, "nodes": list(frozen.nodes)},
        "deficitGPUs": frozen.deficit_gpus,
        "tokens": [{"owner": token.owner, "run": token.run, "gpus": token.gpus} for token in frozen.tokens],
    }


def draw(record: DrawRecord) -> Json:
    return {"freeze": record.freeze, "seed": record.seed, "picks": list(record.picks)} | present(
        givenBack=list(record.given_back)
    )


def reservation_spec(reservation: Reservation) -> Json:
    groups = [
        {
            "index": group.index,
            "domain": group.domain,
            "nodes": [{"name": node.name, "gpus": node.gpus} for node in group.nodes],
        }
        for group in reservation.groups
    ]
    payers = [
        {"budget": share.payer.budget, "envelope": share.payer.envelope, "gpus": share.gpus}
        for share in reservation.payers
    ]
    start = None if reservation.earliest_start is None else rfc3339(reservation.earliest_start)
    return {
        "runRef": {"name": reservation.run_name, "uid": reservation.run_uid},
        "gpus": reservation.gpus,
        "intendedSlice": {"groups": groups},
    } | present(payers=payers, earliestStart=start)


def reservation_object(namespace: str, name: str, spec: Json) -> Json:
    return {
        "apiVersion": API_VERSION,
        "kind": "Reservation",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def step(fact: Step) -> Json:
    """One step of a trace; a field that says nothing is left out."""
    return {"rule": fact.rule, "act": fact.act, "subject": fact.subject} | {
        name: str(value) if not isinstance(value, int) else value
        for name in ("group", "node", "role", "funding", "need", "had", "took", "cap", "reason", "note")
        if (value := getattr(fact, name)) not in (None, "")
    }


def trace(steps: Sequence[Step]) -> list[Json]:
    """The steps as recorded in an entry: at most 64 kB; beyond that the first ones and how many were left out."""
    recorded: list[Json] = []
    size = 2
    for index, fact in enumerate(steps):
        encoded = step(fact)
        size += len(canonical(encoded).encode()) + 1
        if size > TRACE_BYTES_MAX - 200:
            left = len(steps) - index
            return [*recorded, {"rule": "6", "act": "summarised", "subject": "trace", "note": f"{left} more steps"}]
        recorded.append(encoded)
    return recorded


def budget_record(budget: Json) -> Json:
    """A budget as it stood when it was asked: what its caps are judged by (section 6)."""
    spec = budget.get("spec") or {}
    metadata = budget["metadata"]
    purses: Json = without_nulls(present(envelopes=spec.get("envelopes"), aggregateCaps=spec.get("aggregateCaps")))
    return {"name": metadata["name"], "generation": metadata.get("generation") or 1, **purses}


def without_nulls(value: Any) -> Any:
    """The same JSON without nulls, at any depth."""
    if isinstance(value, dict):
        return {key: without_nulls(part) for key, part in value.items() if part is not None}
    if isinstance(value, list):
        return [without_nulls(part) for part in value]
    return value


def lease_spec(entry: Entry, open_: Opened) -> Json:
    """The lease that an entry opens. It follows from the entry alone, so anybody writes the same one (6.5)."""
    run = entry.run
    assert run is not None, "an entry that opens leases names their run"
    return {
        "owner": open_.owner,
        "runRef": {"name": run.name, "uid": run.uid, "attempt": run.attempt},
        "compPath": [f"SHARD[{open_.group}]"],
        "slice": {"nodes": [open_.node], "gpus": open_.gpus, "role": open_.role.value},
        "node": open_.node,
        "interval": {"start": rfc3339(entry.time)},
        "paidByBudget": open_.payer.budget,
        "paidByEnvelope": open_.payer.envelope,
        "class": open_.funding.value,
        "reason": open_.reason.value,
    } | present(podRef={"name": open_.pod.name, "uid": open_.pod.uid} if open_.pod else None)


def lease_object(entry: Entry, open_: Opened) -> Json:
    assert entry.run is not None, "an entry that opens leases names their run"
    return {
        "apiVersion": API_VERSION,
        "kind": "Lease",
        "metadata": {
            "name": open_.lease,
            "namespace": entry.run.namespace,
            "labels": labels(
                run=entry.run.name,
                group=str(open_.group),
                role=open_.role.value,
                node=open_.node,
                payer=f"{open_.payer.budget}.{open_.payer.envelope}",
            ),
        },
        "spec": lease_spec(entry, open_),
    }


def lease_closing(close: Closed) -> Json:
    """The status that closes a lease, written once."""
    return {"status": {"closed": True, "endTime": rfc3339(close.at), "closureReason": str(close.reason)}}


def base_spec(base: LedgerBase, topology: Json) -> Json:
    settled = [
        {
            "budget": sum_.payer.budget,
            "envelope": sum_.payer.envelope,
            "class": sum_.funding.value,
            "gpuSeconds": sum_.gpu_seconds,
        }
        for sum_ in sorted(base.settled, key=lambda sum_: (sum_.payer, sum_.funding))
    ]
    return {"seq": base.seq, "digest": base.digest, "floor": base.floor} | present(
        time=rfc3339(base.time) if base.time else None,
        floorAt=None if base.floor_at is None else rfc3339(base.floor_at),
        pending=sorted(base.pending),
        settled=settled,
        topology=topology,
    )
