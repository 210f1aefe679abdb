"""The ledger: entries and the base (section 6).

An entry of a wrong shape is void: it keeps its number and changes nothing. Whether its `prev` is right needs the
entry before it and is decided where entries are linked.
"""

from __future__ import annotations

import re
from typing import Any

from kubectl_runs.wire import times
from kubectl_runs.wire.decode.budgets import PURSES, recorded
from kubectl_runs.wire.decode.fleet import Topology, lenient_instant
from kubectl_runs.wire.decode.leases import RESERVATION, promised
from kubectl_runs.wire.decode.shape import COUNT, SOME, Wrong, anything, digest, instant, match, one_of, text
from planner.digest import digest as digest_of
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


def _nonce(value: Any) -> None:
    if type(value) is not str or not re.fullmatch("[0-9a-f]{32}", value):
        raise ValueError("must be 32 hex digits")


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
    "prev": digest,
    "nonce": _nonce,
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
BASE_NAME = "base"
PENDING_MAX = 64
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
    "digest?": digest,
    "time?": instant,
    "floor?": COUNT,
    "floorAt?": instant,
    "pending?": [SOME],
    "settled?": [{"budget": text, "envelope": text, "class": one_of(FundingClass), "gpuSeconds": COUNT}],
    "topology?": TOPOLOGY,
}


# Which kinds of entry must have a part, and which may (section 6).
_ALL_BUT_FREEZE_AND_CUT = tuple(kind for kind in EntryKind if kind not in (EntryKind.FREEZE, EntryKind.CUT))
MUST = {
    "run": _ALL_BUT_FREEZE_AND_CUT,
    "opens": (EntryKind.START, EntryKind.GROW),
    "closes": (EntryKind.CLOSE,),
    "reserve": (EntryKind.RESERVE,),
    "freeze": (EntryKind.FREEZE,),
}
MAY = {
    "opens": (EntryKind.START, EntryKind.GROW, EntryKind.SWAP),
    "ends": (EntryKind.CUT, EntryKind.SWAP, EntryKind.END),
    "closes": (EntryKind.CLOSE,),
    "reserve": (EntryKind.RESERVE, EntryKind.CUT),
    "freeze": (EntryKind.FREEZE,),
    "draw": (EntryKind.CUT,),
}


def _fits_its_kind(spec: Json) -> None:
    kind = spec["kind"]
    for part, kinds in MUST.items():
        if kind in kinds and not spec.get(part):
            raise Wrong(f"spec.{part}", f"is required of a {kind}")
    for part, kinds in MAY.items():
        if kind not in kinds and spec.get(part):
            raise Wrong(f"spec.{part}", f"must not stand in a {kind}")
    if kind == EntryKind.START and not spec["run"].get("attempt"):
        raise Wrong("spec.run.attempt", "is required of a Start")


def entry(obj: Json) -> Entry:
    """An entry; raises `Wrong`. Its time is its own until it is linked to the one before it."""
    spec, metadata = obj.get("spec"), obj["metadata"]
    match(spec, ENTRY, "spec")
    assert isinstance(spec, dict)
    if metadata["name"] != f"{spec['seq']:012d}":
        raise Wrong("spec.seq", f"{spec['seq']} is not the number in the name {metadata['name']}")
    _fits_its_kind(spec)
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
        own = digest_of(obj.get("spec"))
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
    _in_range(obj["metadata"]["name"], spec)
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


def _in_range(name: str, spec: Json) -> None:
    """6.8: floor at or below seq, pending between them, each number once and at most 64."""
    floor, pending = spec.get("floor") or 0, spec.get("pending") or []
    if name != BASE_NAME:
        raise Wrong("metadata.name", f"the one Ledger is named {BASE_NAME}")
    if floor > spec["seq"]:
        raise Wrong("spec.floor", f"{floor} is above seq {spec['seq']}")
    if any(not floor < number <= spec["seq"] for number in pending):
        raise Wrong("spec.pending", f"must be above floor {floor} and at most seq {spec['seq']}")
    if len(set(pending)) < len(pending) or len(pending) > PENDING_MAX:
        raise Wrong("spec.pending", f"must be at most {PENDING_MAX} numbers, each once")


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
