"""What all wire models share: how strict they are, and the texts and numbers that their fields are made of.

Every text and list has a longest length, since CEL's cost is estimated from it. Objects whose digest is taken (leases,
entries) spell times as plain text: with `format: date-time` CEL compares instants, and `…Z` could become `…+00:00` in a
frozen object, which would break the chain of digests.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema

from kubectl_runs.wire import times

GPUS_MAX = 1_000_000
WHOLE_MAX = 2**53 - 1  # the largest whole number that every JSON reader keeps exact
NAME_PATTERN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
_LABEL = "[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?"
_OWNER_PART = "[a-zA-Z0-9._-]+"
_TIME_PATTERN = (
    r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
    r"(\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$"
)
_PLAIN_ENDINGS = "Completed|Fail|NodeFailure|Shrink|Swap|ReclaimedBySpare|EndFiller|DropSpare|Canceled"


class Part(BaseModel):
    """A piece of a `spec`: unknown fields are refused, and nothing is silently turned into another type."""

    model_config = ConfigDict(extra="forbid", strict=True, populate_by_name=False, frozen=True)


class Open(BaseModel):
    """A piece that keeps fields it does not know, such as a user's pod template."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)


def _real_instant(text: str) -> str:
    times.instant(text)
    return text


def _real_duration(text: str) -> str:
    times.duration(text)
    return text


Name = Annotated[str, Field(min_length=1, max_length=253, pattern=NAME_PATTERN)]
Uid = Annotated[str, Field(min_length=1, max_length=128)]
Label = Annotated[str, Field(min_length=1, max_length=63, pattern=f"^{_LABEL}$")]
LabelOrAny = Annotated[str, Field(max_length=63, pattern=rf"^(\*|{_LABEL})?$")]
Text = Annotated[str, Field(max_length=1024)]
LongText = Annotated[str, Field(max_length=16384)]
Owner = Annotated[str, Field(min_length=1, max_length=256, pattern=f"^{_OWNER_PART}(:{_OWNER_PART})*$")]
OwnerGlob = Annotated[str, Field(min_length=1, max_length=256, pattern=r"^[a-zA-Z0-9._:*-]+$")]
Digest = Annotated[str, Field(max_length=71, pattern="^sha256:[0-9a-f]{64}$")]
RunKey = Annotated[str, Field(max_length=320, pattern="^[a-z0-9.-]+/[a-z0-9.-]+$")]
ClosureReason = Annotated[
    str, Field(max_length=128, pattern=rf"^({_PLAIN_ENDINGS}|RandomPreempt\([0-9a-f]{{1,64}}\))$")
]
GoDuration = Annotated[
    str, Field(min_length=2, max_length=32, pattern=times.DURATION_PATTERN), AfterValidator(_real_duration)
]
PlainTime = Annotated[str, Field(max_length=40, pattern=_TIME_PATTERN), AfterValidator(_real_instant)]
Time = Annotated[
    str,
    Field(max_length=40, pattern=_TIME_PATTERN),
    AfterValidator(_real_instant),
    WithJsonSchema({"type": "string", "format": "date-time", "maxLength": 40, "pattern": _TIME_PATTERN}),
]
Gpus = Annotated[int, Field(ge=0, le=GPUS_MAX)]
SomeGpus = Annotated[int, Field(ge=1, le=GPUS_MAX)]
Count = Annotated[int, Field(ge=0, le=GPUS_MAX)]
Hours = Annotated[int, Field(ge=0, le=10**12)]
GpuSeconds = Annotated[int, Field(ge=0, le=WHOLE_MAX)]
Seq = Annotated[int, Field(ge=0, le=999_999_999_999)]
SomeSeq = Annotated[int, Field(ge=1, le=999_999_999_999)]
Role = Literal["Active", "Spare", "Borrowed"]
FundingClass = Literal["owned", "shared", "borrowed"]
Opening = Literal["Start", "Grow", "Swap"]
IntOrText = Annotated[int | str, WithJsonSchema({"x-kubernetes-int-or-string": True, "maxLength": 20})]
Free = Annotated[Any, WithJsonSchema({"x-kubernetes-preserve-unknown-fields": True})]
FreeObject = Annotated[dict[str, Any], WithJsonSchema({"type": "object", "x-kubernetes-preserve-unknown-fields": True})]


def keyed_by_name() -> dict[str, Any]:
    """A list whose items are told apart by `name`: duplicates are refused, and server-side apply merges by it."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}


def a_set() -> dict[str, Any]:
    """A list that refuses duplicates."""
    return {"x-kubernetes-list-type": "set"}


class Selector(Part):
    """Limits a location. An absent or empty selector, an empty value and `*` match everything."""

    region: LabelOrAny | None = Field(None, description="Region of the nodes, or `*` for any.")
    cluster: LabelOrAny | None = Field(None, description="Cluster of the nodes, or `*` for any.")
    fabric: LabelOrAny | None = Field(None, alias="fabric.domain", description="Fast-fabric island, or `*` for any.")


class Condition(Part):
    """One observation about the object, in the shape that Kubernetes uses everywhere."""

    type: str = Field(min_length=1, max_length=316, description="What is observed, such as `Running` or `OverCap`.")
    status: Literal["True", "False", "Unknown"] = Field(description="Whether it holds.")
    reason: str = Field(
        min_length=1,
        max_length=1024,
        pattern="^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
        description="Why, in one word.",
    )
    message: str = Field("", max_length=32768, description="Why, in a sentence.")
    lastTransitionTime: Time = Field(description="Since when it holds.")
    observedGeneration: int | None = Field(None, ge=0, description="The spec's generation that was looked at.")


Conditions = Annotated[
    list[Condition],
    Field(max_length=16, json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}),
]


class Scope(Part):
    """The flavor and the nodes in conflict."""

    flavor: Label = Field(description="GPU flavor in conflict.")
    nodes: list[Name] = Field(max_length=20000, description="Nodes in conflict.")


class Token(Part):
    """One ticket of the lottery: a fixed run, cut whole (R3)."""

    owner: Owner = Field(description="Owner of the run.")
    run: RunKey = Field(description="Key of the run, `namespace/name`.")
    gpus: SomeGpus = Field(description="GPUs that ending it frees.")
