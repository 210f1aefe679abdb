"""Lease: the fact that a run held GPUs of one node, for one payer, in one role, from a start to an end.

Its spec is frozen and its status is written once. The rules about status stand on the whole object: on `status` they
would not be asked when somebody removes it, which would open the lease again.
"""

from __future__ import annotations

from pydantic import Field

from kubectl_runs.wire import times
from kubectl_runs.wire.schema.parts import (
    ClosureReason,
    FundingClass,
    Label,
    Name,
    Opening,
    Owner,
    Part,
    PlainTime,
    Role,
    SomeGpus,
    Uid,
)
from kubectl_runs.wire.schema.rules import Json, Rule, Rules, Transition, value


class LeaseRunRef(Part):
    """The run that holds the GPUs."""

    name: Name = Field(description="Name of the run, in the lease's namespace.")
    uid: Uid = Field(description="UID of the run.")
    attempt: int = Field(1, ge=1, le=1_000_000, description="Which try of the run, from 1.")


class PodRef(Part):
    """The pod that uses the GPUs."""

    name: Name = Field(description="Name of the pod, in the lease's namespace.")
    uid: Uid = Field(description="UID of the pod.")


class Slice(Part):
    """The GPUs that are held."""

    nodes: list[Name] = Field(min_length=1, max_length=1, description="The one node.")
    gpus: SomeGpus = Field(description="GPUs of that node.")
    role: Role = Field(description="`Active`, `Spare`, or `Borrowed` for a filler.")


class Interval(Part):
    """When the GPUs were held; the end is in the status."""

    start: PlainTime = Field(description="Time of the ledger entry that opened the lease.")


class LeaseSpec(Part):
    """Who held what, where, since when, paid by whom. Frozen."""

    owner: Owner = Field(description="Owner of the run.")
    runRef: LeaseRunRef = Field(description="The run.")
    podRef: PodRef | None = Field(None, description="The pod; absent for a spare, which has none.")
    compPath: list[str] = Field(
        min_length=1,
        max_length=8,
        description="Where in the run it belongs; the first part, `SHARD[<group index>]`, is its group.",
        json_schema_extra={"items": {"type": "string", "minLength": 1, "maxLength": 128}},
    )
    slice: Slice = Field(description="The GPUs.")
    node: Name | None = Field(None, description="The node once more, where field selectors can see it.")
    interval: Interval = Field(description="Since when.")
    paidByBudget: Name = Field(description="Budget that pays.")
    paidByEnvelope: Label = Field(description="Envelope of that budget that pays.")
    class_: FundingClass = Field(alias="class", description="How it was paid: by its owner, its family, or a lender.")
    reason: Opening = Field(description="Why it exists.")


class LeaseStatus(Part):
    """Whether and how it ended. Written once."""

    closed: bool | None = Field(None, description="Whether the GPUs are free again. Never taken back.")
    endTime: PlainTime | None = Field(None, description="When they were given back.")
    closureReason: ClosureReason | None = Field(None, description="Why it ended; a lottery's names its seed.")


def _closing_whole(lease: Json) -> bool:
    status = lease.get("status", {})
    return bool(status.get("closed", False)) == ("endTime" in status) == ("closureReason" in status)


def _end_after_start(lease: Json) -> bool:
    end = value(lease, "status.endTime")
    return end is None or times.instant(end) >= times.instant(lease["spec"]["interval"]["start"])


def _stays_closed(lease: Json, old: Json) -> bool:
    return not value(old, "status.closed", False) or lease.get("status") == old["status"]


RULES: Rules = (
    Rule(
        at="spec",
        message="compPath must begin with SHARD[<group index>]: a lease always names its group",
        cel=r"self.compPath[0].matches('^SHARD\\[(0|[1-9][0-9]{0,5})\\]$')",
        holds=lambda spec: _names_group(spec["compPath"][0]),
    ),
    Rule(
        at="spec",
        message="node must equal slice.nodes[0]",
        cel="!has(self.node) || self.node == self.slice.nodes[0]",
        holds=lambda spec: spec.get("node", spec["slice"]["nodes"][0]) == spec["slice"]["nodes"][0],
    ),
    Rule(
        at="",
        message="closed, endTime and closureReason must be written together",
        cel=(
            "!has(self.status) || (self.status.?closed.orValue(false) == has(self.status.endTime)"
            " && has(self.status.endTime) == has(self.status.closureReason))"
        ),
        holds=_closing_whole,
    ),
    Rule(
        at="",
        message="endTime must not be before interval.start",
        cel=(
            "!has(self.status) || !has(self.status.endTime)"
            " || timestamp(self.status.endTime) >= timestamp(self.spec.interval.start)"
        ),
        holds=_end_after_start,
    ),
    Transition(
        at="",
        message="the spec of a lease is frozen",
        cel="self.spec == oldSelf.spec",
        holds=lambda lease, old: bool(lease["spec"] == old["spec"]),
    ),
    Transition(
        at="",
        message="a closed lease never opens again and its status never changes",
        cel=(
            "!has(oldSelf.status) || !oldSelf.status.?closed.orValue(false)"
            " || (has(self.status) && self.status == oldSelf.status)"
        ),
        holds=_stays_closed,
    ),
)


def _names_group(part: str) -> bool:
    index = part.removeprefix("SHARD[").removesuffix("]")
    return (
        part == f"SHARD[{index}]"
        and index.isascii()
        and index.isdigit()
        and str(int(index)) == index
        and len(index) <= 6
    )
