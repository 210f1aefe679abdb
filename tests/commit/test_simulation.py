"""The seeded simulation of section 6: what must hold holds after every write, and every mutant is noticed."""

from __future__ import annotations

import sys
import time

import pytest

from tests.commit import mutants
from tests.commit.simulation import Broken, Scene, changed_minds, crowd, scenario, simulate

SEEDS = range(24)
MUTANT_SEEDS = range(60)  # the first that notices ends the test


def test_protocol_under_crashes_and_lost_replies_keeps_every_invariant() -> None:
    began, steps = time.perf_counter(), 0
    for seed in SEEDS:
        try:
            steps += sum(simulate(seed, scene=scene).steps for scene in (scenario, crowd, changed_minds))
        except Broken as broken:
            raise AssertionError(f"seed {seed}: {broken}") from broken
    assert steps > 100 * len(SEEDS)
    sys.stderr.write(f"{steps} steps, {steps / (time.perf_counter() - began):.0f} steps/s\n")


def test_seed_replayed_takes_the_same_steps() -> None:
    assert simulate(7).history == simulate(7).history


@pytest.mark.parametrize("mutant", mutants.ALL, ids=lambda mutant: mutant.__name__)
def test_mutant_of_the_protocol_is_noticed(mutant: mutants.Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch.setattr)
    with pytest.raises((Broken, KeyError)):
        _simulate_all(mutants.ALL[mutant])


def _simulate_all(scene: Scene) -> None:
    for seed in MUTANT_SEEDS:
        simulate(seed, scene=scene)
