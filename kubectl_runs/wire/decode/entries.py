"""The ledger: entries and the base (section 6).

An entry of a wrong shape is void: it keeps its number and changes nothing. Whether its `prev` is right needs the
entry before it and is decided where entries are linked.
"""

from __future__ import annotations

from typing import Any

from kubectl_runs.wire import times
from kubectl_runs.wire.decode.budgets import PURSES, recorded
from kubectl_runs.wire.decode.fleet import Topology, lenient_instant
from kubectl_runs.wire.decode.leases import RESERVATION, promised
from kubectl_runs.wire.decode.shape import COUNT, SOME, Wrong, anything, instant, match, one_of, text
from planner.digest import digest
from planner.model import (
    NO_DIGEST,
    Closed,
    DrawRecord,
    Ended,
    Entry,
    EntryKind,
    Freeze,
    FundingClass,
    LedgerBase,
    Opened,
    Opening,
    Payer,
    PodRef,
    Reservation,
    Role,
    RunRef,
    Settled,
    Token,
)

Json = dict[str, Any]

OPEN = {
    "lease": text,
    "pod?": {"name": text, "uid": str},
    "node": text,
    "gpus": SOME,
    "role": one_of(Role),
    "group": COUNT,
    "owner": text,
    "budget": text,
    "envelope": text,
    "class": one_of(FundingClass),
    "reason": one_of(Opening),
}
CLOSE = {
    "namespace": text,
    "lease": text,
    "at": instant,
    "reason": text,
    "gpuSeconds": COUNT,
    "budget": text,
    "envelope": text,
    "class": one_of(FundingClass),
    "spec?": text,
}
ENTRY = {
    "seq": SOME,
    "prev": text,
    "nonce": text,
    "readAt": instant,
    "kind": one_of(EntryKind),
    "run?": {"namespace": text, "name": text, "uid": str, "attempt?": SOME},
    "reservation?": {"namespace": text, "name": text, "uid": str},
    "budgets?": [{"name": text, "generation?": COUNT, "owner?": text, "parents?": [text], **PURSES}],
    "plan?": str,
    "trace?": [anything],
    "opens?": [OPEN],
    "ends?": [{"namespace": text, "lease": text, "reason": text}],
    "closes?": [CLOSE],
    "reserve?": RESERVATION,
    "freeze?": {
        "algorithm": text,
        "scope": {"flavor": text, "nodes?": [text]},
        "deficitGPUs": COUNT,
        "tokens?": [{"owner": text, "run": text, "gpus": SOME}],
    },
    "draw?": {"freeze": SOME, "seed": text, "picks?": [text], "givenBack?": [text]},
}
TOPOLOGY = {
    "region?": text,
    "cluster?": text,
    "fabricDomain?": text,
    "rack?": text,
    "flavor?": text,
    "resource?": text,
}
BASE = {
    "seq": COUNT,
    "digest?": text,
    "time?": instant,
    "floor?": COUNT,
    "floorAt?": instant,
    "pending?": [SOME],
    "settled?": [{"budget": text, "envelope": text, "class": one_of(FundingClass), "gpuSeconds": COUNT}],
    "topology?": TOPOLOGY,
}


def entry(obj: Json) -> Entry:
    """An entry; raises `Wrong`. Its time is its own until it is linked to the one before it."""
    spec, metadata = obj.get("spec"), obj["metadata"]
    match(spec, ENTRY, "spec")
    assert isinstance(spec, dict)
    if metadata["name"] != f"{spec['seq']:012d}":
        raise Wrong("spec.seq", f"{spec['seq']} is not the number in the name {metadata['name']}")
    run = _ref(spec.get("run"))
    return Entry(
        **_stamp(obj, spec),
        prev=spec["prev"],
        nonce=spec["nonce"],
        read_at=times.instant(spec["readAt"]),
        kind=EntryKind(spec["kind"]),
        run=run,
        reservation=_ref(spec.get("reservation")),
        budgets=tuple(_budget(part) for part in spec.get("budgets") or ()),
        plan=spec.get("plan") or "",
        trace=tuple(step for step in spec.get("trace") or () if isinstance(step, dict)),
        opens=tuple(_opened(part) for part in spec.get("opens") or ()),
        ends=tuple(Ended(**part) for part in spec.get("ends") or ()),
        closes=tuple(_closed(part) for part in spec.get("closes") or ()),
        reserve=_reserve(spec, run, _created(metadata)),
        freeze=_freeze(spec.get("freeze")),
        draw=_draw(spec.get("draw")),
    )


