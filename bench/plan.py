"""One plan on a large fleet: index, cover and pack; how the cost grows; and a queue of gangs drained to the end.

Index building is inside every figure, as it is in a command. Planning does no I/O, so processor time is measured: what
else runs on the machine does not count. Ratios are growth: to the same question on a fleet half as large, so that 2× is
linear and 1× is free.
"""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from heapq import heappop, heappush
from random import Random

from bench.row import Row
from planner.admit import Fit, fit
from planner.model import (
    Budget,
    Domain,
    Envelope,
    FundingClass,
    Lease,
    LedgerBase,
    Node,
    Payer,
    Pod,
    PodRef,
    Role,
    Run,
    Snapshot,
)
from planner.pack import place
from planner.plan import plan_run
from planner.shape import Placement, shape_of
from planner.world import World
from tests.properties.history import leases_of

FLAVOR = "H100"
HOUR = 3600
NOW = 10 * HOUR
ISLAND_NODES = 20
OWNERS = tuple(f"org:f{family}:o{number}" for family in range(5) for number in range(6))
GANGS = 15_000


def rows() -> Iterator[Row]:
    yield from plans()
    yield from packs()
    yield from growth()
    yield from history()
    yield from drain()


def cpu_seconds_of(work: Callable[[], object], repeats: int = 7) -> float:
    """The median processor time of some work."""
    times = []
    for _ in range(repeats):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return statistics.median(times)


def plans() -> Iterator[Row]:
    """The design's figure: 1,000 nodes, 5,000 open leases; room for it, none until somebody ends, none without cuts."""
    size, run = "1000 nodes, 5000 leases", gang("new", OWNERS[0], pods=8)
    timed = fleet(1000, 5000, timed=True)
    roomy = replace(
        timed,
        leases=tuple(lease for lease in timed.leases if lease.node >= name(ISLAND_NODES)),
        pods=tuple(pod for pod in timed.pods if pod.node >= name(ISLAND_NODES)),
    )
    worlds = {"starts": roomy, "reserved, no cuts": timed, "reserved, with cuts": fleet(1000, 5000, timed=False)}
    for label, world in worlds.items():
        seconds = cpu_seconds_of(lambda w=world: plan_run(w, run, NOW))  # type: ignore[misc]
        yield Row(name=f"plan, {label}", size=size, value=seconds * 1000, unit="ms", limit="≤ 20 ms")
    seconds = cpu_seconds_of(lambda: fit(World.of(timed, NOW), run))
    yield Row(name="plan, fits or not", size=size, value=seconds * 1000, unit="ms", limit="≤ 20 ms")


def packs() -> Iterator[Row]:
    run = replace(gang("wide", OWNERS[0], pods=1250), group_gpus=8)
    base = 0.0
    for nodes in (2500, 5000, 10_000):
        world = World.of(fleet(nodes, 0, timed=True), NOW)
        seconds = cpu_seconds_of(lambda w=world: _packed(w, run))  # type: ignore[misc]
        ratio = seconds / base if base else None
        limit = "≤ 50 ms" if nodes == 10_000 else ""
        yield Row(
            name="pack of 1250 groups",
            size=f"{nodes} nodes",
            value=seconds * 1000,
            unit="ms",
            ratio=ratio,
            ratio_to="half",
            limit=limit,
        )
        base = seconds


def _packed(world: World, run: Run) -> Placement:
    answer = place(world.room(run), shape_of(run))
    assert isinstance(answer, Placement)
    return answer


def growth() -> Iterator[Row]:
    """1×, 2×, 4×, 8×: cost grows no faster than nodes and open leases do."""
    run, base = gang("new", OWNERS[0], pods=8), 0.0
    for times in (1, 2, 4, 8):
        world = fleet(250 * times, 1250 * times, timed=True)
        seconds = cpu_seconds_of(lambda w=world: fit(World.of(w, NOW), run))  # type: ignore[misc]
        size = f"{250 * times} nodes, {1250 * times} leases"
        ratio = seconds / base if base else None
        yield Row(
            name=f"plan at {times}×",
            size=size,
            value=seconds * 1000,
            unit="ms",
            ratio=ratio,
            ratio_to="half",
            limit="≤ 2×",
        )
        base = seconds


def history() -> Iterator[Row]:
    """A command never reads closed leases of others (section 6); in a file that holds them each costs a look."""
    run, world = gang("new", OWNERS[0], pods=8), fleet(250, 1250, timed=True)
    bare = cpu_seconds_of(lambda: fit(World.of(world, NOW), run))
    for count in (10_000, 80_000):
        closed = tuple(_closed(world.leases[number % 1250], number) for number in range(count))
        aged = replace(world, leases=(*world.leases, *closed), base=LedgerBase(seq=count))
        seconds = cpu_seconds_of(lambda w=aged: fit(World.of(w, NOW), run))  # type: ignore[misc]
        yield Row(
            name="plan over closed history",
            size=f"250 nodes, {count} closed leases",
            value=seconds * 1000,
            unit="ms",
            ratio=seconds / bare,
            ratio_to="none closed",
        )


