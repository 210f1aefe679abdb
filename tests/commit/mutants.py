"""The protocol with one rule taken out, one mutant for each: the simulation has to notice every one of them.

Each is a function that patches the real modules; `patch(target, value)` is undone by the test.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from kubectl_runs.commit import append as append_module
from kubectl_runs.commit import base, closing, life, start, submit, sweep, touches
from kubectl_runs.commit.steps import Steps, try_one
from kubectl_runs.read import Reading
from kubectl_runs.store.protocol import AlreadyExists, Create, Get, Object, Reply, StoreError, Unknown
from kubectl_runs.wire.kinds import LEDGER_ENTRY
from tests.commit.simulation import Scene, crowd, scenario

Patch = Callable[[object, str, Any], None]
Mutant = Callable[[Patch], None]


def no_nonce(patch: Patch) -> None:
    """6.4: whatever is found under the number is taken for mine."""

    def create_once(body: Object, _nonce: str) -> Steps[Object | StoreError | None]:
        outcome = yield from try_one(Create(kind=LEDGER_ENTRY, object=body))
        if isinstance(outcome, Reply):
            return outcome.object
        found = yield from try_one(Get(kind=LEDGER_ENTRY, name=body["metadata"]["name"]))
        return found.object if isinstance(found, Reply) else outcome

    patch(append_module, "create_once", create_once)


def no_read_back(patch: Patch) -> None:
    """6.4: a lost reply is taken for a refusal, and the draft goes to the next number."""

    def create_once(body: Object, _nonce: str) -> Steps[Object | StoreError | None]:
        outcome = yield from try_one(Create(kind=LEDGER_ENTRY, object=body))
        if isinstance(outcome, Reply):
            return outcome.object
        return None if isinstance(outcome, AlreadyExists | Unknown) else outcome

    patch(append_module, "create_once", create_once)
    patch(append_module, "may_rebase", lambda *_: True)


def rebase_always(patch: Patch) -> None:
    """6.4: nothing that came between touches anything."""
    patch(append_module, "may_rebase", lambda *_: True)


def rebase_over_own_run(patch: Patch) -> None:
    """Race 1: touches without the run."""
    whole = touches.footprint

    def footprint(decision: Any, around: Any) -> frozenset[tuple[str, ...]]:
        return frozenset(mark for mark in whole(decision, around) if mark[0] not in ("run", "envelope", "cap", "node"))

    patch(touches, "footprint", footprint)


def rebase_without_caps(patch: Patch) -> None:
    """6.4: touches without envelopes and aggregate caps."""
    whole = touches.footprint

    def footprint(decision: Any, around: Any) -> frozenset[tuple[str, ...]]:
        return frozenset(mark for mark in whole(decision, around) if mark[0] not in ("envelope", "cap"))

    patch(touches, "footprint", footprint)


def entries_ignored(patch: Patch) -> None:
    """6.1: planning from leases alone."""

    def planned(reading: Reading, run: Any) -> Any:
        from planner.plan import plan_run

        return plan_run(dataclasses.replace(reading.snapshot, entries=()), run, reading.now)

    patch(submit, "planned", planned)
    patch(sweep, "planned", planned)


def base_before_leases(patch: Patch) -> None:
    """6.8: base passes entries whose leases nobody has written, and keeps nothing pending."""
    patch(base, "is_unfinished", lambda *_: False)


def settled_twice(patch: Patch) -> None:
    """6.8: the effect of an entry on base is counted twice."""
    whole = base._settle

    def twice(sums: Any, entry: Any) -> None:
        whole(sums, entry)
        whole(sums, entry)

    patch(base, "_settle", twice)


def free_before_gone(patch: Patch) -> None:
    """6.6: a lease that was ended is closed while its pod still runs."""
    whole = closing._gone

    def gone(lease: Any, reading: Reading, pods: Any, ends: Any) -> Any:
        if lease.key in ends:
            return closing.Gone(lease=lease, reason=ends[lease.key])
        return whole(lease, reading, pods, ends)

    patch(closing, "_gone", gone)


def starts_again(patch: Patch) -> None:
    """6.7, race 5: a run starts whether or not it has had this attempt."""

    class Reckless(life.Life):
        @property
        def may_start(self) -> bool:
            return self.stage is not life.Stage.HOLDS or self.attempt == 1

    def lives(snapshot: Any, run: Any) -> Any:
        found = whole(snapshot, run)
        values = {field.name: getattr(found, field.name) for field in dataclasses.fields(found)}
        return Reckless(**{**values, "attempt": 1})

    whole = life.life
    for module in (start, submit):
        patch(module, "life", lives)


# Where each is noticed soonest: among clients that do all sorts of things, or in a crowd of submits.
ALL: dict[Mutant, Scene] = {
    no_nonce: crowd,
    no_read_back: scenario,
    rebase_always: scenario,
    rebase_over_own_run: scenario,
    rebase_without_caps: crowd,
    entries_ignored: scenario,
    base_before_leases: scenario,
    settled_twice: scenario,
    free_before_gone: scenario,
    starts_again: scenario,
}
