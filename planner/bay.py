"""One domain while pods are put into it: which node takes the next pod (P3, inside a domain).

A bay is a working copy of an `Island`, sorted by free GPUs, so that "the fullest node that still takes it" is a
bisection. Which domain to use is `pack`.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable

from planner.topology import Island

Entry = tuple[int, int, str]  # rank, free GPUs, node


class Bay:
    """What is left of one domain for one run's pods."""

    __slots__ = ("_limits", "_order", "_under", "domain", "free", "gpus_free", "gpus_per_pod", "pods_free")

    def __init__(self, island: Island, gpus_per_pod: int) -> None:
        self.domain, self.gpus_per_pod = island.domain, gpus_per_pod
        self.free = dict(island.free)
        self._limits, self._under = dict(island.pods_max), dict(island.under)
        self.gpus_free = sum(self.free.values())
        self.pods_free = island.pods_free(gpus_per_pod)
        able = [node for node, free in self.free.items() if free >= gpus_per_pod]
        if self._limits:
            able = [node for node in able if self.takes(node)]
        self._order = sorted([(self._rank(node), self.free[node], node) for node in able])

    def takes(self, node: str) -> int:
        """How many more pods the node takes (P1)."""
        by_gpus = self.free[node] // self.gpus_per_pod
        return min(by_gpus, self._limits.get(node, by_gpus))

    def take(self, node: str, pods: int) -> None:
        """Puts pods on a node; a negative number takes them off again."""
        self._move(node, pods)

    def put_group(self, pods: int) -> list[str] | None:
        """P3: a single node that holds the whole group, the fullest such; else pod by pod, fullest node first."""
        if pods > self.pods_free:
            return None
        alone = self._single(pods)
        if alone is not None:
            self.take(alone, pods)
            return [alone] * pods
        return self.put_pods(pods)

    def put_pods(self, pods: int, off: Collection[str] = ()) -> list[str]:
        """Pod by pod on the node with the fewest free GPUs that still takes one, then name; perhaps fewer than asked.

        A node the group uses then has the fewest, so it is filled before the next is begun. Nodes in `off` are left
        alone (P4).
        """
        seats: list[str] = []
        while len(seats) < pods:
            node = self._fullest(off)
            if node is None:
                break
            count = min(pods - len(seats), self._at_once(node))
            self.take(node, count)
            seats += [node] * count
        return seats

    def put_with_spares(self, pods: int, spares: int) -> tuple[list[str], list[str]] | None:
        """P4: a group and its spares in this domain, spares off the group's nodes; None if it cannot hold both."""
        if pods + spares > self.pods_free:
            return None
        seats = self.put_group(pods)
        if seats is None:
            return None
        beside = self.put_pods(spares, off=set(seats))
        if len(beside) == spares:
            return seats, beside
        self.put_back([*seats, *beside])
        return self._put_apart(pods, spares)

    def limits(self) -> dict[str, int]:
        """Pods that CPU, memory and pod slots still leave, where they bind."""
        return dict(self._limits)

    def put_back(self, seats: Iterable[str]) -> None:
        for node in seats:
            self.take(node, -1)

    def pods_beside(self, spares: int) -> int:
        """The most pods that leave room for so many spares on other nodes."""
        least = _least_sum(self._capacities(), spares)
        return 0 if least is None else self.pods_free - sum(count for _, count in least)

    def nodes(self) -> Iterable[str]:
        """Nodes that still take a pod, fullest first."""
        return (node for _, _, node in self._order)

    def _put_apart(self, pods: int, spares: int) -> tuple[list[str], list[str]] | None:
        """The group on nodes chosen so that the rest hold its spares: the fullest first would not leave them."""
        apart = _least_sum(self._capacities(), spares)
        if apart is None or self.pods_free - sum(count for _, count in apart) < pods:
            return None
        kept = {node for node, _ in apart}
        beside = self.put_pods(spares, off=[node for node in self.free if node not in kept])
        return self.put_pods(pods, off=kept), beside

    def _capacities(self) -> list[tuple[str, int]]:
        return [(node, self.takes(node)) for _, _, node in self._order]

    def _rank(self, node: str) -> int:
        """O1: room for a whole pod on spares' GPUs first, then for a part of one."""
        under = self._under.get(node, 0)
        return 0 if under >= self.gpus_per_pod or not self._under else (1 if under > 0 else 2)

    def _at_once(self, node: str) -> int:
        """Pods that the node takes before its rank changes."""
        room = self.takes(node)
        under = self._under.get(node, 0)
        return min(room, max(1, under // self.gpus_per_pod)) if under > 0 else room

    def _single(self, pods: int) -> str | None:
        for rank in (0, 1, 2) if self._under else (0,):
            start = bisect_left(self._order, (rank, pods * self.gpus_per_pod, ""))
            for index in range(start, len(self._order)):
                if self._order[index][0] != rank:
                    break
                if self.takes(self._order[index][2]) >= pods:
                    return self._order[index][2]
        return None

    def _fullest(self, off: Collection[str]) -> str | None:
        return next((node for _, _, node in self._order if node not in off), None)

    def _move(self, node: str, pods: int) -> None:
        if self.takes(node):
            entry = (self._rank(node), self.free[node], node)
            del self._order[bisect_left(self._order, entry)]
        gpus = pods * self.gpus_per_pod
        self.free[node] -= gpus
        self.gpus_free -= gpus
        if node in self._limits:
            self._limits[node] -= pods
        if node in self._under:
            self._under[node] -= gpus
        if self.takes(node):
            insort(self._order, (self._rank(node), self.free[node], node))
        self.pods_free -= pods


def _least_sum(capacities: list[tuple[str, int]], least: int) -> list[tuple[str, int]] | None:
    """Nodes whose pods together are the fewest that reach `least`: what a group loses by leaving them to spares."""
    reached: dict[int, tuple[tuple[str, int], ...]] = {0: ()}
    best: tuple[int, tuple[tuple[str, int], ...]] | None = None
    for node, count in capacities:
        for total, chosen in list(reached.items()):
            here, picked = total + count, (*chosen, (node, count))
            if here >= least:
                if best is None or here < best[0]:
                    best = (here, picked)
            elif here not in reached:
                reached[here] = picked
    if best is None:
        return [] if least == 0 else None
    return list(best[1])
