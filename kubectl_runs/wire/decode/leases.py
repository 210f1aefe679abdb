"""Leases and reservations: what is held, and what is promised.

There may be 100,000 leases, so a good one is read in one pass without looking at its shape; only where that fails is
the shape consulted, for the path of what is wrong.
"""

from __future__ import annotations

import re
from typing import Any

from kubectl_runs.wire import times
from kubectl_runs.wire.decode.fleet import lenient_instant
from kubectl_runs.wire.decode.shape import COUNT, SOME, Wrong, instant, match, one_of, text
from planner.model import (
    FundingClass,
    Lease,
    Opening,
    Payer,
    PayerShare,
    PodRef,
    Reservation,
    ReservationState,
    Role,
    SliceGroup,
    SliceNode,
)

Json = dict[str, Any]

_SHARD = re.compile(r"SHARD\[(\d{1,9})\]")


def _path(value: Any) -> None:
    """The first part names the group; it is never defaulted, since a wrong group is cut with the wrong pods."""
    if not (isinstance(value, list) and value and isinstance(value[0], str) and _SHARD.fullmatch(value[0])):
        raise ValueError("must begin with SHARD[<group index>]")


def _one_node(value: Any) -> None:
    if not (isinstance(value, list) and len(value) == 1 and isinstance(value[0], str) and value[0]):
        raise ValueError("must name one node")


LEASE = {
    "owner": text,
    "runRef": {"name": text, "uid": str, "attempt?": SOME},
    "podRef?": {"name": text, "uid": str},
    "compPath": _path,
    "slice": {"nodes": _one_node, "gpus": SOME, "role": one_of(Role)},
    "node?": text,
    "interval": {"start": instant},
    "paidByBudget": text,
    "paidByEnvelope": text,
    "class": one_of(FundingClass),
    "reason": one_of(Opening),
}
CLOSING = {"endTime": instant, "closureReason": text}
LEASE_KEYS = frozenset(key.removesuffix("?") for key in LEASE)
RUN_KEYS, POD_KEYS = frozenset(("name", "uid", "attempt")), frozenset(("name", "uid"))
SLICE_KEYS, INTERVAL_KEYS = frozenset(("nodes", "gpus", "role")), frozenset(("start",))

_ROLES = {role.value: role for role in Role}
_CLASSES = {word.value: word for word in FundingClass}
_OPENINGS = {word.value: word for word in Opening}
_payers: dict[tuple[str, str], Payer] = {}
_groups: dict[str, int] = {}
_days: dict[str, int] = {}
_clocks: dict[str, int] = {}


def lease(obj: Json) -> Lease:
    """A lease; raises `Wrong` with the path of what is wrong."""
    try:
        return _read(obj)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        match(obj.get("spec"), LEASE, "spec")
        _match_status(obj.get("status"))
        raise


def _read(obj: Json) -> Lease:
    metadata, spec = obj["metadata"], obj["spec"]
    run, part, pod = spec["runRef"], spec["slice"], spec.get("podRef")
    (node,) = part["nodes"]
    attempt = run.get("attempt")
    status = obj.get("status") or {}
    closed = status.get("closed") or False
    payer = spec["paidByBudget"], spec["paidByEnvelope"]
    made = Lease(
        namespace=metadata.get("namespace") or "default",
        name=metadata["name"],
        owner=spec["owner"],
        run_name=run["name"],
        run_uid=run["uid"],
        attempt=1 if attempt is None else attempt,
        pod=None if pod is None else PodRef(name=pod["name"], uid=pod["uid"]),
        group=_groups.get(spec["compPath"][0]) or _group(spec["compPath"]),
        node=node,
        gpus=part["gpus"],
        role=_ROLES[part["role"]],
        start_at=_instant(spec["interval"]["start"]),
        payer=_payers.get(payer) or _payer(payer),
        funding=_CLASSES[spec["class"]],
        reason=_OPENINGS[spec["reason"]],
        closed=closed,
        end_at=_instant(status["endTime"]) if closed else None,
        closure=status["closureReason"] if closed else None,
    )
    _check(made, spec)
    return made


