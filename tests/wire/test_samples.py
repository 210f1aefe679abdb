"""Strict validation without a server says to every sample what the API server says (tests/cluster/test_crds.py)."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from kubectl_runs.errors import WireError
from kubectl_runs.wire import decode
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


NAMESPACE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": "default", "annotations": {"rq.davidlangworthy.io/owner": "org:ai:rai"}},
}


def in_a_file(sample: Sample) -> bool:
    """A file's reader is strict about specs, lenient about status and template, and calls a misshapen entry void."""
    kind = sample.documents[0]["kind"]
    problems = validate(kind, sample.documents[0])
    about_spec = all(
        problem.path.startswith("spec") and "template" not in problem.path and "container" not in problem.message
        for problem in problems
    )
    return len(sample.documents) == 1 and kind not in ("LedgerEntry", "Ledger") and about_spec


@pytest.mark.parametrize(
    "sample", [sample for sample in invalid() if in_a_file(sample)], ids=lambda sample: sample.name
)
def test_invalid_sample_is_refused_in_a_file_too(sample: Sample) -> None:
    with pytest.raises(WireError):
        decode.snapshot([NAMESPACE, deepcopy(sample.documents[0])], strict=True)


@pytest.mark.parametrize("sample", valid(), ids=lambda sample: sample.name)
def test_valid_sample_is_read_from_a_file(sample: Sample) -> None:
    decode.snapshot([NAMESPACE, deepcopy(sample.documents[-1])], strict=True)


def test_every_rule_has_an_invalid_sample() -> None:
    messages = {(resource.kind.name, rule.message) for resource in RESOURCES for rule in resource.rules}
    shown = {(sample.documents[-1]["kind"], sample.refused) for sample in invalid()}
    assert messages - shown == set()


def test_every_kind_has_a_valid_sample() -> None:
    assert {sample.documents[0]["kind"] for sample in valid()} == {resource.kind.name for resource in RESOURCES}
