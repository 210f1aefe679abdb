"""Strict validation without a server says to every sample what the API server says (tests/cluster/test_crds.py)."""

from __future__ import annotations

import pytest

from kubectl_runs.wire.schema import validate
from kubectl_runs.wire.schema.catalog import RESOURCES
from tests.wire.samples import Sample, invalid, valid


def problems(sample: Sample) -> list[list[str]]:
    """What is wrong with each document, the later ones as changes."""
    found, old = [], None
    for document in sample.documents:
        found.append([str(problem) for problem in validate(document["kind"], document, old)])
        old = document
    return found


@pytest.mark.parametrize("sample", valid(), ids=lambda sample: sample.name)
def test_valid_sample_has_no_problem(sample: Sample) -> None:
    assert problems(sample) == [[] for _ in sample.documents]


@pytest.mark.parametrize("sample", invalid(), ids=lambda sample: sample.name)
def test_invalid_sample_has_the_problem_it_names(sample: Sample) -> None:
    *before, last = problems(sample)
    assert not any(before)
    assert sample.refused, "an invalid sample says in its first line why it is refused"
    assert any(sample.refused in problem for problem in last), last


def test_every_rule_has_an_invalid_sample() -> None:
    messages = {(resource.kind.name, rule.message) for resource in RESOURCES for rule in resource.rules}
    shown = {(sample.documents[-1]["kind"], sample.refused) for sample in invalid()}
    assert messages - shown == set()


def test_every_kind_has_a_valid_sample() -> None:
    assert {sample.documents[0]["kind"] for sample in valid()} == {resource.kind.name for resource in RESOURCES}
