"""Who may spend how much: budgets, their envelopes and caps, and what they lend."""

from __future__ import annotations

from planner.model.fleet import Selector
from planner.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Lending:
    allow: bool = False
    to: tuple[str, ...] = ()  # globs; an empty list lends to nobody
    concurrency_max: int | None = None
    gpu_hours_max: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    name: str
    flavor: str
    selector: Selector = Selector()
    concurrency: int
    gpu_hours_max: int | None = None
    start_at: int | None = None
    end_at: int | None = None
    sharing: str = "family"  # family | none
    queueing: str = "BestEffortFIFO"  # BestEffortFIFO | StrictFIFO
    lending: Lending = Lending()


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateCap:
    name: str
    flavor: str
    envelopes: tuple[str, ...]
    concurrency_max: int | None = None
    gpu_hours_max: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    name: str
    owner: str
    parents: tuple[str, ...] | None = None  # None: the owner's path without its last part
    envelopes: tuple[Envelope, ...] = ()
    caps: tuple[AggregateCap, ...] = ()
    generation: int = 1
