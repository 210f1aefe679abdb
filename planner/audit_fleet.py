"""Do pods and nodes agree with the leases: no GPU held twice now, no bound pod without its lease, no run that is over
and still holds something.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from planner.audit_history import Check, Finding, Findings, History, Result
from planner.model import EntryKind, Lease, Pod, Role

_TERMINAL = ("Completed", "Failed")


class NodeUse:
    """GPUs that leases hold of one node: a filler and the spare under it count once (P1)."""

    __slots__ = ("_by_role",)

    def __init__(self) -> None:
        self._by_role = dict.fromkeys(Role, 0)

    def add(self, lease: Lease, times: int = 1) -> None:
        self._by_role[lease.role] += times * lease.gpus

    @property
    def gpus(self) -> int:
        return self._by_role[Role.ACTIVE] + max(self._by_role[Role.SPARE], self._by_role[Role.FILLER])


def gpus_now(history: History) -> tuple[Finding, ...]:
    """Per node, what open leases hold is at most what it has. Foreign pods squeezed in beside them are a warning."""
    found = Findings(Check.GPUS)
    used = node_uses(_holding(history))
    foreign = _foreign(history)
    gpus = {node.name: node.gpus for node in history.snapshot.nodes}
    for name in sorted(used):
        held = used[name].gpus
        if name not in gpus:
            continue  # a lost node: its leases wait for their swap or their end (S1)
        if held > gpus[name]:
            found.error(f"node/{name}", f"open leases hold {held} GPUs, it has {gpus[name]}")
        elif held + foreign[name] > gpus[name]:
            found.warning(
                f"node/{name}",
                f"open leases hold {held} GPUs and pods that no lease names {foreign[name]}, it has {gpus[name]}",
            )
    return found.result(0).findings


def _holding(history: History) -> list[Lease]:
    """Open leases, without those whose GPUs a Swap has passed on (S2)."""
    swaps = {entry.seq for entry in history.counting if entry.kind is EntryKind.SWAP}
    return [
        lease
        for lease in history.open_leases()
        if not (
            (ending := history.ended.get(lease.key))
            and ending.entry.seq in swaps
            and ending.entry.run
            and ending.entry.run.uid == lease.run_uid
        )
    ]


def node_uses(leases: Iterable[Lease]) -> dict[str, NodeUse]:
    uses: dict[str, NodeUse] = defaultdict(NodeUse)
    for lease in leases:
        uses[lease.node].add(lease)
    return uses


def _foreign(history: History) -> dict[str, int]:
    """GPUs of live pods, also terminating ones, that no open lease names (P1)."""
    named = {_pod_key(lease) for lease in history.open_leases()}
    foreign: dict[str, int] = defaultdict(int)
    for pod in history.snapshot.pods:
        if pod.live and pod.node and (pod.namespace, pod.name, pod.uid) not in named:
            foreign[pod.node] += pod.gpus
    return foreign


def pods(history: History) -> Result:
    """A bound pod of ours has an open lease on its node; so GPUs are never freed under a live pod (6.6)."""
    found = Findings(Check.PODS)
    leases: dict[tuple[str, str, str], list[Lease]] = defaultdict(list)
    for lease in history.open_leases():
        leases[_pod_key(lease)].append(lease)
    own = history.evidence.own_pods
    ours = [
        pod
        for pod in history.snapshot.pods
        if pod.node
        and pod.live
        and (pod.run_uid or f"{pod.namespace}/{pod.name}" in own or (pod.namespace, pod.name, pod.uid) in leases)
    ]
    for pod in sorted(ours, key=lambda pod: (pod.namespace, pod.name)):
        _pod(pod, leases.get((pod.namespace, pod.name, pod.uid), []), found)
    return found.result(len(ours))


def _pod(pod: Pod, leases: list[Lease], found: Findings) -> None:
    subject = f"pod/{pod.namespace}/{pod.name}"
    if not leases:
        found.error(subject, f"is bound to {pod.node}, but no open lease names it")
        return
    for lease in leases:
        if lease.node != pod.node:
            found.error(subject, f"is bound to {pod.node}, its lease {lease.key} is on {lease.node}")
        if pod.run_uid and lease.run_uid != pod.run_uid:
            found.error(subject, f"belongs to another run than its lease {lease.key}")
    held = sum(lease.gpus for lease in leases)
    if pod.run_uid and held != pod.gpus:
        found.error(subject, f"asks for {pod.gpus} GPUs, its leases hold {held}")


def _pod_key(lease: Lease) -> tuple[str, str, str]:
    return (lease.namespace, lease.pod.name, lease.pod.uid) if lease.pod else (lease.namespace, "", "")


def terminal_runs(history: History) -> Result:
    """A run that is Completed or Failed holds no open lease and no live pod."""
    found = Findings(Check.TERMINAL_RUNS)
    leases: dict[str, list[str]] = defaultdict(list)
    for lease in history.open_leases():
        leases[lease.run_uid].append(lease.key)
    bound: dict[str, list[str]] = defaultdict(list)
    for pod in history.snapshot.pods:
        if pod.live and pod.node and pod.run_uid:
            bound[pod.run_uid].append(f"{pod.namespace}/{pod.name}")
    terminal = [run for run in history.snapshot.runs if history.evidence.phases.get(run.key) in _TERMINAL]
    for run in sorted(terminal, key=lambda run: run.key):
        phase = history.evidence.phases[run.key]
        if leases[run.uid]:
            found.error(f"run/{run.key}", f"is {phase}, but lease {min(leases[run.uid])} is open")
        if bound[run.uid]:
            found.error(f"run/{run.key}", f"is {phase}, but pod {min(bound[run.uid])} is alive")
    return found.result(len(terminal))
