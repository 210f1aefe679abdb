"""6.6: a GPU is free only by a Close, after its pod is gone. Unknown means held."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kubectl_runs.commit.closing import close_draft, gone_leases
from kubectl_runs.commit.life import life
from kubectl_runs.commit.steps import drive
from kubectl_runs.read import Reading, catch_up
from kubectl_runs.store.protocol import Delete, Patch
from kubectl_runs.store.sandbox import SandboxStore
from kubectl_runs.wire.kinds import NODE, POD
from planner.model import Ended, Entry, EntryKind, Pod, Run, RunRef
from tests.commit.worlds import KEY, leases, pods, reading, sandbox, submitted

BEGUN_AT = 1767600000


def run_of(seen: Reading) -> Run:
    return next(run for run in seen.snapshot.runs if run.key == KEY)


def gone_of(seen: Reading) -> dict[str, str]:
    return {each.lease.name: each.reason for each in gone_leases(seen, life(seen.snapshot, run_of(seen)))}


def with_pods(seen: Reading, *changed: Pod) -> Reading:
    return replace(seen, snapshot=replace(seen.snapshot, pods=changed))


@pytest.fixture
def store() -> SandboxStore:
    made = sandbox()
    submitted(made, "a", 2)
    return made


@pytest.fixture
def seen(store: SandboxStore) -> Reading:
    return reading(store, KEY)


@pytest.mark.parametrize(
    ("phase", "terminating", "reason"),
    [
        ("Running", False, None),
        ("Running", True, None),
        ("Pending", False, None),
        ("Unknown", False, None),
        ("Succeeded", False, "Completed"),
        ("Failed", False, "Fail"),
    ],
)
def test_pod_frees_its_gpus_only_in_a_final_phase(
    seen: Reading, phase: str, terminating: bool, reason: str | None
) -> None:
    """Race 8: containers that ended may restart, so their state is not asked."""
    changed = [replace(pod, phase=phase, terminating=terminating, finished_at=5) for pod in seen.snapshot.pods]
    expected = {} if reason is None else dict.fromkeys(("l-1-0", "l-1-1"), reason)
    assert gone_of(with_pods(seen, *changed)) == expected


def test_pod_that_is_absent_is_gone(store: SandboxStore) -> None:
    pod = pods(store)[0]["metadata"]
    store.perform(Delete(kind=POD, namespace="team", name=pod["name"], uid=pod["uid"], grace_seconds=0))
    store.advance(40)

    assert list(gone_of(reading(store, KEY)).values()) == ["Fail"]


def test_namesake_of_a_pod_does_not_hold_its_gpus(seen: Reading) -> None:
    namesakes = [replace(pod, uid="another") for pod in seen.snapshot.pods]
    assert len(gone_of(with_pods(seen, *namesakes))) == 2


def test_unbound_pod_is_not_gone(seen: Reading) -> None:
    """Somebody may bind it yet: it is deleted before its Close."""
    assert gone_of(with_pods(seen, *(replace(pod, node="") for pod in seen.snapshot.pods))) == {}


def test_pods_that_may_not_be_listed_are_not_gone(seen: Reading) -> None:
    blind = replace(seen, snapshot=replace(seen.snapshot, pods=(), pods_visible=False), pod_namespaces=frozenset())
    assert gone_of(blind) == {}


def test_pod_of_an_entry_read_after_the_pods_is_not_gone() -> None:
    """Race 9: a list that is older than a pod says nothing about it."""
    store = sandbox()
    before = reading(store, KEY)
    submitted(store, "a", 2)
    after, _ = drive(catch_up(before), store)
    known = reading(store, KEY)

    late = replace(
        after,
        objects={
            **after.objects,
        },
        snapshot=replace(after.snapshot, runs=known.snapshot.runs),
    )

    assert after.snapshot.pods == ()
    assert gone_of(late) == {}


def test_first_end_gives_the_reason(seen: Reading) -> None:
    done = with_pods(seen, *(replace(pod, phase="Succeeded") for pod in seen.snapshot.pods))
    ended = replace(
        done,
        snapshot=replace(done.snapshot, entries=(_ends(2, "Shrink"), _ends(3, "Canceled"))),
    )
    assert gone_of(ended) == {"l-1-0": "Shrink", "l-1-1": "Completed"}


def test_pod_lost_with_its_node_is_a_node_failure(store: SandboxStore) -> None:
    node = pods(store)[0]["spec"]["nodeName"]
    store.perform(
        Patch(
            kind=NODE,
            name=node,
            patch={"spec": {"taints": [{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]}},
        )
    )
    seen = reading(store, KEY)
    left = [pod for pod in seen.snapshot.pods if pod.node != node]
    reasons = gone_of(with_pods(seen, *left))
    assert set(reasons.values()) == {"NodeFailure"}


@pytest.mark.parametrize(
    ("finished_at", "at"),
    [
        pytest.param(BEGUN_AT + 7, BEGUN_AT + 7, id="finishedAt"),
        pytest.param(None, BEGUN_AT + 60, id="server time of the read"),
        pytest.param(BEGUN_AT - 100, BEGUN_AT, id="not before the lease"),
        pytest.param(BEGUN_AT + 999, BEGUN_AT + 60, id="not after the read"),
    ],
)
def test_end_of_a_lease_is_clamped(store: SandboxStore, finished_at: int | None, at: int) -> None:
    """Race 17: a node's clock may be wrong, and negative durations would be paid back."""
    store.advance(60)
    seen = reading(store, KEY)
    done = [replace(pod, phase="Succeeded", finished_at=finished_at) for pod in seen.snapshot.pods]
    seen = with_pods(seen, *done)
    gone = gone_leases(seen, life(seen.snapshot, run_of(seen)))
    draft = close_draft(RunRef(namespace="team", name="a", uid="u"), gone, seen)
    assert [(close.at, close.gpu_seconds) for close in draft.closes] == [(at, at - BEGUN_AT)] * 2


def test_spares_close_with_the_run_for_the_same_reason() -> None:
    store = sandbox()
    submitted(store, "a", 2, sparesPerGroup=1, resources={"gpuType": "H100", "totalGPUs": 2, "gpusPerPod": 2})
    seen = reading(store, KEY)
    running = gone_of(seen)
    done = with_pods(seen, *(replace(pod, phase="Succeeded") for pod in seen.snapshot.pods))

    assert running == {}
    assert gone_of(done) == {"l-1-0": "Completed", "l-1-1": "Completed"}
    assert [lease["spec"]["slice"]["role"] for lease in leases(store)] == ["Active", "Spare"]


def _ends(seq: int, reason: str) -> Entry:
    end = Ended(namespace="team", lease="l-1-0", reason=reason)
    return Entry(
        seq=seq, prev="", digest="", nonce="", read_at=0, time=0, created_at=0, kind=EntryKind.END, ends=(end,)
    )
