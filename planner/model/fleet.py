"""The fleet: nodes, the pods on them, and what a pod may ask of a node (P1)."""

from __future__ import annotations

from collections.abc import Mapping

from planner.model.vocabulary import Domain
from planner.values import dataclass, field

ENDED_PHASES = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """Limits a location; an absent key or `*` matches any value (section 4)."""

    region: str = "*"
    cluster: str = "*"
    fabric: str = "*"

    def matches(self, domain: Domain) -> bool:
        return (
            self.region in ("*", domain.region)
            and self.cluster in ("*", domain.cluster)
            and self.fabric in ("*", domain.fabric)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Toleration:
    key: str = ""  # empty with operator Exists tolerates everything
    operator: str = "Equal"
    value: str = ""
    effect: str = ""  # empty matches every effect


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelRequirement:
    """One expression of a node affinity; `field` ones are about `metadata.name`."""

    key: str
    operator: str  # In NotIn Exists DoesNotExist Gt Lt
    values: tuple[str, ...] = ()
    is_field: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PodNeeds:
    """What one pod of a run asks of a node besides GPUs (P1)."""

    cpu_milli: int = 0
    memory_bytes: int = 0
    node_selector: tuple[tuple[str, str], ...] = ()
    # Required node affinity: any one term must hold, and in it every requirement. None: no affinity at all.
    affinity: tuple[tuple[LabelRequirement, ...], ...] | None = None
    tolerations: tuple[Toleration, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    name: str
    domain: Domain | None = None  # None: a label is missing, so the node takes no work (P1)
    flavor: str | None = None
    rack: str | None = None
    gpus: int = 0  # allocatable
    cpu_milli: int | None = None  # None: the node does not state it
    memory_bytes: int | None = None
    pods: int | None = None
    cordoned: bool = False
    ready: bool = True
    taints: tuple[Taint, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod as the planner sees it. `live` is false once its phase is Succeeded or Failed."""

    namespace: str
    name: str
    uid: str
    node: str = ""  # empty: not bound
    gpus: int = 0
    cpu_milli: int = 0
    memory_bytes: int = 0
    phase: str = "Pending"
    terminating: bool = False
    finished_at: int | None = None
    run_uid: str = ""  # of the owning Run, from its owner reference; empty for foreign pods
    created_at: int = 0

    @property
    def live(self) -> bool:
        return self.phase not in ENDED_PHASES
