"""Reservation: a promise that a run gets a slice, not before a time. Namespaced, written by the plugin."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kubectl_runs.wire.schema.parts import (
    Count,
    Free,
    Gpus,
    Label,
    LongText,
    Name,
    Part,
    PlainTime,
    Scope,
    SomeGpus,
    SomeSeq,
    Text,
    Time,
    Token,
    Uid,
)
from kubectl_runs.wire.schema.rules import Rules, Transition


class ReservationRunRef(Part):
    """The run that waits."""

    name: Name = Field(description="Name of the run, in the reservation's namespace.")
    uid: Uid = Field(description="UID of the run.")


class SliceNode(Part):
    """GPUs of one node."""

    name: Name = Field(description="The node.")
    gpus: SomeGpus = Field(description="GPUs of it.")


class SliceGroup(Part):
    """Where one group is to run."""

    index: Count = Field(description="Index of the group.")
    domain: Text = Field(description="Domain, as `region/cluster/fabric`.")
    nodes: list[SliceNode] | None = Field(None, max_length=20000, description="Nodes of that domain.")


class IntendedSlice(Part):
    """Where the run is to run."""

    groups: list[SliceGroup] | None = Field(None, max_length=10000, description="Its groups.")


class PayerShare(Part):
    """What one envelope is to pay."""

    budget: Name = Field(description="The budget.")
    envelope: Label = Field(description="Its envelope.")
    gpus: Gpus = Field(description="GPUs it is to pay for.")


class ReservationSpec(Part):
    """The promise."""

    runRef: ReservationRunRef = Field(description="The run. Never changes.")
    gpus: Gpus = Field(description="GPUs that are promised.")
    intendedSlice: IntendedSlice | None = Field(None, description="Where; a Cut replaces it by what it freed.")
    payers: list[PayerShare] | None = Field(
        None, max_length=10000, description="Who is to pay; while Blocked, those that were asked and were full."
    )
    earliestStart: PlainTime | None = Field(None, description="Not before this time; absent while Blocked.")


class Remedy(Part):
    """A change that the planner tried, and what it would achieve."""

    kind: Text = Field(description="Kind of change, such as `AskLess` or `ShrinkOther`.")
    message: Text = Field(description="What it would achieve.")
    command: Text | None = Field(None, description="Command that makes the change.")
    startsAt: Time | None = Field(None, description="When the run would start.")


class Forecast(Part):
    """What stands in the way."""

    deficitGPUs: Gpus | None = Field(None, description="GPUs missing now.")
    scope: Scope | None = Field(None, description="Flavor and nodes in conflict.")
    remedies: list[Remedy] | None = Field(None, max_length=64, description="Changes that would help.")
    confidence: Literal["exact", "needs-cuts"] | None = Field(None, description="How sure the time is.")


class Resolution(Part):
    """How room was made."""

    entry: SomeSeq | None = Field(None, description="Number of the Cut entry.")
    seed: Text | None = Field(None, description="Seed of the lottery.")
    conflictSet: list[Token] | None = Field(None, max_length=20000, description="Tokens of the lottery.")
    draws: list[Free] | None = Field(None, max_length=20000, description="What was drawn, in order.")


class ReservationStatus(Part):
    """How the promise stands."""

    state: Literal["Pending", "Active", "Released", "Blocked", "Canceled"] | None = Field(
        None, description="Where it stands."
    )
    reason: LongText | None = Field(None, description="Why it is so.")
    forecast: Forecast | None = Field(None, description="What stands in the way.")
    countdownSeconds: int | None = Field(None, description="Seconds until its time; negative when overdue.")
    resolution: Resolution | None = Field(None, description="How room was made.")
    startedAt: Time | None = Field(None, description="When the run did start: forecasts are scored by it.")


RULES: Rules = (
    Transition(
        at="spec",
        message="runRef must not change",
        cel="self.runRef == oldSelf.runRef",
        holds=lambda spec, old: bool(spec["runRef"] == old["runRef"]),
    ),
)
