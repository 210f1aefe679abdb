"""Run: the work asked for. Namespaced, written by researchers."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kubectl_runs.wire import times
from kubectl_runs.wire.schema.parts import (
    Conditions,
    Count,
    FreeObject,
    GoDuration,
    Gpus,
    Hours,
    Label,
    LongText,
    Name,
    Open,
    Owner,
    Part,
    Selector,
    SomeGpus,
    Time,
    a_set,
)
from kubectl_runs.wire.schema.rules import Json, Rule, Rules, Transition, value

NAME_MAX = 40  # leaves room for rank and nonce in the names of its pods


class Resources(Part):
    """How many GPUs of which flavor, and how many of them to a pod."""

    gpuType: Label = Field(description="GPU flavor, as in the nodes' flavor label.")
    totalGPUs: SomeGpus = Field(description="GPUs of the whole run.")
    gpusPerPod: SomeGpus = Field(1, description="GPUs of one pod, all on one node. Divides totalGPUs and groupGPUs.")


class Locality(Part):
    """How close together its pods must be, and where it may run."""

    groupGPUs: SomeGpus | None = Field(
        None, description="GPUs of one group, placed in one domain. Default: stepGPUs of a malleable run, else none."
    )
    allowCrossGroupSpread: bool = Field(True, description="Whether groups may lie in different domains.")
    selector: Selector | None = Field(None, description="Limits where it may run.")


class Malleable(Part):
    """Widths that the run can live with, so that it may be grown and shrunk."""

    minTotalGPUs: SomeGpus = Field(description="It is never shrunk below this.")
    maxTotalGPUs: SomeGpus = Field(description="It is never grown beyond this.")
    stepGPUs: SomeGpus = Field(description="Its width is minTotalGPUs plus whole steps of this.")
    desiredTotalGPUs: SomeGpus | None = Field(
        None, description="Width it should have now; set by `shrink` and `grow`. Default: totalGPUs."
    )


class Funding(Part):
    """Who outside the family may be asked to pay."""

    allowBorrow: bool = Field(False, description="Whether it may borrow from sponsors.")
    maxBorrowGPUs: Gpus | None = Field(None, description="Most GPUs borrowed by this run, spares included.")
    sponsors: list[Owner] | None = Field(
        None, max_length=32, description="Owners to ask, in this order.", json_schema_extra=a_set()
    )


class Runtime(Part):
    """What happens when a pod ends before its work is done."""

    checkpoint: GoDuration | None = Field(
        None, description="Time that pods get to save when cut; after a loss such a run is requeued, not failed."
    )
    maxRetries: int = Field(0, ge=0, le=1000, description="How often the run is tried again after a pod failed.")


class Container(Open):
    """A container of the pod; every field of Kubernetes is allowed."""

    name: str = Field(min_length=1, max_length=63, description="Name of the container.")


class PodSpec(Open):
    """An ordinary PodSpec, less what the plugin decides."""

    nodeName: str | None = Field(None, max_length=253, description="Refused: the planner chooses the node.")
    schedulerName: str | None = Field(None, max_length=253, description="Refused: the plugin binds the pods itself.")
    restartPolicy: str | None = Field(None, max_length=32, description="`Never` or `OnFailure`. Default: Never.")
    containers: list[Container] = Field(min_length=1, max_length=64, description="The user's own containers.")


class Template(Open):
    """An ordinary PodTemplateSpec."""

    metadata: FreeObject | None = Field(None, description="Labels and annotations of the pods.")
    spec: PodSpec = Field(description="The pod. The plugin adds scheduling fields, the GPU request and the gang's env.")


class RunSpec(Part):
    """The work asked for. Once created only malleable.desiredTotalGPUs, funding and canceled change."""

    owner: Owner | None = Field(
        None, description="Who asks. Default, and where it is set required: the namespace's owner."
    )
    resources: Resources = Field(description="How many GPUs of which flavor.")
    locality: Locality | None = Field(None, description="How close together, and where.")
    malleable: Malleable | None = Field(None, description="Widths it can live with. Absent: its width is fixed.")
    sparesPerGroup: Count = Field(0, description="Pods that each group holds in reserve on nodes of their own.")
    canceled: bool | None = Field(None, description="Set by `cancel`; never taken back.")
    funding: Funding | None = Field(None, description="Who outside the family may be asked to pay.")
    duration: GoDuration | None = Field(None, description="Walltime, such as `4h`. Makes forecasts and backfill exact.")
    opportunistic: bool = Field(False, description="Runs on idle or spare GPUs, and is the first to go.")
    runtime: Runtime | None = Field(None, description="What happens when a pod ends before its work is done.")
    template: Template = Field(description="An ordinary PodTemplateSpec: the run runs the user's own containers.")


class Width(Part):
    """GPUs of the run, as declared and as held."""

    min: Gpus | None = Field(None, description="Fewest GPUs.")
    max: Gpus | None = Field(None, description="Most GPUs.")
    desired: Gpus | None = Field(None, description="GPUs it should have.")
    allocated: Gpus | None = Field(None, description="Active GPUs it holds.")
    pending: Gpus | None = Field(None, description="GPUs it still waits for.")


class Share(Part):
    """What one class of payers contributes."""

    gpus: Gpus | None = Field(None, description="GPUs paid now.")
    gpuHours: Hours | None = Field(None, description="GPU-hours paid so far, rounded down.")


class SponsorShare(Share):
    """What one sponsor contributes."""

    owner: Owner = Field(description="The sponsor.")


class FundingStatus(Part):
    """Who pays."""

    owned: Share | None = Field(None, description="Paid by the run's own owner.")
    shared: Share | None = Field(None, description="Paid by its family.")
    borrowed: Share | None = Field(None, description="Paid by lenders.")
    sponsors: list[SponsorShare] | None = Field(None, max_length=256, description="The lenders, each.")


class RunLeases(Part):
    """The leases of the run."""

    open: Count | None = Field(None, description="Open leases.")
    names: list[Name] | None = Field(None, max_length=10000, description="Names of the open leases.")


class RunStatus(Part):
    """How the run stands, as last seen. Never an input of planning."""

    phase: Literal["Pending", "Running", "Completed", "Failed"] | None = Field(
        None, description="Derived from conditions."
    )
    message: LongText | None = Field(None, description="Why it is so, in a sentence.")
    conditions: Conditions | None = Field(None, description="What was observed.")
    observedGeneration: int | None = Field(None, description="The spec's generation that was looked at.")
    attempt: int | None = Field(None, ge=0, description="Which try this is, from 1.")
    width: Width | None = Field(None, description="GPUs, declared and held.")
    funding: FundingStatus | None = Field(None, description="Who pays.")
    earliestStart: Time | None = Field(None, description="When it is promised to start.")
    pendingReservation: Name | None = Field(None, description="Reservation it waits for.")
    leases: RunLeases | None = Field(None, description="Its open leases.")


def group_gpus(spec: Json) -> int:
    """The group of a malleable run defaults to its step; a fixed run without groups is one group."""
    step = value(spec, "malleable.stepGPUs", spec["resources"]["totalGPUs"])
    return int(value(spec, "locality.groupGPUs", step))


def _steps_from_min(spec: Json) -> bool:
    malleable = spec.get("malleable")
    if malleable is None:
        return True
    low, high, step = malleable["minTotalGPUs"], malleable["maxTotalGPUs"], malleable["stepGPUs"]
    total = spec["resources"]["totalGPUs"]
    widths = (total, malleable.get("desiredTotalGPUs", total), high)
    return all(low <= width <= high and (width - low) % step == 0 for width in widths)


def _frozen(spec: Json, old: Json) -> bool:
    return _less_changeable(spec) == _less_changeable(old)


def _less_changeable(spec: Json) -> Json:
    kept = {key: part for key, part in spec.items() if key not in ("funding", "canceled")}
    if "malleable" in kept:
        kept["malleable"] = {key: part for key, part in kept["malleable"].items() if key != "desiredTotalGPUs"}
    return kept


_GROUP_CEL = "self.?locality.?groupGPUs.orValue(self.?malleable.?stepGPUs.orValue(self.resources.totalGPUs))"
_DESIRED_CEL = "self.malleable.?desiredTotalGPUs.orValue(self.resources.totalGPUs)"
_FROZEN = ("resources", "template", "sparesPerGroup", "opportunistic")
_FROZEN_IF_ANY = ("owner", "locality", "duration", "runtime")


def _same_if_any(name: str) -> str:
    """`self.?x == oldSelf.?x` says the same, but CEL's estimator takes its cost for unbounded."""
    return f"has(self.{name}) == has(oldSelf.{name}) && (!has(self.{name}) || self.{name} == oldSelf.{name})"