def _closed(lease: Lease, number: int) -> Lease:
    return replace(lease, name=f"l-{number}-0", closed=True, end_at=lease.start_at + 60, closure="Completed")


def drain() -> Iterator[Row]:
    """15,000 gangs of 2 to 8 pods over 640 nodes and 30 owners: each is planned alone, first come first served."""
    random = Random(7)
    waiting = [_queued(random, number) for number in range(GANGS)]
    bare = fleet(640, 0, timed=True)
    spans: list[float] = []
    held: dict[str, tuple[Run, tuple[Lease, ...]]] = {}
    ends: list[tuple[int, str]] = []
    now = NOW
    for run in waiting:
        while True:
            leases = tuple(lease for _, mine in held.values() for lease in mine)
            world = replace(bare, runs=tuple(other for other, _ in held.values()), leases=leases)
            before = time.process_time()
            answer = fit(World.of(world, now), run)
            spans.append(time.process_time() - before)
            if isinstance(answer, Fit):
                held[run.key] = (run, leases_of(run, answer.seats, now, prefix=run.name))
                heappush(ends, (now + (run.duration or 0), run.key))
                break
            now, ended = heappop(ends)
            del held[ended]
    size = f"{GANGS} gangs, 640 nodes, 30 owners"
    spans.sort()
    yield Row(name="drain", size=size, value=len(spans) / sum(spans), unit="plans/s")
    yield Row(name="drain, p50", size=size, value=statistics.median(spans) * 1000, unit="ms")
    yield Row(name="drain, p99", size=size, value=spans[len(spans) * 99 // 100] * 1000, unit="ms")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    yield Row(name="drain, peak memory", size=size, value=peak, unit="MB")


def _queued(random: Random, number: int) -> Run:
    run = gang(f"gang-{number}", random.choice(OWNERS), pods=random.randint(2, 8))
    return replace(run, duration=random.randint(1, 8) * HOUR)


def gang(run_name: str, owner: str, pods: int) -> Run:
    return Run(
        namespace="ns",
        name=run_name,
        uid=f"uid-{run_name}",
        owner=owner,
        flavor=FLAVOR,
        gpus_total=pods * 8,
        gpus_per_pod=8,
        duration=HOUR,
    )


def name(number: int) -> str:
    return f"n{number:05}"


def fleet(nodes: int, leases: int, timed: bool) -> Snapshot:
    """A fleet whose leases fill it, four of them to a run, each with its pod; five families of six owners pay."""
    return Snapshot(
        nodes=tuple(_node(number) for number in range(nodes)),
        budgets=tuple(_budget(owner, nodes * 8) for owner in OWNERS),
        leases=tuple(_lease(number, leases // nodes) for number in range(leases)),
        runs=tuple(_run(number, timed) for number in range(leases // 4 + 1)) if leases else (),
        pods=tuple(_pod(number, leases // nodes) for number in range(leases)),
    )


def _node(number: int) -> Node:
    return Node(
        name=name(number),
        domain=Domain("west", "a", f"d{number // ISLAND_NODES:04}"),
        flavor=FLAVOR,
        gpus=8,
        cpu_milli=128_000,
        memory_bytes=1 << 40,
        pods=110,
    )


def _budget(owner: str, gpus: int) -> Budget:
    purse = Envelope(name="e", flavor=FLAVOR, concurrency=gpus, gpu_hours_max=10**9)
    return Budget(name=owner.replace(":", "-"), owner=owner, envelopes=(purse,))


def _run(number: int, timed: bool) -> Run:
    duration = NOW + HOUR * (1 + number % 50) if timed else None
    return replace(gang(f"r{number}", OWNERS[number % 30], pods=1), duration=duration)


def _sizes(number: int, per_node: int) -> int:
    """The node's GPUs over its leases: one each, the rest for the last."""
    return 8 - (per_node - 1) if number % per_node == per_node - 1 else 1


def _lease(number: int, per_node: int) -> Lease:
    owner = OWNERS[number // 4 % 30]
    return Lease(
        namespace="ns",
        name=f"l-1-{number}",
        owner=owner,
        run_name=f"r{number // 4}",
        run_uid=f"uid-r{number // 4}",
        pod=PodRef(name=f"p{number}", uid=f"uid-p{number}"),
        group=0,
        node=name(number // per_node),
        gpus=_sizes(number, per_node),
        role=Role.ACTIVE,
        start_at=0,
        payer=Payer(owner.replace(":", "-"), "e"),
        funding=FundingClass.OWNED,
    )


def _pod(number: int, per_node: int) -> Pod:
    return Pod(
        namespace="ns",
        name=f"p{number}",
        uid=f"uid-p{number}",
        node=name(number // per_node),
        gpus=_sizes(number, per_node),
        phase="Running",
    )
