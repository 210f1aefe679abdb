"""Ledger: where reading the entries begins. Cluster-scoped, one object `base`."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from kubectl_runs.wire.schema.parts import (
    Digest,
    FundingClass,
    GpuSeconds,
    Label,
    Name,
    Part,
    PlainTime,
    Seq,
    SomeSeq,
    a_set,
)
from kubectl_runs.wire.schema.rules import Json, Rule, Rules, value

PENDING_MAX = 64
KEY_PATTERN = r"^([a-z0-9A-Z.-]{1,253}/)?[a-zA-Z0-9]([a-zA-Z0-9._-]{0,61}[a-zA-Z0-9])?$"


def _key(description: str) -> Any:
    return Field(None, min_length=1, max_length=317, pattern=KEY_PATTERN, description=description)


class Settled(Part):
    """GPU-seconds that closed leases add up to, for one payer and class."""

    budget: Name = Field(description="Budget that paid.")
    envelope: Label = Field(description="Envelope that paid.")
    class_: FundingClass = Field(alias="class", description="How it was paid.")
    gpuSeconds: GpuSeconds = Field(description="What it paid.")


class Topology(Part):
    """Label keys and resource name by which all clients see the same domains."""

    region: str | None = _key("Label of nodes that holds the region. Default: `region`.")
    cluster: str | None = _key("Label of nodes that holds the cluster. Default: `cluster`.")
    fabricDomain: str | None = _key("Label of nodes that holds the fast-fabric island. Default: `fabric.domain`.")
    rack: str | None = _key("Label of nodes that holds the rack. Default: `rack`.")
    flavor: str | None = _key("Label of nodes that holds the GPU flavor. Default: `gpu.flavor`.")
    resource: str | None = _key("Resource of nodes that counts GPUs. Default: `nvidia.com/gpu`.")


class LedgerSpec(Part):
    """Everything at or below `seq` is in the leases, save what is pending."""

    seq: Seq = Field(description="Number of the last entry that is folded in.")
    digest: Digest = Field(description="Digest of that entry; `sha256:` and 64 zeros for none.")
    time: PlainTime | None = Field(None, description="Time of that entry.")
    floor: Seq = Field(0, description="Only entries and closed leases numbered at or below it may be deleted.")
    floorAt: PlainTime | None = Field(None, description="When floor moved last.")
    pending: list[SomeSeq] | None = Field(
        None,
        max_length=PENDING_MAX,
        description="Entries at or below seq that are not finished.",
        json_schema_extra=a_set(),
    )
    settled: list[Settled] | None = Field(None, max_length=20000, description="What closed leases add up to.")
    topology: Topology | None = Field(None, description="Label keys and resource name, set by `install`.")


def _pending_in_range(spec: Json) -> bool:
    return all(spec["floor"] < number <= spec["seq"] for number in spec.get("pending", ()))


RULES: Rules = (
    Rule(
        at="",
        message="the one Ledger must be named base",
        cel="self.metadata.name == 'base'",
        holds=lambda ledger: bool(value(ledger, "metadata.name") == "base"),
    ),
    Rule(
        at="spec",
        message="floor must not be above seq",
        cel="self.floor <= self.seq",
        holds=lambda spec: bool(spec["floor"] <= spec["seq"]),
    ),
    Rule(
        at="spec",
        message="pending numbers must be above floor and at most seq",
        cel="!has(self.pending) || self.pending.all(n, n > self.floor && n <= self.seq)",
        holds=_pending_in_range,
    ),
)