RULES: Rules = (
    Rule(
        at="",
        message="the name of a run must have at most 40 characters",
        cel=f"self.metadata.name.size() <= {NAME_MAX}",
        holds=lambda run: len(value(run, "metadata.name", "")) <= NAME_MAX,
    ),
    Rule(
        at="spec",
        message="resources.gpusPerPod must divide resources.totalGPUs",
        cel="self.resources.totalGPUs % self.resources.gpusPerPod == 0",
        holds=lambda spec: spec["resources"]["totalGPUs"] % spec["resources"]["gpusPerPod"] == 0,
    ),
    Rule(
        at="spec",
        message="resources.gpusPerPod must divide locality.groupGPUs (of a malleable run by default its stepGPUs)",
        cel=f"{_GROUP_CEL} % self.resources.gpusPerPod == 0",
        holds=lambda spec: group_gpus(spec) % spec["resources"]["gpusPerPod"] == 0,
    ),
    Rule(
        at="spec",
        message="locality.groupGPUs (of a malleable run by default its stepGPUs) must divide resources.totalGPUs",
        cel=f"self.resources.totalGPUs % {_GROUP_CEL} == 0",
        holds=lambda spec: spec["resources"]["totalGPUs"] % group_gpus(spec) == 0,
    ),
    Rule(
        at="spec",
        message="locality.groupGPUs must divide malleable.stepGPUs",
        cel=f"!has(self.malleable) || self.malleable.stepGPUs % {_GROUP_CEL} == 0",
        holds=lambda spec: value(spec, "malleable.stepGPUs", 0) % group_gpus(spec) == 0,
    ),
    Rule(
        at="spec",
        message="totalGPUs, desiredTotalGPUs and maxTotalGPUs must be minTotalGPUs plus whole steps up to maxTotalGPUs",
        cel=(
            f"!has(self.malleable) || [self.resources.totalGPUs, {_DESIRED_CEL}, self.malleable.maxTotalGPUs].all(w,"
            " w >= self.malleable.minTotalGPUs && w <= self.malleable.maxTotalGPUs"
            " && (w - self.malleable.minTotalGPUs) % self.malleable.stepGPUs == 0)"
        ),
        holds=_steps_from_min,
    ),
    Rule(
        at="spec",
        message="duration must be longer than nothing",
        cel="!has(self.duration) || duration(self.duration) > duration('0s')",
        holds=lambda spec: times.duration(spec.get("duration", "1s")) > 0,
    ),
    Rule(
        at="spec.template.spec",
        message="nodeName must not be set: the planner chooses the node",
        cel="!has(self.nodeName)",
        holds=lambda pod: "nodeName" not in pod,
    ),
    Rule(
        at="spec.template.spec",
        message="schedulerName must not be set: the plugin binds the pods itself",
        cel="!has(self.schedulerName)",
        holds=lambda pod: "schedulerName" not in pod,
    ),
    Rule(
        at="spec.template.spec",
        message="restartPolicy must be Never or OnFailure",
        cel="!has(self.restartPolicy) || self.restartPolicy in ['Never', 'OnFailure']",
        holds=lambda pod: pod.get("restartPolicy", "Never") in ("Never", "OnFailure"),
    ),
    Transition(
        at="spec",
        message="only malleable.desiredTotalGPUs, funding and canceled may change after a run was created",
        cel=" && ".join(
            (
                *(f"self.{name} == oldSelf.{name}" for name in _FROZEN),
                *(_same_if_any(name) for name in _FROZEN_IF_ANY),
                "has(self.malleable) == has(oldSelf.malleable)",
                *(
                    f"(!has(self.malleable) || self.malleable.{name} == oldSelf.malleable.{name})"
                    for name in ("minTotalGPUs", "maxTotalGPUs", "stepGPUs")
                ),
            )
        ),
        holds=_frozen,
    ),
    Transition(
        at="spec",
        message="canceled must not be taken back",
        cel="!oldSelf.?canceled.orValue(false) || self.?canceled.orValue(false)",
        holds=lambda spec, old: not old.get("canceled", False) or bool(spec.get("canceled", False)),
    ),
)

__all__ = ["NAME_MAX", "RULES", "RunSpec", "RunStatus", "group_gpus"]
