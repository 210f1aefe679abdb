"""What a command does besides its own work: finish what others began, close what has ended, start what is due.

A command closes what its own work needs, and at most 20 other runs after it (6.5). What it has no right to is left to
whoever has; nothing here is ever needed for safety.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from kubectl_runs.commit.base import advance, is_unfinished
from kubectl_runs.commit.life import Stage, life
from kubectl_runs.commit.over import over
from kubectl_runs.commit.roll_forward import Rolled
from kubectl_runs.commit.settle import Settled, roll_entry, settle_run
from kubectl_runs.commit.start import Begun, begin, planned
from kubectl_runs.commit.steps import Means, Steps, all_of
from kubectl_runs.errors import RunsError
from kubectl_runs.read import Reading, read
from kubectl_runs.store.protocol import Delete, Forbidden, StoreError
from kubectl_runs.wire.kinds import POD, RUN
from kubectl_runs.wire.pods import SCHEDULER_NAME
from planner.fold import open_leases, opened_leases
from planner.model import Pod, Verdict

OTHERS_MAX = 20
PATIENCE_SECONDS = 30  # an entry younger than this is probably being rolled forward by whoever appended it
ORPHAN_SECONDS = 15 * 60  # 6.3: a prepared pod that no entry or lease names, and that is older than this


@dataclass(slots=True, kw_only=True)
class Swept:
    """What was done, for people."""

    closed: list[str] = field(default_factory=list)  # keys of leases
    ended: list[str] = field(default_factory=list)
    started: list[str] = field(default_factory=list)  # keys of runs
    finished: list[int] = field(default_factory=list)  # entries rolled forward
    deleted: list[str] = field(default_factory=list)  # orphaned pods
    refused: list[str] = field(default_factory=list)  # what it had no right to

    @property
    def changed(self) -> bool:
        return bool(self.closed or self.ended or self.started or self.deleted)


def sweep(
    reading: Reading,
    means: Means,
    *,
    namespace: str = "",
    runs_max: int = OTHERS_MAX,
    skip: Iterable[str] = (),
    thorough: bool = True,
    freed: bool = False,
) -> Steps[Swept]:
    """Settle what this reading shows to be over, then start what is due. `namespace` limits it to one.

    A command that only passes by is not `thorough`: what others may be at work on right now it leaves to them. It
    starts what waits only where GPUs came free, by what it closed here or had `freed` before.
    """
    swept = Swept()
    reading = yield from _finish_entries(reading, swept, namespace, 0 if thorough else PATIENCE_SECONDS)
    left = set(skip)
    for key in [key for key in over(reading, namespace, thorough=thorough) if key not in left][:runs_max]:
        reading = yield from _settle(key, means, swept)
    if thorough or freed or swept.closed:
        reading = yield from start_due(
            reading, means, swept, namespace=namespace, runs_max=runs_max, only_fitting=not thorough
        )
    yield from _delete_orphans(reading, swept, namespace)
    return swept


def _settle(key: str, means: Means, swept: Swept) -> Steps[Reading]:
    """One run, from a reading that holds all its leases."""
    reading = yield from read(runs=(key,))
    run = reading.run(key)
    if run is None:
        return reading
    try:
        settled: Settled = yield from settle_run(reading, run, means)
    except Forbidden as error:
        swept.refused.append(f"run {key}: {error.message}")
        return reading
    swept.closed += settled.closed
    swept.ended += settled.ended
    reading = settled.reading
    if settled.life.stage is Stage.AGAIN:
        # S3: each new try is begun by an entry only when every lease of the last one is closed.
        yield from _start(key, reading, means, swept)
    return reading


def _finish_entries(reading: Reading, swept: Swept, namespace: str, patience: int) -> Steps[Reading]:
    """6.5: roll forward whatever somebody left unfinished, in the order of the ledger."""
    rolled: dict[int, Rolled] = {}
    for entry in sorted(reading.snapshot.entries, key=lambda entry: entry.seq):
        if namespace and (entry.run is None or entry.run.namespace != namespace):
            continue
        if entry.created_at + patience <= reading.read_at and is_unfinished(entry, reading, {}):
            rolled[entry.seq] = yield from roll_entry(entry, reading)
            if not rolled[entry.seq].unfinished:
                swept.finished.append(entry.seq)
    yield from advance(reading, rolled)
    return (yield from read()) if rolled else reading


def start_due(
    reading: Reading,
    means: Means,
    swept: Swept,
    *,
    namespace: str = "",
    runs_max: int = OTHERS_MAX,
    only_fitting: bool = False,
) -> Steps[Reading]:
    """F1: reservations that fit now start, oldest first; one that nobody can pay yet keeps its place.

    `only_fitting` asks the planner first and leaves alone what would wait on: no promise is made anew.
    """
    from planner.world import World

    world = World.of(reading.snapshot, reading.now)
    standing = sorted(world.reservations, key=lambda made: (made.created_at, made.key))
    for made in [made for made in standing if not namespace or made.namespace == namespace][:runs_max]:
        if only_fitting and not _fits(made.run_key, reading):
            continue
        reading = yield from _start(made.run_key, reading, means, swept)
    return reading


def _fits(key: str, reading: Reading) -> bool:
    run = reading.run(key)
    return run is not None and planned(reading, run).verdict is Verdict.START


def _start(key: str, reading: Reading, means: Means, swept: Swept) -> Steps[Reading]:
    """Start one run that waits, if it fits."""
    known = reading.run(key)
    if known is None or known.canceled or known.deleting:
        return reading
    reading = yield from read(runs=(key,))
    run_object = reading.object(RUN, key)
    if run_object is None or not life(reading.snapshot, reading.run(key) or known).may_start:
        return reading
    try:
        begun: Begun = yield from begin(run_object, reading, means, planned)
    except (Forbidden, RunsError) as error:
        swept.refused.append(f"run {key}: {error.message}")
        return reading
    if begun.entry is not None and begun.decision is not None and begun.decision.verdict is Verdict.START:
        swept.started.append(key)
    return begun.reading


def _delete_orphans(reading: Reading, swept: Swept, namespace: str) -> Steps[None]:
    """6.3: prepared pods that no entry or lease names, over 15 minutes old, by UID."""
    doomed = [pod for pod in orphans(reading) if not namespace or pod.namespace == namespace]
    deletes = [Delete(kind=POD, name=pod.name, namespace=pod.namespace, uid=pod.uid) for pod in doomed]
    for pod, outcome in zip(doomed, (yield from all_of(deletes)), strict=True):
        if not isinstance(outcome, StoreError):
            swept.deleted.append(f"{pod.namespace}/{pod.name}")


def orphans(reading: Reading) -> Sequence[Pod]:
    """A pod so old can no longer be named by a new entry, which takes only pods of the last 10 minutes."""
    entries = [entry for entry in reading.snapshot.entries if not entry.void]
    leases = (*open_leases(reading.snapshot).values(), *opened_leases(entries))
    named = {lease.pod.uid for lease in leases if lease.pod is not None}
    return [
        pod
        for pod in reading.snapshot.pods
        if pod.run_uid
        and not pod.node
        and pod.uid not in named
        and reading.read_at - pod.created_at > ORPHAN_SECONDS
        and _is_prepared(reading, pod)
    ]


def _is_prepared(reading: Reading, pod: Pod) -> bool:
    found = reading.object(POD, f"{pod.namespace}/{pod.name}") or {}
    return (found.get("spec") or {}).get("schedulerName") == SCHEDULER_NAME
