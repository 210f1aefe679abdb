"""Run: the work asked for. Namespaced, written by researchers."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kubectl_runs.wire.schema.parts import (
    Conditions,
    Count,
    FreeObject,
    GoDuration,
    Gpus,
    Hours,
    IntOrText,
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


class GpuAmount(Open):
    """Amounts of resources; only that of GPUs is looked at."""

    gpu: IntOrText | None = Field(None, alias="nvidia.com/gpu", description="GPUs; if given, equal to gpusPerPod.")


class ContainerResources(Open):
    """What the container asks for; the plugin adds the GPUs."""

    limits: GpuAmount | None = Field(None, description="Most it may use.")
    requests: GpuAmount | None = Field(None, description="What it needs.")


class Container(Open):
    """A container of the pod; every field of Kubernetes is allowed."""

    resources: ContainerResources | None = Field(None, description="What it asks for; the plugin adds the GPUs.")
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
