"""What an operator must know about a fleet and its budgets, each with the command that helps.

Facts of today only; whether history holds is `audit`. Nothing here changes or decides anything.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from planner.audit_history import Severity
from planner.family import admits
from planner.model import Budget, Envelope, Lease, Node, Role
from planner.statement import statements
from planner.world import World

LABELS = ("region", "cluster", "fabric.domain", "gpu.flavor")


@dataclass(frozen=True, slots=True, kw_only=True)
class Symptom:
    """One thing to know. An info is fine as it is; whatever is worse is wrong."""

    check: str
    severity: Severity
    object: str
    message: str
    command: str


def checkup(world: World) -> tuple[Symptom, ...]:
    """Everything, worst first, then by check and object."""
    found = [
        *_nodes(world),
        *_unpaid_pods(world),
        *_leases(world),
        *_lending(world),
        *_caps(world),
        *_promises(world),
        *_ledger(world),
    ]
    rank = {severity: index for index, severity in enumerate(Severity)}
    return tuple(sorted(found, key=lambda one: (rank[one.severity], one.check, one.object, one.message)))


def _nodes(world: World) -> Iterator[Symptom]:
    """P1: nodes that take no new work, and why."""
    for node in world.snapshot.nodes:
        for severity, message, command in _why_not(node):
            yield Symptom(
                check="nodes", severity=severity, object=f"node/{node.name}", message=message, command=command
            )


def _why_not(node: Node) -> Iterator[tuple[Severity, str, str]]:
    labelled = node.domain is not None or node.flavor is not None
    if (node.gpus and not (node.domain and node.flavor)) or (labelled and not node.domain):
        missing = [label for label in LABELS if not node.labels.get(label)] or LABELS
        message = f"has {node.gpus} GPUs but lacks {', '.join(missing)}: it takes no work"
        yield Severity.ERROR, message, f"kubectl label node {node.name} {' '.join(f'{label}=…' for label in missing)}"
    if not node.gpus and node.domain is None:
        return  # no GPU node
    if node.cordoned:
        yield Severity.INFO, "is cordoned: it takes no new work", f"kubectl uncordon {node.name}"
    if not node.ready:
        yield Severity.WARNING, "is NotReady: it takes no new work", f"kubectl describe node {node.name}"
    for taint in node.taints:
        if taint.effect in ("NoSchedule", "NoExecute"):
            message = f"has the taint {taint.key}: only runs that tolerate it start there"
            yield Severity.INFO, message, f"kubectl describe node {node.name}"


def _unpaid_pods(world: World) -> Iterator[Symptom]:
    """Pods that hold GPUs and that no open lease names: they use what nobody pays for."""
    named = {
        (lease.namespace, lease.pod.name, lease.pod.uid) for lease in world.leases.values() if lease.pod is not None
    }
    for pod in world.snapshot.pods:
        if pod.gpus and pod.node and pod.live and (pod.namespace, pod.name, pod.uid) not in named:
            whose = "of ours" if pod.run_uid else "foreign"
            yield Symptom(
                check="pods",
                severity=Severity.ERROR if pod.run_uid else Severity.WARNING,
                object=f"pod/{pod.namespace}/{pod.name}",
                message=f"{whose}, holds {pod.gpus} GPUs of {pod.node}, and no lease pays for them",
                command=f"kubectl get pod {pod.name} -n {pod.namespace} -o wide",
            )


def _leases(world: World) -> Iterator[Symptom]:
    """Open leases that hold GPUs for nothing: their pod is gone or has ended, or their node is lost."""
    pods = {(pod.namespace, pod.name, pod.uid): pod for pod in world.snapshot.pods}
    nodes = {node.name for node in world.snapshot.nodes}
    for key, lease in sorted(world.leases.items()):
        pod = pods.get((lease.namespace, lease.pod.name, lease.pod.uid)) if lease.pod else None
        message = _idle(lease, pod is None, pod is not None and not pod.live, visible=world.snapshot.pods_visible)
        if lease.node not in nodes:
            message = f"node {lease.node} is gone, its {lease.gpus} GPUs are still held"
        elif pod is not None and pod.node and pod.node != lease.node:
            message = f"is on {lease.node}, its pod runs on {pod.node}"
        if message:
            settle = f"kubectl runs settle -n {lease.namespace}"
            yield Symptom(
                check="leases", severity=Severity.WARNING, object=f"lease/{key}", message=message, command=settle
            )


def _idle(lease: Lease, missing: bool, ended: bool, *, visible: bool) -> str:
    if lease.role is Role.SPARE or lease.pod is None or not visible:
        return ""
    if missing:
        return f"its pod {lease.pod.name} is gone, its {lease.gpus} GPUs are still held"
    return f"its pod {lease.pod.name} has ended, its {lease.gpus} GPUs are still held" if ended else ""


def _lending(world: World) -> Iterator[Symptom]:
    """C8: reciprocal lending is allowed and reported."""
    budgets = sorted(world.snapshot.budgets, key=lambda budget: budget.name)
    for index, one in enumerate(budgets):
        for other in budgets[index + 1 :]:
            if one.owner != other.owner and _lends(one, other.owner) and _lends(other, one.owner):
                yield Symptom(
                    check="lending",
                    severity=Severity.INFO,
                    object=f"budget/{one.name}",
                    message=f"lends to {other.owner} while budget {other.name} lends to {one.owner}",
                    command="kubectl runs sponsors list",
                )


def _lends(budget: Budget, borrower: str) -> bool:
    return any(admits(envelope.lending, borrower) for envelope in budget.envelopes)


def _caps(world: World) -> Iterator[Symptom]:
    """R6 and promises that no hardware backs."""
    for line in (line for one in statements(world) for line in one.envelopes):
        if line.over:
            yield Symptom(
                check="caps",
                severity=Severity.ERROR,
                object=f"budget/{line.payer.budget}",
                message=f"envelope {line.payer.envelope} is over its cap (OverCap): holds {line.held_gpus} of "
                f"{line.envelope.concurrency} GPUs, and takes on nothing new",
                command=f"kubectl runs resolve --budget {line.payer.name} --dry-run",
            )
        there = _hardware(world, line.envelope)
        if line.envelope.concurrency > there:
            yield Symptom(
                check="caps",
                severity=Severity.WARNING,
                object=f"budget/{line.payer.budget}",
                message=f"envelope {line.payer.envelope} may hold {line.envelope.concurrency} GPUs of "
                f"{line.envelope.flavor}, where there are {there}",
                command=f"kubectl runs budgets {line.owner}",
            )


def _hardware(world: World, envelope: Envelope) -> int:
    return sum(
        node.gpus
        for node in world.snapshot.nodes
        if node.domain is not None and node.flavor == envelope.flavor and envelope.selector.matches(node.domain)
    )


def _promises(world: World) -> Iterator[Symptom]:
    """Promises that are due and have not been kept yet."""
    for made in world.reservations:
        if made.earliest_start is not None and made.earliest_start < world.now:
            late = (world.now - made.earliest_start) // 60
            yield Symptom(
                check="reservations",
                severity=Severity.WARNING,
                object=f"reservation/{made.key}",
                message=f"has been due for {late} minutes",
                command=f"kubectl runs resolve {made.name} -n {made.namespace} --dry-run",
            )


def _ledger(world: World) -> Iterator[Symptom]:
    base = world.snapshot.base
    if base is not None and base.pending:
        listed = ", ".join(map(str, sorted(base.pending)))
        yield Symptom(
            check="ledger",
            severity=Severity.WARNING,
            object="ledger/base",
            message=f"entries not finished: {listed}",
            command="kubectl runs settle -A",
        )
    void: dict[str, list[int]] = defaultdict(list)
    for entry in world.snapshot.entries:
        if entry.void:
            void[entry.void].append(entry.seq)
    for why, numbers in sorted(void.items()):
        yield Symptom(
            check="ledger",
            severity=Severity.WARNING,
            object=f"ledgerentry/{numbers[0]:012d}",
            message=f"void: {why}",
            command="kubectl runs verify",
        )
