"""LedgerEntry: one numbered record of the append-only ledger. Cluster-scoped, never changed.

Its digest is taken over the spec as stored, so the schema has no default, no list that ignores order and no time that
could be spelled differently.
"""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field

from kubectl_runs.wire.schema.budget import AggregateCap, Envelope
from kubectl_runs.wire.schema.lease import PodRef
from kubectl_runs.wire.schema.parts import (
    ClosureReason,
    Count,
    Digest,
    Free,
    FundingClass,
    Gpus,
    GpuSeconds,
    Label,
    Name,
    Opening,
    Owner,
    Part,
    PlainTime,
    Role,
    RunKey,
    Scope,
    SomeGpus,
    SomeSeq,
    Text,
    Token,
    Uid,
)
from kubectl_runs.wire.schema.reservation import ReservationSpec
from kubectl_runs.wire.schema.rules import Json, Rule, Rules, Transition

LEASES_MAX = 10_000  # 1.2 MB end an entry much earlier
Kind = Literal["Start", "Grow", "Reserve", "Freeze", "Cut", "Swap", "End", "Close"]


class ObjectRef(Part):
    """An object in a namespace."""

    namespace: Name = Field(description="Its namespace.")
    name: Name = Field(description="Its name.")
    uid: Uid = Field(description="Its UID.")


class EntryRunRef(ObjectRef):
    """A run and which try of it."""

    attempt: int | None = Field(None, ge=1, le=1_000_000, description="Which try of the run, from 1.")


class BudgetRecord(Part):
    """A budget as it stood when it was asked: caps are judged by this."""

    name: Name = Field(description="The budget.")
    generation: int = Field(ge=0, description="Its generation.")
    owner: Owner | None = Field(None, description="Its owner.")
    parents: list[Owner] | None = Field(None, max_length=16, description="Its parents.")
    envelopes: list[Envelope] | None = Field(None, max_length=32, description="Its envelopes.")
    aggregateCaps: list[AggregateCap] | None = Field(None, max_length=16, description="Its aggregate caps.")


class Opened(Part):
    """A lease that the entry opens, in its run's namespace, at the entry's time."""

    lease: Name = Field(description="Name of the lease, `l-<seq>-<i>`.")
    pod: PodRef | None = Field(None, description="The pod; absent for a spare.")
    node: Name = Field(description="The node.")
    gpus: SomeGpus = Field(description="GPUs of that node.")
    role: Role = Field(description="`Active`, `Spare`, or `Borrowed` for a filler.")
    group: Count = Field(description="Index of the group.")
    owner: Owner = Field(description="Owner of the run.")
    budget: Name = Field(description="Budget that pays.")
    envelope: Label = Field(description="Envelope that pays.")
    class_: FundingClass = Field(alias="class", description="How it is paid.")
    reason: Opening = Field(description="Why it exists.")


class Ended(Part):
    """A lease whose pod has to stop. Its GPUs stay held until a Close."""

    namespace: Name = Field(description="Namespace of the lease.")
    lease: Name = Field(description="Name of the lease.")
    reason: ClosureReason = Field(description="Why it ends.")


class Closed(Part):
    """A lease that is closed: its GPUs are free again."""

    namespace: Name = Field(description="Namespace of the lease.")
    lease: Name = Field(description="Name of the lease.")
    at: PlainTime = Field(description="When it ended.")
    reason: ClosureReason = Field(description="Why it ended.")
    gpuSeconds: GpuSeconds = Field(description="What it cost.")
    budget: Name = Field(description="Budget that paid.")
    envelope: Label = Field(description="Envelope that paid.")
    class_: FundingClass = Field(alias="class", description="How it was paid.")
    spec: Digest = Field(description="Digest of the lease's spec.")


class Freeze(Part):
    """The conflict set of a lottery, frozen before its seed exists (R4)."""

    algorithm: Text = Field(description="How the draws are made, `two-stage/1`.")
    scope: Scope = Field(description="Flavor and nodes in conflict.")
    deficitGPUs: Gpus = Field(description="GPUs missing there.")
    tokens: list[Token] = Field(max_length=20000, description="Tokens, sorted by owner, then key.")


class Draw(Part):
    """What a lottery picked."""

    freeze: SomeSeq = Field(description="Number of the Freeze entry.")
    seed: str = Field(max_length=64, pattern="^[0-9a-f]{1,64}$", description="Seed, in hex.")
    picks: list[RunKey] = Field(max_length=20000, description="Runs in the order drawn, with those given back.")
    givenBack: list[RunKey] | None = Field(None, max_length=20000, description="Picks that were not needed after all.")