def _check(made: Lease, spec: Json) -> None:
    """Whatever the reading above would let pass; the shape then says what it was."""
    run, part, pod = spec["runRef"], spec["slice"], spec.get("podRef")
    known = (
        spec.keys() <= LEASE_KEYS
        and run.keys() <= RUN_KEYS
        and part.keys() <= SLICE_KEYS
        and spec["interval"].keys() <= INTERVAL_KEYS
        and (pod is None or pod.keys() <= POD_KEYS)
    )
    numbers = type(made.gpus) is int and made.gpus >= 1 and type(made.attempt) is int and made.attempt >= 1
    texts = (
        _is_text(made.owner)
        and _is_text(made.run_name)
        and type(made.run_uid) is str
        and _is_text(made.node)
        and _is_text(made.payer[0])
        and _is_text(made.payer[1])
        and (pod is None or (_is_text(pod["name"]) and type(pod["uid"]) is str))
        and (not made.closed or _is_text(made.closure))
    )
    if not (known and numbers and texts and type(part["nodes"]) is list and type(made.closed) is bool):
        raise ValueError("not the shape of a lease")
    if made.end_at is not None and made.end_at < made.start_at:
        raise Wrong("status.endTime", "is before interval.start")
    if "node" in spec and spec["node"] not in (None, made.node):
        raise Wrong("spec.node", "must equal slice.nodes[0]")


def _is_text(value: object) -> bool:
    return type(value) is str and value != ""


def _match_status(status: Any) -> None:
    """Status is read leniently, but a closed lease must say when and why it ended."""
    if not isinstance(status, dict) or status.get("closed") in (None, False):
        return
    if status["closed"] is not True:
        raise Wrong("status.closed", "must be true or false")
    match({key: status.get(key) for key in CLOSING}, CLOSING, "status")


def _group(path: list[str]) -> int:
    _path(path)
    index = _groups[path[0]] = int(path[0][6:-1])
    return index


def _payer(names: tuple[str, str]) -> Payer:
    payer = _payers[names] = Payer(*names)
    return payer


def _instant(value: str) -> int:
    """`times.instant`, remembering days and times of day, of which there are few."""
    try:
        return _days[value[:10]] + _clocks[value[10:]]
    except KeyError:
        whole = times.instant(value)
    if value.endswith("Z"):
        _days[value[:10]] = times.instant(f"{value[:10]}T00:00:00Z")
        _clocks[value[10:]] = whole - _days[value[:10]]
    return whole


RESERVATION = {
    "runRef": {"name": text, "uid": str},
    "gpus": COUNT,
    "intendedSlice?": {"groups?": [{"index": COUNT, "domain": text, "nodes?": [{"name": text, "gpus": COUNT}]}]},
    "payers?": [{"budget": text, "envelope": text, "gpus": COUNT}],
    "earliestStart?": instant,
}


def reservation(obj: Json) -> Reservation:
    """A reservation with the state that its status gives it; Pending if it has none, Blocked without a start."""
    spec, metadata, status = obj.get("spec"), obj["metadata"], obj.get("status") or {}
    match(spec, RESERVATION, "spec")
    assert isinstance(spec, dict)
    start = spec.get("earliestStart")
    unwritten = ReservationState.PENDING if start else ReservationState.BLOCKED
    state = status.get("state") or unwritten
    if state not in tuple(ReservationState):
        raise Wrong("status.state", f"must be one of {', '.join(ReservationState)}")
    return promised(
        spec,
        namespace=metadata.get("namespace") or "default",
        name=metadata["name"],
        uid=str(metadata.get("uid") or ""),
        state=ReservationState(state),
        reason=str(status.get("reason") or ""),
        created_at=lenient_instant(metadata.get("creationTimestamp")) or 0,
    )


def promised(spec: Json, **rest: Any) -> Reservation:
    """A reservation from its spec, which an entry records as it is (section 6)."""
    groups = (spec.get("intendedSlice") or {}).get("groups") or ()
    start = spec.get("earliestStart")
    return Reservation(
        run_name=spec["runRef"]["name"],
        run_uid=spec["runRef"]["uid"],
        gpus=spec["gpus"],
        groups=tuple(
            SliceGroup(
                index=group["index"],
                domain=group["domain"],
                nodes=tuple(SliceNode(name=node["name"], gpus=node["gpus"]) for node in group.get("nodes") or ()),
            )
            for group in groups
        ),
        payers=tuple(
            PayerShare(payer=Payer(part["budget"], part["envelope"]), gpus=part["gpus"])
            for part in spec.get("payers") or ()
        ),
        earliest_start=None if start is None else times.instant(start),
        **rest,
    )
