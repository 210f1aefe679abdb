"""Domains and free GPUs: which nodes may take a run's pods, and how many each (P1).

The fleet is indexed once per snapshot; a `Room` is what one run sees of it: node by node, the GPUs and pods it could
have. Which of them it gets is `pack`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from planner.holds import Hold, Timeline
from planner.model import (
    ENDED_PHASES,
    Domain,
    LabelRequirement,
    Lease,
    Node,
    Pod,
    PodNeeds,
    Role,
    Run,
    Taint,
    Toleration,
)

# Kubernetes puts these on nodes that are cordoned or not ready; the empty fleet has those nodes too (F1 a).
PASSING_TAINTS = frozenset(
    f"node.kubernetes.io/{name}"
    for name in (
        "unschedulable",
        "not-ready",
        "unreachable",
        "network-unavailable",
        "memory-pressure",
        "disk-pressure",
        "pid-pressure",
    )
)
NodeHolds = Mapping[str, Hold]  # what one reservation holds, by node


@dataclass(slots=True)
class NodeUse:
    """What is held on one node, in GPUs by role, and what its pods ask for besides."""

    active: int = 0
    spare: int = 0
    filler: int = 0
    rest: int = 0  # live pods that no open lease names, foreign and terminating ones too
    cpu_milli: int = 0
    memory_bytes: int = 0
    pods: int = 0

    def hold(self, role: Role, gpus: int) -> None:
        if role is Role.ACTIVE:
            self.active += gpus
        elif role is Role.SPARE:
            self.spare += gpus
        else:
            self.filler += gpus

    def unseat(self, pod: Pod, times: int = 1) -> None:
        """As if a pod of the node were gone; with -1 it is back."""
        self.cpu_milli -= times * pod.cpu_milli
        self.memory_bytes -= times * pod.memory_bytes
        self.pods -= times

    def copy(self) -> NodeUse:
        return NodeUse(self.active, self.spare, self.filler, self.rest, self.cpu_milli, self.memory_bytes, self.pods)


@dataclass(frozen=True, slots=True, kw_only=True)
class Island:
    """What one run may use of one domain: free GPUs by node, and a number of pods where less than those fit."""

    domain: Domain
    free: Mapping[str, int]
    pods_max: Mapping[str, int]  # only where CPU, memory or pod slots bind before GPUs do
    under: Mapping[str, int]  # of `free`, GPUs of spares that a filler may use (O1)

    @property
    def gpus_free(self) -> int:
        return sum(self.free.values())

    def pods_free(self, gpus_per_pod: int) -> int:
        """Pods of that size that the nodes take together."""
        if not self.pods_max:
            return sum([free // gpus_per_pod for free in self.free.values()])
        most = self.pods_max
        return sum(min(free // gpus_per_pod, most.get(node, free)) for node, free in self.free.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What one run may use of the fleet, by domain."""

    islands: Mapping[Domain, Island]
    racks: Mapping[str, str | None]

    def only(self, domains: Iterable[Domain]) -> Room:
        kept = {domain: self.islands[domain] for domain in sorted(domains) if domain in self.islands}
        return Room(islands=kept, racks=self.racks)


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """When the fleet is looked at and by whom: holds before the horizon count, a run's own never do (F3)."""

    now: int
    horizon: int
    own: NodeHolds
    known_ends: Mapping[str, Sequence[Hold]]  # known ends of open leases by node: promises may follow them


