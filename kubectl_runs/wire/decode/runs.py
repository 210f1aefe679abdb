"""Runs: the work asked for, with the defaults and the divisibility rules of section 4."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubectl_runs.wire import times
from kubectl_runs.wire.decode.budgets import SELECTOR, selector
from kubectl_runs.wire.decode.fleet import lenient_instant, needs
from kubectl_runs.wire.decode.shape import COUNT, SOME, Wrong, anything, duration, match, owner, text
from planner.model import Funding, Malleable, Run

Json = dict[str, Any]

NAME_MAX = 40
SPEC = {
    "owner?": owner,
    "resources": {"gpuType": text, "totalGPUs": SOME, "gpusPerPod?": SOME},
    "locality?": {"groupGPUs?": SOME, "allowCrossGroupSpread?": bool, "selector?": SELECTOR},
    "malleable?": {"minTotalGPUs": SOME, "maxTotalGPUs": SOME, "stepGPUs": SOME, "desiredTotalGPUs?": SOME},
    "sparesPerGroup?": COUNT,
    "canceled?": bool,
    "funding?": {"allowBorrow?": bool, "maxBorrowGPUs?": COUNT, "sponsors?": [owner]},
    "duration?": duration,
    "opportunistic?": bool,
    "runtime?": {"checkpoint?": duration, "maxRetries?": COUNT},
    "template?": anything,
}


def run(obj: Json, namespace_owners: Mapping[str, str]) -> Run:
    """A run, its owner being the namespace's where the spec is silent; raises `Wrong`."""
    spec = obj.get("spec")
    match(spec, SPEC, "spec")
    assert isinstance(spec, dict)
    metadata = obj["metadata"]
    namespace, name = metadata.get("namespace") or "default", metadata["name"]
    if len(name) > NAME_MAX:
        raise Wrong("metadata.name", f"must be at most {NAME_MAX} characters, not {len(name)}")
    resources, locality, policy = spec["resources"], spec.get("locality") or {}, spec.get("runtime") or {}
    malleable = _malleable(spec)
    group = locality.get("groupGPUs") or (malleable.gpus_step if malleable else None)
    made = Run(
        namespace=namespace,
        name=name,
        uid=str(metadata.get("uid") or ""),
        owner=_owner(spec, namespace, namespace_owners),
        flavor=resources["gpuType"],
        gpus_total=resources["totalGPUs"],
        gpus_per_pod=resources.get("gpusPerPod") or 1,
        group_gpus=group,
        cross_group_spread=locality.get("allowCrossGroupSpread") is not False,
        selector=selector(locality.get("selector")),
        malleable=malleable,
        spares_per_group=spec.get("sparesPerGroup") or 0,
        canceled=spec.get("canceled") or False,
        funding=_funding(spec.get("funding") or {}),
        duration=_seconds(spec.get("duration")),
        opportunistic=spec.get("opportunistic") or False,
        checkpoint=_seconds(policy.get("checkpoint")),
        retries_max=policy.get("maxRetries") or 0,
        needs=needs(spec.get("template")),
        created_at=lenient_instant(metadata.get("creationTimestamp")) or 0,
        deleting=bool(metadata.get("deletionTimestamp")),
    )
    _sensible(made)
    _divisible(made)
    return made


def _owner(spec: Json, namespace: str, namespace_owners: Mapping[str, str]) -> str:
    named = spec.get("owner") or namespace_owners.get(namespace)
    if not named:
        raise Wrong("spec.owner", f"is required: namespace {namespace} has no owner")
    return str(named)


def _malleable(spec: Json) -> Malleable | None:
    part = spec.get("malleable")
    if part is None:
        return None
    return Malleable(
        gpus_min=part["minTotalGPUs"],
        gpus_max=part["maxTotalGPUs"],
        gpus_step=part["stepGPUs"],
        gpus_desired=part.get("desiredTotalGPUs") or spec["resources"]["totalGPUs"],
    )


def _funding(part: Json) -> Funding:
    return Funding(
        allow_borrow=part.get("allowBorrow") or False,
        borrow_gpus_max=part.get("maxBorrowGPUs"),
        sponsors=tuple(part.get("sponsors") or ()),
    )


def _sensible(run: Run) -> None:
    if run.duration == 0:
        raise Wrong("spec.duration", "must be longer than nothing")
    if len(set(run.funding.sponsors)) < len(run.funding.sponsors):
        raise Wrong("spec.funding.sponsors", "names a sponsor twice")


def _divisible(run: Run) -> None:
    """Pods divide groups, groups divide the run, and every width of a malleable run is min plus whole steps."""
    total, pod, group = run.gpus_total, run.gpus_per_pod, run.group_gpus
    if total % pod:
        raise Wrong("spec.resources.gpusPerPod", f"{pod} does not divide totalGPUs {total}")
    if group is not None and group % pod:
        raise Wrong("spec.resources.gpusPerPod", f"{pod} does not divide groupGPUs {group}")
    if group is not None and total % group:
        raise Wrong("spec.locality.groupGPUs", f"{group} does not divide totalGPUs {total}")
    if run.malleable is not None:
        _stepped(run, run.malleable)


def _stepped(run: Run, part: Malleable) -> None:
    if run.group_gpus is not None and part.gpus_step % run.group_gpus:
        raise Wrong("spec.locality.groupGPUs", f"{run.group_gpus} does not divide stepGPUs {part.gpus_step}")
    widths = (
        ("spec.malleable.maxTotalGPUs", part.gpus_max),
        ("spec.resources.totalGPUs", run.gpus_total),
        ("spec.malleable.desiredTotalGPUs", part.gpus_desired),
    )
    for path, width in widths:
        if not part.gpus_min <= width <= part.gpus_max:
            raise Wrong(path, f"{width} is not between minTotalGPUs {part.gpus_min} and maxTotalGPUs {part.gpus_max}")
        if (width - part.gpus_min) % part.gpus_step:
            raise Wrong(path, f"{width} is not minTotalGPUs {part.gpus_min} plus whole steps of {part.gpus_step}")


def _seconds(value: str | None) -> int | None:
    return None if value is None else times.duration(value)
