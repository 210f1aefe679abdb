"""Budgets: an owner's envelopes and the caps over them (section 4)."""

from __future__ import annotations

from typing import Any

from kubectl_runs.wire import times
from kubectl_runs.wire.decode.shape import COUNT, Wrong, instant, match, one_of, owner, text
from planner.model import AggregateCap, Budget, Envelope, Lending, Selector

Json = dict[str, Any]

SELECTOR = {"region?": str, "cluster?": str, "fabric.domain?": str}
LENDING = {"allow?": bool, "to?": [text], "maxConcurrency?": COUNT, "maxGPUHours?": COUNT}
ENVELOPE = {
    "name": text,
    "flavor": text,
    "selector?": SELECTOR,
    "concurrency": COUNT,
    "maxGPUHours?": COUNT,
    "start?": instant,
    "end?": instant,
    "sharing?": one_of(("family", "none")),
    "queueing?": one_of(("BestEffortFIFO", "StrictFIFO")),
    "lending?": LENDING,
}
CAP = {"name": text, "flavor": text, "envelopes": [text], "maxConcurrency?": COUNT, "maxGPUHours?": COUNT}
ENVELOPES_MAX, CAPS_MAX = 32, 16  # CEL's cost limit (section 4)
PURSES = {"envelopes?": [ENVELOPE], "aggregateCaps?": [CAP]}
SPEC = {"owner": owner, "parents?": [owner], **PURSES}


def budget(obj: Json) -> Budget:
    """A budget; raises `Wrong` with the path of what is wrong."""
    spec = obj.get("spec")
    match(spec, SPEC, "spec")
    assert isinstance(spec, dict)
    metadata = obj["metadata"]
    return recorded({**spec, "name": metadata["name"], "generation": metadata.get("generation") or 1}, spec["owner"])


def recorded(record: Json, held_by: str) -> Budget:
    """A budget as an entry recorded it (section 6), or as it stands now: both are spelled alike."""
    parents = record.get("parents")
    envelopes = tuple(envelope(part) for part in record.get("envelopes") or ())
    caps = tuple(_cap(part) for part in record.get("aggregateCaps") or ())
    if len(envelopes) > ENVELOPES_MAX:
        raise Wrong("spec.envelopes", f"must be at most {ENVELOPES_MAX}, not {len(envelopes)}")
    if len(caps) > CAPS_MAX:
        raise Wrong("spec.aggregateCaps", f"must be at most {CAPS_MAX}, not {len(caps)}")
    _consistent(envelopes, caps)
    return Budget(
        name=record["name"],
        owner=held_by,
        parents=None if parents is None else tuple(parents),
        envelopes=envelopes,
        caps=caps,
        generation=record["generation"],
    )


def _consistent(envelopes: tuple[Envelope, ...], caps: tuple[AggregateCap, ...]) -> None:
    """Names are unique, windows are in order, and a cap names envelopes of its own flavor."""
    flavors: dict[str, str] = {}
    for index, part in enumerate(envelopes):
        if part.name in flavors:
            raise Wrong(f"spec.envelopes[{index}].name", f"{part.name} is the name of two envelopes")
        if part.start_at is not None and part.end_at is not None and part.start_at >= part.end_at:
            raise Wrong(f"spec.envelopes[{index}].end", "must be after start")
        flavors[part.name] = part.flavor
    if len({cap.name for cap in caps}) < len(caps):
        raise Wrong("spec.aggregateCaps", "two caps have the same name")
    for index, cap in enumerate(caps):
        for name in cap.envelopes:
            if flavors.get(name) != cap.flavor:
                raise Wrong(f"spec.aggregateCaps[{index}].envelopes", f"no envelope {name} of flavor {cap.flavor}")


def envelope(part: Json) -> Envelope:
    lending = part.get("lending") or {}
    return Envelope(
        name=part["name"],
        flavor=part["flavor"],
        selector=selector(part.get("selector")),
        concurrency=part["concurrency"],
        gpu_hours_max=part.get("maxGPUHours"),
        start_at=_instant(part.get("start")),
        end_at=_instant(part.get("end")),
        sharing=part.get("sharing") or "family",
        queueing=part.get("queueing") or "BestEffortFIFO",
        lending=Lending(
            allow=lending.get("allow") or False,
            to=tuple(lending.get("to") or ()),
            concurrency_max=lending.get("maxConcurrency"),
            gpu_hours_max=lending.get("maxGPUHours"),
        ),
    )


def _cap(part: Json) -> AggregateCap:
    return AggregateCap(
        name=part["name"],
        flavor=part["flavor"],
        envelopes=tuple(part["envelopes"]),
        concurrency_max=part.get("maxConcurrency"),
        gpu_hours_max=part.get("maxGPUHours"),
    )


def selector(part: Json | None) -> Selector:
    """An absent or empty selector, and an empty value in it, match everything."""
    found = part or {}
    return Selector(
        region=found.get("region") or "*",
        cluster=found.get("cluster") or "*",
        fabric=found.get("fabric.domain") or "*",
    )


def _instant(value: str | None) -> int | None:
    return None if value is None else times.instant(value)
