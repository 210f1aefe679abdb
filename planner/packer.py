"""One try at placing a run: domains filled in the order of P3, spares put beside their groups (P4).

Keeps the bays as they fill and the groups placed so far. Which are made, and in which order, is `pack`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from heapq import heapify, heapreplace

from planner.bay import Bay
from planner.model import Domain, Reason, Step
from planner.shape import PlacedGroup, Placement, Shape, Unplaced
from planner.topology import Island, Room

PASSED_MAX = 16  # domains passed over that a trace names


class Packer:
    """One attempt at placing a run: the bays as they fill, and the groups placed so far."""

    def __init__(self, room: Room, shape: Shape, used: Iterable[Domain] = (), barred: Collection[Domain] = ()) -> None:
        self.room, self.shape = room, shape
        self._barred = barred  # domains that may hold spares only
        self.used = dict.fromkeys(used)
        self._bays: dict[Domain, Bay] = {}
        self.full = 0  # groups placed with all their spares in the same domain
        self._seats: list[list[str]] = []
        self._domains: list[Domain] = []
        self._spares: list[list[tuple[Domain, str]]] = []
        self._had: list[int] = []

    @property
    def gpus_free_before(self) -> int:
        return sum(island.gpus_free for island in self.room.islands.values())

    def bay(self, domain: Domain) -> Bay:
        """The domain as it stands in this attempt; made when first looked into."""
        found = self._bays.get(domain)
        if found is None:
            found = self._bays[domain] = Bay(self.room.islands[domain], self.shape.gpus_per_pod)
        return found

    def bays(self) -> dict[Domain, Bay]:
        return {domain: self.bay(domain) for domain in sorted(self.room.islands)}

    def fill(self, full_max: int | None = None, beside: int = 0) -> int:
        """P3 for groups: as many as fit, domain by domain; how many are left over.

        At most `full_max` of them with all spares in their domain, the others with at least `beside`.
        """
        left = self.shape.groups
        if self.shape.filler:
            left = self._fill_under(left)
        if self.shape.spares:
            # P3, before all that: a domain that holds the group and its spares.
            most = left if full_max is None else min(left, full_max)
            self.full = most - self._fill_tier(most, self.shape.spares)
            left -= self.full
        return self._fill_tier(left, beside)

    def split(self, beside: int) -> int:
        """P3 without groups: pods domain by domain; how many are left over."""
        left = self.shape.pods
        room = {bay.domain: bay.pods_beside(beside) if beside else bay.pods_free for bay in self.bays().values()}
        for domain, pods in self._portions(room, left, 1):
            if self._put_one(self.bay(domain), pods, beside):
                left -= pods
        return left

    def put(self, domain: Domain, groups: int, beside: int) -> int:
        """Puts up to so many groups into one domain, so many spares of each beside it; how many it took."""
        pods, bay = self.shape.group_pods or self.shape.pods, self.bay(domain)
        for count in range(groups):
            if not self._put_one(bay, pods, beside):
                return count
        return groups

    def put_lonely_spares(self) -> int:
        """P4: spares of groups placed alone: same domain, else the nearest other; how many found no node."""
        if not self.shape.spares:
            return 0
        missing = 0
        for seats, domain, spares in zip(self._seats, self._domains, self._spares, strict=True):
            while len(spares) < self.shape.spares:
                found = self._spare_seat(seats, domain)
                if found is None:
                    missing += self.shape.spares - len(spares)
                    break
                spares.append(found)
        return missing

    def without_spares(self) -> Domain | None:
        """The domain of the first group that lacks a spare."""
        short = (len(spares) < self.shape.spares for spares in self._spares)
        return next((domain for domain, lacks in zip(self._domains, short, strict=True) if lacks), None)

    def groups(self) -> tuple[PlacedGroup, ...]:
        first = self.shape.first_index
        return tuple(
            PlacedGroup(index=first + offset, domain=domain, pods=tuple(seats), spares=tuple(spares))
            for offset, (domain, seats, spares) in enumerate(zip(self._domains, self._seats, self._spares, strict=True))
        )

    def finish(self, left: int, only: Domain | None = None) -> Placement | Unplaced:
        """The answer once actives are placed: their spares, then all or nothing (P5)."""
        spares_missing = self.put_lonely_spares()
        if left or spares_missing:
            return self.unplaced(left, spares_missing, only)
        groups = self.groups()
        return Placement(groups=groups, trace=self._steps(groups))

    def unplaced(self, left: int, spares_missing: int, only: Domain | None = None) -> Unplaced:
        """R2: the GPUs of pods and spares that found no place, counted in the domains with most room."""
        bays = list(self.bays().values()) if only is None else [self.bay(only)]
        pods = spares_missing + self._pods_missing(left, bays)
        reason = Reason.NO_CAPACITY if left else Reason.NO_SPARE_NODE
        steps = tuple(
            Step(
                rule="P3" if left else "P4",
                act="unplaced",
                subject=bay.domain.name,
                need=self.shape.gpus,
                had=self.room.islands[bay.domain].gpus_free,
                reason=reason,
            )
            for bay in bays[:PASSED_MAX]
        )
        gpus = pods * self.shape.gpus_per_pod
        return Unplaced(reason=reason, gpus_missing=gpus, groups=self.groups(), trace=steps)

    def _pods_missing(self, left: int, bays: list[Bay]) -> int:
        """Of what is left over, the pods for which even the roomiest domain has no place."""
        if self.shape.group_pods is None:
            return left + (0 if self._seats else self.shape.spares)
        unit, missing = self.shape.group_pods + self.shape.spares, 0
        rooms = [-bay.pods_free for bay in bays]
        heapify(rooms)
        for _ in range(left):
            room = min(unit, -rooms[0]) if rooms else 0
            missing += unit - room
            if rooms:
                heapreplace(rooms, rooms[0] + room)
        # Where the count alone would do, the spares are what finds no node of its own.
        return max(missing, 1) if left else 0

    def _fill_tier(self, left: int, beside: int) -> int:
        """P3: as many groups as fit with so many spares beside them; how many are left over."""
        if not left:
            return 0
        pods = self.shape.group_pods or self.shape.pods
        homes = [domain for domain in sorted(self.room.islands) if domain not in self._barred]
        room = {domain: self._holds(domain, pods, beside, left) for domain in homes}
        for domain, groups in self._portions(room, left, pods + beside):
            left -= self.put(domain, groups, beside)
        return left

    def _fill_under(self, left: int) -> int:
        """O1: whole groups on spares' GPUs first, wherever those are."""
        pods = self.shape.group_pods or self.shape.pods
        tops = {domain: _under_only(island) for domain, island in self.room.islands.items() if island.under}
        under = {domain: Bay(tops[domain], self.shape.gpus_per_pod) for domain in sorted(tops)}
        room = {domain: bay.pods_free // pods for domain, bay in under.items()}
        for domain, groups in self._portions(room, left, pods):
            for _ in range(groups):
                seats = under[domain].put_group(pods) or []
                self._keep(self.bay(domain), seats, [])
                for node in seats:
                    self.bay(domain).take(node, 1)
                left -= 1
        return left

    def _holds(self, domain: Domain, pods: int, spares: int, most: int) -> int:
        """How many groups a domain holds; with spares it is tried out, since they must keep off their group's nodes."""
        bay, island = self._bays.get(domain), self.room.islands[domain]
        free = island.pods_free(self.shape.gpus_per_pod) if bay is None else bay.pods_free
        bound = min(most, free // (pods + spares))
        if not spares or not bound:
            return bound
        trial = Bay(island if bay is None else _left_of(bay, island), self.shape.gpus_per_pod)
        return next((count for count in range(bound) if trial.put_with_spares(pods, spares) is None), bound)

    def _portions(self, room: Mapping[Domain, int], left: int, unit_pods: int) -> Iterable[tuple[Domain, int]]:
        """P3, in its order: which domain takes how many groups.

        A domain the run already uses adds none, so those come before all others; then the domain that holds most is
        filled, and the last is the one that is left with the fewest free GPUs; ties end in the name.
        """
        unit = unit_pods * self.shape.gpus_per_pod
        free = {domain: self._gpus_free(domain) for domain, count in room.items() if count}
        used = dict(self.used)
        for tier in ([d for d in free if d in used], [d for d in free if d not in used]):
            order = sorted(tier, key=lambda domain: (-room[domain], free[domain] - room[domain] * unit, domain))
            for rank, domain in enumerate(order):
                if not left:
                    return
                if room[domain] >= left:
                    enough = [other for other in order[rank:] if room[other] >= left]
                    yield min(enough, key=lambda other: (free[other], other)), left
                    return
                yield domain, room[domain]
                left -= room[domain]

    def _gpus_free(self, domain: Domain) -> int:
        bay = self._bays.get(domain)
        return self.room.islands[domain].gpus_free if bay is None else bay.gpus_free

    def _put_one(self, bay: Bay, pods: int, beside: int) -> bool:
        had = bay.gpus_free
        both = bay.put_with_spares(pods, beside) if beside else (bay.put_group(pods), [])
        if both is None or both[0] is None:
            return False
        self._keep(bay, both[0], [(bay.domain, node) for node in both[1]], had)
        return True

    def _keep(self, bay: Bay, seats: list[str], spares: list[tuple[Domain, str]], had: int | None = None) -> None:
        self._seats.append(seats)
        self._domains.append(bay.domain)
        self._spares.append(spares)
        self._had.append(bay.gpus_free if had is None else had)
        self.used[bay.domain] = None

    def _spare_seat(self, seats: list[str], domain: Domain) -> tuple[Domain, str] | None:
        """P4: a node of the same domain that the group does not use, else the same rack label, then the cluster."""
        home = self.bay(domain)
        here = home.put_pods(1, off=set(seats))
        if here:
            return domain, here[0]
        racks = {self.room.racks.get(node) for node in seats} - {None}
        others = [bay for bay in self.bays().values() if bay is not home]
        near = sorted(others, key=lambda bay: (bay.domain[:2] != domain[:2], bay.gpus_free, bay.domain))
        same_rack = _first_seat(near, lambda node: self.room.racks.get(node) in racks)
        found = same_rack or _first_seat([bay for bay in near if bay.domain[:2] == domain[:2]])
        if found is None:
            return None
        self.bay(found[0]).take(found[1], 1)
        return found

    def _steps(self, groups: tuple[PlacedGroup, ...]) -> tuple[Step, ...]:
        gpus, role = self.shape.gpus_per_pod, self.shape.role
        placed = [step for group, had in zip(groups, self._had, strict=True) for step in group.steps(gpus, role, had)]
        return tuple(placed + self._passed())

    def _passed(self) -> list[Step]:
        names = set(self._domains) | {domain for spares in self._spares for domain, _ in spares}
        idle = [domain for domain in sorted(self.room.islands) if domain not in names][:PASSED_MAX]
        had = {domain: self.room.islands[domain].gpus_free for domain in idle}
        return [
            Step(rule="P3", act="passed", subject=domain.name, need=self.shape.gpus, had=had[domain]) for domain in idle
        ]


def _first_seat(bays: Iterable[Bay], wanted: Callable[[str], bool] = bool) -> tuple[Domain, str] | None:
    for bay in bays:
        for node in bay.nodes():
            if wanted(node):
                return bay.domain, node
    return None


def _under_only(island: Island) -> Island:
    """Only the GPUs of spares in a domain, for a filler (O1)."""
    free = {node: min(gpus, island.free[node]) for node, gpus in island.under.items()}
    pods_max = {node: count for node, count in island.pods_max.items() if node in free}
    return Island(domain=island.domain, free=free, pods_max=pods_max, under={})


def _left_of(bay: Bay, island: Island) -> Island:
    return replace(island, free=dict(bay.free), pods_max=bay.limits())
