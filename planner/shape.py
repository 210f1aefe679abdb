"""What a run asks of pack: pods, groups and spares as counts (P2, P4), and what pack answers.

Values only; the placing is `pack`, the nodes are `topology`.
"""

from __future__ import annotations

from itertools import groupby

from planner.model import Domain, Reason, Role, Run, Step
from planner.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A run's demand: `group_pods` None means one group where it fits, else split by domain (P2)."""

    gpus_per_pod: int
    pods: int
    group_pods: int | None
    spares: int = 0  # pods, for each group
    spread: bool = True
    filler: bool = False  # on spares' GPUs first (O1)
    first_index: int = 0

    @property
    def groups(self) -> int:
        return 1 if self.group_pods is None else self.pods // self.group_pods

    @property
    def gpus(self) -> int:
        """GPUs in all, spares included."""
        return (self.pods + self.groups * self.spares) * self.gpus_per_pod

    @property
    def role(self) -> Role:
        return Role.FILLER if self.filler else Role.ACTIVE


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedGroup:
    """One group's pods, node by node in the order of their ranks, and its spares with the domains they sit in."""

    index: int
    domain: Domain
    pods: tuple[str, ...]
    spares: tuple[tuple[Domain, str], ...] = ()

    def steps(self, gpus_per_pod: int, role: Role, had: int | None = None) -> list[Step]:
        """What was placed where, node by node in the order of ranks: enough to rebuild the slice from."""
        need, index = len(self.pods) * gpus_per_pod, self.index
        steps = [
            Step(
                rule="P3",
                act="placed",
                subject=self.domain.name,
                group=index,
                node=node,
                role=role,
                need=need,
                had=had,
                took=sum(1 for _ in same) * gpus_per_pod,
            )
            for node, same in groupby(self.pods)
        ]
        for domain, node in self.spares:
            steps.append(
                Step(
                    rule="P4",
                    act="placed",
                    subject=domain.name,
                    group=index,
                    node=node,
                    role=Role.SPARE,
                    took=gpus_per_pod,
                )
            )
        return steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """All groups of a run, by index."""

    groups: tuple[PlacedGroup, ...]
    trace: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Unplaced:
    """What pack could not do, and how far it came: `groups` are those that fit."""

    reason: Reason  # NO_CAPACITY, or NO_SPARE_NODE when only spares are missing
    gpus_missing: int  # of pods and spares (R2)
    groups: tuple[PlacedGroup, ...]
    trace: tuple[Step, ...] = ()


def group_gpus(run: Run) -> int | None:
    """P2: the size of a group; a malleable run's defaults to its step (section 4)."""
    if run.group_gpus is not None:
        return run.group_gpus
    return run.malleable.gpus_step if run.malleable else None


def shape_of(run: Run, width: int | None = None, first_index: int = 0) -> Shape:
    """The shape of a run at a width; an opportunistic run keeps no spares, all its leases are fillers (O1)."""
    size = group_gpus(run)
    return Shape(
        gpus_per_pod=run.gpus_per_pod,
        pods=(run.gpus_total if width is None else width) // run.gpus_per_pod,
        group_pods=None if size is None else size // run.gpus_per_pod,
        spares=0 if run.opportunistic else run.spares_per_group,
        spread=run.cross_group_spread,
        filler=run.opportunistic,
        first_index=first_index,
    )