class Fleet:
    """All nodes with what is held on them. Derived fleets share whatever did not change."""

    def __init__(self, nodes: Mapping[str, Node], use: dict[str, NodeUse], holds: Mapping[str, Timeline]) -> None:
        self.nodes, self.use, self.holds = nodes, use, holds
        self._by_flavor: dict[str, dict[Domain, list[Node]]] = {}

    @classmethod
    def of(
        cls, nodes: Iterable[Node], leases: Iterable[Lease], pods: Iterable[Pod], holds: Iterable[NodeHolds]
    ) -> Fleet:
        by_name = {node.name: node for node in sorted(nodes, key=lambda node: node.name)}
        use = {name: NodeUse() for name in by_name}
        named: dict[tuple[str, str, str], str] = {}
        for lease in leases:
            name, pod = lease.node, lease.pod
            if name in use:
                if lease.role is Role.ACTIVE:  # most are: this loop is a tenth of a plan
                    use[name].active += lease.gpus
                else:
                    use[name].hold(lease.role, lease.gpus)
            if pod is not None:
                named[lease.namespace, pod.name, pod.uid] = name
        _seat_all(use, pods, named)
        return cls(by_name, use, _timelines(holds))

    def without(self, leases: Iterable[Lease], pods: Mapping[tuple[str, str, str], Pod]) -> Fleet:
        """As if the leases were closed and their pods gone."""
        use, touched = dict(self.use), set()
        gone: set[tuple[str, str, str]] = set()
        for lease in leases:
            if lease.node not in use:
                continue
            if lease.node not in touched:
                touched.add(lease.node)
                use[lease.node] = use[lease.node].copy()
            use[lease.node].hold(lease.role, -lease.gpus)
            if lease.pod is not None:
                ref = (lease.namespace, lease.pod.name, lease.pod.uid)
                if ref in pods and ref not in gone and pods[ref].live:
                    gone.add(ref)
                    use[lease.node].unseat(pods[ref])
        other = Fleet(self.nodes, use, self.holds)
        other._by_flavor = self._by_flavor
        return other

    def promised(self, holds: Iterable[NodeHolds]) -> Fleet:
        """As if these were all promises."""
        other = Fleet(self.nodes, self.use, _timelines(holds))
        other._by_flavor = self._by_flavor
        return other

    def has_fillers(self) -> bool:
        return any(use.filler for use in self.use.values())

    def domains(self, flavor: str) -> Mapping[Domain, list[Node]]:
        """P1: nodes of a flavor by domain, both in order of name; a node that lacks a label is in none."""
        if flavor not in self._by_flavor:
            found: dict[Domain, list[Node]] = {}
            for node in self.nodes.values():
                if node.domain is not None and node.flavor == flavor:
                    found.setdefault(node.domain, []).append(node)
            self._by_flavor[flavor] = {domain: found[domain] for domain in sorted(found)}
        return self._by_flavor[flavor]

    def free(self, node: Node, view: View, under_spares: bool = False) -> int:
        """P1: allocatable - Active - max(Spare, Borrowed) - the rest - what reservations hold; never below 0.

        O1: what a filler may have is not lessened by spares under which no other filler runs.
        """
        use = self.use[node.name]
        shared = use.filler if under_spares or use.filler > use.spare else use.spare
        free = node.gpus - use.active - use.rest - shared
        if node.name in self.holds:
            own = (view.own[node.name],) if node.name in view.own else ()
            ends = view.known_ends.get(node.name, ())
            free -= self.holds[node.name].held(view.now, view.horizon, without=own, beside=ends)
        return free if free > 0 else 0

    def room(self, run: Run, view: View, only: Domain | None = None) -> Room:
        """What the run may use now: nodes that take new work and match it, with what is left on each."""
        islands = {}
        for domain, nodes in self._reach(run, only):
            fit = [node for node in nodes if node.ready and not node.cordoned and matches(node, run.needs)]
            if fit:
                islands[domain] = self._island(domain, fit, run, view)
        return Room(islands=islands, racks=self._racks(run))

    def pods_free(self, node: Node, run: Run, view: View) -> int:
        """P1: how many of the run's pods one node takes."""
        free = {node.name: self.free(node, view, under_spares=run.opportunistic)}
        limits = _pod_limits(run, (node,), free, self.use)
        return limits.get(node.name, free[node.name] // run.gpus_per_pod)

    def empty_room(self, run: Run) -> Room:
        """F1 (a): the empty fleet: cordoned and NotReady nodes too, not those with a taint it does not tolerate."""
        islands = {}
        for domain, nodes in self._reach(run, None):
            fit = [node for node in nodes if matches(node, run.needs, passing=True)]
            if fit:
                free = {node.name: node.gpus for node in fit}
                pods_max = _pod_limits(run, fit, free, {})
                islands[domain] = Island(domain=domain, free=free, pods_max=pods_max, under={})
        return Room(islands=islands, racks=self._racks(run))

    def _reach(self, run: Run, only: Domain | None) -> Iterable[tuple[Domain, list[Node]]]:
        for domain, nodes in self.domains(run.flavor).items():
            if (only is None or domain == only) and run.selector.matches(domain):
                yield domain, nodes

    def _island(self, domain: Domain, nodes: list[Node], run: Run, view: View) -> Island:
        free = {node.name: self.free(node, view, under_spares=run.opportunistic) for node in nodes}
        under: dict[str, int] = {}
        if run.opportunistic:
            for node in nodes:
                use = self.use[node.name]
                if use.spare > use.filler:
                    under[node.name] = min(use.spare - use.filler, free[node.name])
        return Island(domain=domain, free=free, pods_max=_pod_limits(run, nodes, free, self.use), under=under)

    def _racks(self, run: Run) -> Mapping[str, str | None]:
        if not run.spares_per_group:
            return {}
        return {node.name: node.rack for nodes in self.domains(run.flavor).values() for node in nodes}


def matches(node: Node, needs: PodNeeds, passing: bool = False) -> bool:
    """P1: every taint tolerated, the template's nodeSelector and required affinity met.

    With `passing`, taints that only say "cordoned" or "not ready" are looked through (F1 a).
    """
    if node.taints and not _tolerated(node.taints, needs.tolerations, passing):
        return False
    if needs.node_selector and any(node.labels.get(key) != value for key, value in needs.node_selector):
        return False
    if needs.affinity is None:
        return True
    return any(term and all(_meets(node, rule) for rule in term) for term in needs.affinity)


def _tolerated(taints: Iterable[Taint], tolerations: tuple[Toleration, ...], passing: bool) -> bool:
    for taint in taints:
        if taint.effect == "PreferNoSchedule" or (passing and taint.key in PASSING_TAINTS):
            continue
        if not any(_tolerates(toleration, taint) for toleration in tolerations):
            return False
    return True


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect not in ("", taint.effect):
        return False
    if toleration.operator == "Exists":
        return toleration.key in ("", taint.key)
    return toleration.key == taint.key and toleration.value == taint.value


def _meets(node: Node, rule: LabelRequirement) -> bool:
    value = node.name if rule.is_field and rule.key == "metadata.name" else node.labels.get(rule.key)
    match rule.operator:
        case "In":
            return value in rule.values
        case "NotIn":
            return value not in rule.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(value, rule)
    return False


def _compares(value: str | None, rule: LabelRequirement) -> bool:
    try:
        have, want = int(value or ""), int(rule.values[0])
    except (ValueError, IndexError):
        return False
    return have > want if rule.operator == "Gt" else have < want


def _pod_limits(run: Run, nodes: Iterable[Node], free: Mapping[str, int], use: Mapping[str, NodeUse]) -> dict[str, int]:
    """P1: pods that CPU, memory and pod slots leave, as far as the node states them, where fewer than GPUs do."""
    limits, needs, empty, size = {}, run.needs, NodeUse(), run.gpus_per_pod
    for node in nodes:
        by_gpus = free[node.name] // size
        if not by_gpus:
            continue
        here, left = use.get(node.name, empty), by_gpus
        if node.pods is not None and node.pods - here.pods < left:
            left = node.pods - here.pods
        if needs.cpu_milli and node.cpu_milli is not None:
            left = min(left, (node.cpu_milli - here.cpu_milli) // needs.cpu_milli)
        if needs.memory_bytes and node.memory_bytes is not None:
            left = min(left, (node.memory_bytes - here.memory_bytes) // needs.memory_bytes)
        if left < by_gpus:
            limits[node.name] = max(0, left)
    return limits


def _seat_all(use: dict[str, NodeUse], pods: Iterable[Pod], named: Mapping[tuple[str, str, str], str]) -> None:
    """Counts live pods where they are bound, or where their lease says they will be; foreign GPUs are the rest."""
    for pod in pods:
        node = named.get((pod.namespace, pod.name, pod.uid))
        here = use.get(pod.node or node or "")
        if here is None or pod.phase in ENDED_PHASES:
            continue
        here.pods += 1
        if pod.cpu_milli:
            here.cpu_milli += pod.cpu_milli
        if pod.memory_bytes:
            here.memory_bytes += pod.memory_bytes
        if node is None:
            here.rest += pod.gpus


def _timelines(holds: Iterable[NodeHolds]) -> dict[str, Timeline]:
    by_node: dict[str, list[Hold]] = {}
    for held_nodes in holds:
        for name, hold in held_nodes.items():
            by_node.setdefault(name, []).append(hold)
    return {name: Timeline(found) for name, found in by_node.items()}
