"""Seats: a placement paid for, pod by pod (C8). Where pods go was pack's choice, who pays them is the till's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from planner.cover import Request, Segment, Till
from planner.model import Domain, Role, Run, Seat
from planner.shape import PlacedGroup, Placement, group_gpus
from planner.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One pod or spare slot before anybody pays for it."""

    group: int
    rank: int | None
    slot: int | None
    node: str
    role: Role
    domain: Domain


def seats_of(run: Run, placement: Placement, till: Till) -> tuple[Seat, ...] | None:
    """P3: cover pays group by group, in each the spares after the actives; None if somebody is not paid for."""
    seats: list[Seat] = []
    for places in placements_of(run, placement.groups):
        gpus = len(places) * run.gpus_per_pod
        first = places[0]
        request = Request(
            group=first.group, role=first.role, domain=first.domain, gpus=gpus, gpus_per_pod=run.gpus_per_pod
        )
        segments = till.pay(request)
        if segments is None:
            return None
        seats += share_out(places, segments, run.gpus_per_pod)
    return tuple(seats)


def placements_of(run: Run, groups: Iterable[PlacedGroup]) -> Iterable[list[Place]]:
    """Places in the order in which they are paid for: a group's actives, then its spares, domain by domain.

    Ranks follow from the group's index where groups are equal, so that growth never renumbers a pod.
    """
    size, sequel = group_gpus(run), 0
    role = Role.FILLER if run.opportunistic else Role.ACTIVE
    for group in groups:
        first = sequel if size is None else group.index * (size // run.gpus_per_pod)
        sequel += len(group.pods)
        yield [
            Place(group=group.index, rank=first + offset, slot=None, node=node, role=role, domain=group.domain)
            for offset, node in enumerate(group.pods)
        ]
        # C3: the location of a spare is its own domain.
        for domain in dict.fromkeys(domain for domain, _ in group.spares):
            yield [
                Place(group=group.index, rank=None, slot=slot, node=node, role=Role.SPARE, domain=domain)
                for slot, (at, node) in enumerate(group.spares)
                if at == domain
            ]


def share_out(places: Sequence[Place], segments: Sequence[Segment], gpus_per_pod: int) -> list[Seat]:
    """C8: segments over pods in their order; where one ends inside a pod, that pod carries two leases."""
    seats: list[Seat] = []
    paying = iter(segments)
    segment = next(paying)
    left = segment.gpus
    for place in places:
        need = gpus_per_pod
        while need:
            if not left:
                segment = next(paying)
                left = segment.gpus
            took = min(need, left)
            seats.append(_seat(place, segment, took))
            need, left = need - took, left - took
    return seats


def _seat(place: Place, segment: Segment, gpus: int) -> Seat:
    return Seat(
        group=place.group,
        rank=place.rank,
        slot=place.slot,
        node=place.node,
        gpus=gpus,
        role=place.role,
        payer=segment.payer,
        owner=segment.owner,
        funding=segment.funding,
    )
