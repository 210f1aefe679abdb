"""The manifests in docs/concepts/objects.md: those shown as good are, and the odd one gets the words on the page."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubectl_runs.wire.schema import validate
from kubectl_runs.wire.yaml import documents
from tests.docs_examples import parse

PAGE = parse(Path(__file__).parents[2] / "docs" / "concepts" / "objects.md")
FILES = dict(value.split("\n", 1) for word, value in PAGE.steps if word == "file")


@pytest.mark.parametrize("name", ["budget.yaml", "train.yaml"])
def test_manifest_on_the_page_is_valid(name: str) -> None:
    (manifest,) = documents(FILES[name], name)
    assert validate(manifest.value["kind"], manifest.value) == []


def test_odd_manifest_gets_the_words_on_the_page() -> None:
    (manifest,) = documents(FILES["odd.yaml"], "odd.yaml")
    (example,) = (each for each in PAGE.examples if "odd.yaml" in each.command)
    first, *_ = validate("Run", manifest.value)
    assert example.expected == [f'The Run "odd" is invalid: {first.path}: Invalid value: {first.message}']
