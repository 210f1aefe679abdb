"""The resolver on a full fleet: who yields for one wide run, and what a plan costs that has to say so.

The fleet is full of small runs of every kind, so that each stage has thousands of candidates; the lottery cases have
fixed runs only, the worst case for drawing. Ratios are growth: the same question on a fleet twice as large.
"""

from __future__ import annotations

from collections.abc import Iterator

from bench.row import Row, seconds_of
from planner.model import (
    Budget,
    Domain,
    Envelope,
    FundingClass,
    Lease,
    Malleable,
    Node,
    Payer,
    PayerShare,
    Reservation,
    Role,
    Run,
    Snapshot,
)
from planner.plan import plan_run
from planner.resolve import activate, tighten

FLAVOR = "H100"
PAYER = Payer("org", "e")
ISLAND_NODES = 25
KINDS = ("fixed", "fixed", "malleable", "filler", "spare")


def rows() -> Iterator[Row]:
    for mix, label in ((("fixed",), "lottery"), (KINDS, "all stages")):
        base = 0.0
        for nodes in (250, 500, 1000):
            world, promise = full_fleet(nodes, mix, waiting=nodes * 8)
            seconds = seconds_of(lambda w=world, p=promise: activate(w, p, 0), repeats=3)  # type: ignore[misc]
            size = f"{nodes} nodes, {nodes * 8} runs, {nodes * 8} waiting"
            ratio = seconds / base if base else None
            limit = "≤ 1 s" if nodes == 500 else ""
            yield Row(
                name=f"resolve, {label}", size=size, value=seconds, unit="s", ratio=ratio, ratio_to="half", limit=limit
            )
            base = seconds
    world, promise = full_fleet(500, KINDS, waiting=0)
    winner = next(run for run in world.runs if run.key == promise.run_key)
    bare = Snapshot(nodes=world.nodes, budgets=world.budgets, runs=world.runs, leases=world.leases)
    seconds = seconds_of(lambda: plan_run(bare, winner, 0), repeats=3)
    yield Row(name="plan with cuts and remedies", size="500 nodes, 4000 runs", value=seconds, unit="s")
    tight = Snapshot(nodes=world.nodes, budgets=(org(2000),), runs=world.runs, leases=world.leases)
    seconds = seconds_of(lambda: tighten(tight, "org", None, 0), repeats=3)
    yield Row(name="tighten a budget to half", size="500 nodes, 4000 runs", value=seconds, unit="s", limit="≤ 1 s")


def full_fleet(nodes: int, mix: tuple[str, ...], waiting: int) -> tuple[Snapshot, Reservation]:
    """A fleet with no GPU free, and a wide run whose promise is due."""
    fleet = tuple(_node(number) for number in range(nodes))
    runs: list[Run] = [_run("big", gpus=ISLAND_NODES * 8 // 2, per_pod=8)]
    leases: list[Lease] = []
    for number in range(nodes * 8):
        kind = mix[number % len(mix)]
        runs.append(_run(f"r{number:06}", kind=kind))
        leases.append(_lease(f"r{number:06}", fleet[number // 8].name, kind, number))
    waits = [_run(f"w{number:06}", gpus=16) for number in range(waiting)]
    promises = [_promise(run.name, None, 16) for run in waits]
    due = _promise("big", 0, runs[0].gpus_total)
    world = Snapshot(
        nodes=fleet,
        budgets=(org(1_000_000),),
        runs=(*runs, *waits),
        leases=tuple(leases),
        reservations=(due, *promises),
    )
    return world, due


def org(concurrency: int) -> Budget:
    return Budget(name="org", owner="org", envelopes=(Envelope(name="e", flavor=FLAVOR, concurrency=concurrency),))


def _node(number: int) -> Node:
    domain = Domain("west", "a", f"d{number // ISLAND_NODES:03}")
    return Node(name=f"n{number:05}", domain=domain, flavor=FLAVOR, gpus=8)


def _run(name: str, gpus: int = 1, per_pod: int = 1, kind: str = "fixed") -> Run:
    width = Malleable(gpus_min=0, gpus_max=1, gpus_step=1, gpus_desired=1) if kind == "malleable" else None
    owner = "org" if name == "big" else f"org:team-{hash_free(name) % 30}"
    return Run(
        namespace="ns",
        name=name,
        uid=name,
        owner=owner,
        flavor=FLAVOR,
        gpus_total=gpus,
        gpus_per_pod=per_pod,
        malleable=width,
        opportunistic=kind == "filler",
    )


def hash_free(name: str) -> int:
    """The number in a name: owners must not depend on the process's hash seed."""
    return int(name[1:]) if name[1:].isdecimal() else 0


def _lease(run: str, node: str, kind: str, number: int) -> Lease:
    role = {"filler": Role.FILLER, "spare": Role.SPARE}.get(kind, Role.ACTIVE)
    return Lease(
        namespace="ns",
        name=f"l-{number}-0",
        owner=f"org:team-{number % 30}",
        run_name=run,
        run_uid=run,
        group=0,
        node=node,
        gpus=1,
        role=role,
        start_at=-3600,
        payer=PAYER,
        funding=FundingClass.SHARED,
    )


def _promise(name: str, start: int | None, gpus: int) -> Reservation:
    return Reservation(
        namespace="ns",
        name=name,
        uid=f"res-{name}",
        run_name=name,
        run_uid=name,
        gpus=gpus,
        payers=(PayerShare(payer=PAYER, gpus=gpus),),
        earliest_start=start,
        created_at=-60,
    )