def void(obj: Json, problem: str) -> Entry:
    """An entry that cannot be read: its number and digest count, nothing else does (6.1)."""
    metadata, spec = obj["metadata"], obj.get("spec") if isinstance(obj.get("spec"), dict) else {}
    name = str(metadata["name"])
    stamp = _stamp(obj, {**(spec or {}), "seq": int(name) if name.isdecimal() else 0})
    return Entry(**stamp, prev="", nonce="", read_at=0, kind=EntryKind.END, void=problem)


def _stamp(obj: Json, spec: Json) -> dict[str, Any]:
    metadata = obj["metadata"]
    created = _created(metadata)
    try:
        own = digest(obj.get("spec"))
    except ValueError:
        own = NO_DIGEST
    return {
        "seq": spec["seq"],
        "digest": own,
        "time": created,
        "created_at": created,
        "created_at_raw": str(metadata.get("creationTimestamp") or ""),
        "uid": str(metadata.get("uid") or ""),
    }


def _created(metadata: Json) -> int:
    return lenient_instant(metadata.get("creationTimestamp")) or 0


def _ref(part: Json | None) -> RunRef | None:
    if part is None:
        return None
    return RunRef(namespace=part["namespace"], name=part["name"], uid=part["uid"], attempt=part.get("attempt") or 1)


def _budget(part: Json) -> Any:
    return recorded({"generation": 1, **part}, part.get("owner") or "")


def _opened(part: Json) -> Opened:
    pod = part.get("pod")
    return Opened(
        lease=part["lease"],
        pod=None if pod is None else PodRef(name=pod["name"], uid=pod["uid"]),
        node=part["node"],
        gpus=part["gpus"],
        role=Role(part["role"]),
        group=part["group"],
        owner=part["owner"],
        payer=Payer(part["budget"], part["envelope"]),
        funding=FundingClass(part["class"]),
        reason=Opening(part["reason"]),
    )


def _closed(part: Json) -> Closed:
    return Closed(
        namespace=part["namespace"],
        lease=part["lease"],
        at=times.instant(part["at"]),
        reason=part["reason"],
        gpu_seconds=part["gpuSeconds"],
        payer=Payer(part["budget"], part["envelope"]),
        funding=FundingClass(part["class"]),
        spec=part.get("spec") or "",
    )


def _reserve(spec: Json, run: RunRef | None, created: int) -> Reservation | None:
    """The promise of a Reserve or Cut; the Reservation is named after its run (6.5)."""
    part = spec.get("reserve")
    if part is None:
        return None
    promise = _ref(spec.get("reservation")) or run
    if promise is None:
        raise Wrong("spec.run", "is required with reserve")
    return promised(part, namespace=promise.namespace, name=promise.name, created_at=created)


def _freeze(part: Json | None) -> Freeze | None:
    if part is None:
        return None
    return Freeze(
        algorithm=part["algorithm"],
        flavor=part["scope"]["flavor"],
        nodes=tuple(part["scope"].get("nodes") or ()),
        deficit_gpus=part["deficitGPUs"],
        tokens=tuple(Token(**token) for token in part.get("tokens") or ()),
    )


def _draw(part: Json | None) -> DrawRecord | None:
    if part is None:
        return None
    return DrawRecord(
        freeze=part["freeze"],
        seed=part["seed"],
        picks=tuple(part.get("picks") or ()),
        given_back=tuple(part.get("givenBack") or ()),
    )


def base(obj: Json) -> tuple[LedgerBase, Topology]:
    """Where reading begins, and which labels the fleet is read by (P1)."""
    spec = obj.get("spec")
    match(spec, BASE, "spec")
    assert isinstance(spec, dict)
    floor_at, time = spec.get("floorAt"), spec.get("time")
    ledger = LedgerBase(
        seq=spec["seq"],
        digest=spec.get("digest") or NO_DIGEST,
        time=times.instant(time) if time else 0,
        floor=spec.get("floor") or 0,
        floor_at=None if floor_at is None else times.instant(floor_at),
        pending=tuple(spec.get("pending") or ()),
        settled=tuple(
            Settled(
                payer=Payer(part["budget"], part["envelope"]),
                funding=FundingClass(part["class"]),
                gpu_seconds=part["gpuSeconds"],
            )
            for part in spec.get("settled") or ()
        ),
    )
    return ledger, topology(spec.get("topology") or {})


def topology(part: Json) -> Topology:
    """Label keys and the resource's name; what is not set is as the design says."""
    default = Topology()
    return Topology(
        region=part.get("region") or default.region,
        cluster=part.get("cluster") or default.cluster,
        fabric=part.get("fabricDomain") or default.fabric,
        rack=part.get("rack") or default.rack,
        flavor=part.get("flavor") or default.flavor,
        resource=part.get("resource") or default.resource,
    )
