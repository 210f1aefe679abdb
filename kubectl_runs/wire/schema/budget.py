"""Budget: what an owner holds. Cluster-scoped, written by operators."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from kubectl_runs.wire import times
from kubectl_runs.wire.schema.parts import (
    Conditions,
    Gpus,
    Hours,
    Label,
    Owner,
    OwnerGlob,
    Part,
    Selector,
    Time,
    a_set,
    keyed_by_name,
)
from kubectl_runs.wire.schema.rules import Json, Rule, Rules

ENVELOPES_MAX = 32  # with 16 caps of 32 names each this is what CEL's cost limit lets through
CAPS_MAX = 16
EnvelopeNames = Annotated[list[Label], Field(min_length=1, max_length=ENVELOPES_MAX, json_schema_extra=a_set())]


class Lending(Part):
    """Whether and to whom this envelope lends outside the family."""

    allow: bool = Field(False, description="Whether it lends at all.")
    to: list[OwnerGlob] | None = Field(
        None, max_length=64, description="Globs of owners that may borrow, such as `org:ai:*`. An empty list: nobody."
    )
    maxConcurrency: Gpus | None = Field(None, description="Most GPUs lent at once.")
    maxGPUHours: Hours | None = Field(None, description="Most GPU-hours lent over the life of this envelope.")


class Envelope(Part):
    """One purse: GPUs of one flavor in a location, for a window of time."""

    name: Label = Field(description="Unique in its budget. GPU-hours count over the life of the name.")
    flavor: Label = Field(description="GPU flavor it pays for, as in the nodes' flavor label.")
    selector: Selector | None = Field(None, description="Location it is meant for; elsewhere it pays after others.")
    concurrency: Gpus = Field(description="Most GPUs held at once.")
    maxGPUHours: Hours | None = Field(None, description="Most GPU-hours over the life of this envelope.")
    start: Time | None = Field(None, description="From when it may take on work.")
    end: Time | None = Field(None, description="Until when it may take on work; work taken on may finish.")
    sharing: Literal["family", "none"] = Field(
        "family", description="`family`: siblings and children of the owner may use it unasked. `none`: only the owner."
    )
    queueing: Literal["BestEffortFIFO", "StrictFIFO"] = Field(
        "BestEffortFIFO",
        description="`StrictFIFO`: nothing new starts while an older blocked reservation waits for it.",
    )
    lending: Lending | None = Field(None, description="Whether and to whom it lends outside the family.")


class AggregateCap(Part):
    """A limit over several envelopes of one flavor together."""

    name: Label = Field(description="Unique in its budget.")
    flavor: Label = Field(description="GPU flavor of all its envelopes.")
    envelopes: EnvelopeNames = Field(description="Names of envelopes of this budget.")
    maxConcurrency: Gpus | None = Field(None, description="Most GPUs held at once by these envelopes together.")
    maxGPUHours: Hours | None = Field(None, description="Most GPU-hours of these envelopes together.")


Envelopes = Annotated[list[Envelope], Field(max_length=ENVELOPES_MAX, json_schema_extra=keyed_by_name())]
AggregateCaps = Annotated[list[AggregateCap], Field(max_length=CAPS_MAX, json_schema_extra=keyed_by_name())]


class BudgetSpec(Part):
    """What an owner holds."""

    owner: Owner = Field(description="Node of the organisation tree, such as `org:ai:rai`.")
    parents: list[Owner] | None = Field(
        None,
        max_length=16,
        description="Owners above this one. Default: the owner's path without its last part.",
        json_schema_extra=a_set(),
    )
    envelopes: Envelopes = Field(description="The purses of this budget.")
    aggregateCaps: AggregateCaps | None = Field(None, description="Limits over several envelopes together.")


class EnvelopeStatus(Part):
    """How an envelope stands."""

    name: Label = Field(description="The envelope.")
    held: Gpus | None = Field(None, description="GPUs it pays for now.")
    headroom: int | None = Field(None, description="GPUs it could still take on; negative where it is over its cap.")
    lent: Gpus | None = Field(None, description="GPUs of them that are lent outside the family.")
    settledGPUHours: Hours | None = Field(None, description="GPU-hours of closed leases, rounded down.")


class CapStatus(Part):
    """How an aggregate cap stands."""

    name: Label = Field(description="The aggregate cap.")
    held: Gpus | None = Field(None, description="GPUs that its envelopes pay for now.")
    headroom: int | None = Field(None, description="GPUs left under it; negative where it is exceeded.")


class BudgetStatus(Part):
    """How the budget stands, as last seen. Never an input of planning."""

    observedGeneration: int | None = Field(None, description="The spec's generation that was looked at.")
    envelopes: list[EnvelopeStatus] | None = Field(
        None, max_length=ENVELOPES_MAX, description="Headroom for each envelope.", json_schema_extra=keyed_by_name()
    )
    aggregateCaps: list[CapStatus] | None = Field(
        None, max_length=CAPS_MAX, description="Headroom for each cap.", json_schema_extra=keyed_by_name()
    )
    lentGPUs: Gpus | None = Field(None, description="GPUs lent outside the family, by all envelopes.")
    settledGPUHours: Hours | None = Field(None, description="GPU-hours of closed leases, by all envelopes.")
    conditions: Conditions | None = Field(None, description="`OverCap`: an envelope or cap holds more than it may.")


def _window_in_order(envelope: Json) -> bool:
    if "start" not in envelope or "end" not in envelope:
        return True
    return times.instant(envelope["start"]) < times.instant(envelope["end"])


def _caps_fit(spec: Json) -> bool:
    flavors = {envelope["name"]: envelope["flavor"] for envelope in spec["envelopes"]}
    return all(flavors.get(name) == cap["flavor"] for cap in spec.get("aggregateCaps", ()) for name in cap["envelopes"])


RULES: Rules = (
    Rule(
        at="spec.envelopes[]",
        message="start must be before end",
        cel="!has(self.start) || !has(self.end) || self.start < self.end",
        holds=_window_in_order,
    ),
    Rule(
        at="spec",
        message="an aggregate cap must name envelopes of this budget that have the cap's flavor",
        cel=(
            "!has(self.aggregateCaps) || self.aggregateCaps.all(c, c.envelopes.all(n,"
            " self.envelopes.exists(e, e.name == n && e.flavor == c.flavor)))"
        ),
        holds=_caps_fit,
    ),
)
