"""Any permutation of the inputs, and any hash seed, gives byte-equal output (section 5)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from random import Random

from hypothesis import given

from kubectl_runs.wire.decision import decision_json
from planner.admit import Fit, fit
from planner.digest import digest
from planner.model import Budget, Run, Snapshot
from planner.plan import plan_run
from planner.world import World
from tests.properties.history import committed
from tests.properties.strategies import HOUR, SEEDS, cases

NOW = 0
ROOT = Path(__file__).parents[2]
WORLDS_EACH = 4  # of a seed: a whole plan has forecasts and remedies too
SEEDS_HASHED = 50


def lived_in(seed: int) -> Iterator[tuple[Snapshot, Run]]:
    """A few worlds in which the first runs of a case hold leases, each with the run that asks next."""
    for case in islice(cases(seed), WORLDS_EACH):
        snapshot = case.snapshot
        for run in case.runs[:2]:
            answer = fit(World.of(snapshot, NOW), run)
            if isinstance(answer, Fit):
                snapshot = committed(snapshot, run, answer, NOW)
        yield snapshot, case.runs[2]


def shuffled(snapshot: Snapshot, random: Random) -> Snapshot:
    """The same facts in another order."""

    def mixed(items: tuple[object, ...]) -> tuple[object, ...]:
        return tuple(random.sample(items, len(items)))

    budgets = tuple(_mixed_budget(budget, random) for budget in snapshot.budgets)
    changed = replace(snapshot, budgets=budgets)
    fields = ("nodes", "pods", "budgets", "runs", "leases", "reservations", "entries")
    return replace(changed, **{field: mixed(getattr(changed, field)) for field in fields})  # type: ignore[arg-type]


def _mixed_budget(budget: Budget, random: Random) -> Budget:
    envelopes = tuple(random.sample(budget.envelopes, len(budget.envelopes)))
    caps = tuple(replace(cap, envelopes=cap.envelopes[::-1]) for cap in budget.caps[::-1])
    return replace(budget, envelopes=envelopes, caps=caps)


def answer_of(snapshot: Snapshot, run: Run) -> str:
    return repr(decision_json(plan_run(snapshot, run, NOW + HOUR // 2)))


@given(SEEDS)
def test_order_of_the_inputs_changes_no_byte(seed: int) -> None:
    for number, (snapshot, run) in enumerate(lived_in(seed)):
        mixed = shuffled(snapshot, Random(f"{seed}/{number}"))
        assert answer_of(snapshot, run) == answer_of(mixed, run), (snapshot, run)


def test_hash_seed_changes_no_byte() -> None:
    program = "from tests.properties.test_determinism import hashed; print(hashed())"
    digests = {
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(digests) == 1


def hashed() -> str:
    """One digest over the answers of many worlds."""
    return digest([answer_of(snapshot, run) for seed in range(SEEDS_HASHED) for snapshot, run in lived_in(seed)])