class EntrySpec(Part):
    """One decision, whole."""

    seq: SomeSeq = Field(description="Its number; the name has it in 12 digits.")
    prev: Digest = Field(description="Digest of the entry before; `sha256:` and 64 zeros for the first.")
    nonce: str = Field(max_length=32, pattern="^[0-9a-f]{32}$", description="New for each attempt to append.")
    readAt: PlainTime = Field(description="Server time of the read that it was planned from.")
    kind: Kind = Field(description="What it records.")
    run: EntryRunRef | None = Field(None, description="The run it is about.")
    reservation: ObjectRef | None = Field(None, description="The reservation it is about.")
    budgets: list[BudgetRecord] | None = Field(
        None, max_length=1000, description="Budgets that were asked, as they stood."
    )
    plan: Digest | None = Field(None, description="Digest of the decision that was shown to the user.")
    trace: list[Free] | None = Field(None, max_length=10000, description="Why: the steps of the decision, as recorded.")
    opens: list[Opened] | None = Field(None, max_length=LEASES_MAX, description="Leases that it opens.")
    ends: list[Ended] | None = Field(None, max_length=LEASES_MAX, description="Leases whose pods have to stop.")
    closes: list[Closed] | None = Field(None, max_length=LEASES_MAX, description="Leases that it closes, of one run.")
    reserve: ReservationSpec | None = Field(
        None, description="The Reservation's spec; in a Cut the winner's, with its slice."
    )
    freeze: Freeze | None = Field(None, description="The conflict set of a lottery.")
    draw: Draw | None = Field(None, description="What the lottery picked.")


# Which kinds may carry which part, and which need it.
CARRIED_BY: dict[str, tuple[str, ...]] = {
    "opens": ("Start", "Grow", "Swap"),
    "ends": ("Cut", "Swap", "End"),
    "closes": ("Close",),
    "reserve": ("Reserve", "Cut"),
    "freeze": ("Freeze",),
    "draw": ("Cut",),
}
NEEDED_BY: dict[str, tuple[str, ...]] = {
    "run": ("Start", "Grow", "Reserve", "Swap", "End", "Close"),
    "opens": ("Start", "Grow"),
    "closes": ("Close",),
    "reserve": ("Reserve",),
    "freeze": ("Freeze",),
}


def _listed(kinds: tuple[str, ...]) -> str:
    return "[" + ", ".join(f"'{kind}'" for kind in kinds) + "]"


def _carried_by(part: str, kinds: tuple[str, ...]) -> Rule:
    return Rule(
        at="spec",
        message=f"{part} must stand only in entries of kind {', '.join(kinds)}",
        cel=f"!has(self.{part}) || self.kind in {_listed(kinds)}",
        holds=lambda spec: part not in spec or spec["kind"] in kinds,
    )


def _needed_by(part: str, kinds: tuple[str, ...]) -> Rule:
    return Rule(
        at="spec",
        message=f"{part} must stand in entries of kind {', '.join(kinds)}",
        cel=f"has(self.{part}) || !(self.kind in {_listed(kinds)})",
        holds=lambda spec: part in spec or spec["kind"] not in kinds,
    )


def _named_by_number(entry: Json) -> bool:
    name = entry["metadata"]["name"]
    return re.fullmatch("[0-9]{12}", name) is not None and int(name) == entry["spec"]["seq"]


RULES: Rules = (
    Rule(
        at="",
        message="the name of an entry must be its seq in 12 digits",
        cel="self.metadata.name.matches('^[0-9]{12}$') && int(self.metadata.name) == self.spec.seq",
        holds=_named_by_number,
    ),
    *(_carried_by(part, kinds) for part, kinds in CARRIED_BY.items()),
    *(_needed_by(part, kinds) for part, kinds in NEEDED_BY.items()),
    Rule(
        at="spec",
        message="the run of a Start must have an attempt",
        cel="self.kind != 'Start' || self.?run.?attempt.hasValue()",
        holds=lambda spec: spec["kind"] != "Start" or "attempt" in spec.get("run", {}),
    ),
    Transition(
        at="",
        message="the spec of an entry is frozen",
        cel="self.spec == oldSelf.spec",
        holds=lambda entry, old: bool(entry["spec"] == old["spec"]),
    ),
)
