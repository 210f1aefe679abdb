"""The examples on pages under docs/ and in the README: every one is run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs_examples import ROOT, matches, pages, run_page


@pytest.mark.parametrize("page", pages(), ids=lambda path: str(path.relative_to(ROOT)))
def test_page_when_its_examples_run_shows_what_comes_out(page: Path, tmp_path: Path) -> None:
    wrong = run_page(page, tmp_path)
    assert not wrong, "\n\n".join(wrong)


def test_matches_ellipsis_stands_for_any_lines() -> None:
    assert matches(["a", "...", "d"], ["a", "b", "c", "d"])
    assert matches(["...", ""], [])
    assert not matches(["a", "...", "d"], ["a", "b"])
    assert not matches(["a"], ["a", "b"])


def test_run_page_whose_output_differs_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DOCS_UPDATE", raising=False)
    page = tmp_path / "page.md"
    page.write_text("```console\n$ kubectl runs version\nkubectl-runs 9\n$ echo $?\n0\n```\n")
    (wrong,) = run_page(page, tmp_path)
    assert "page.md:2: $ kubectl runs version" in wrong
    assert "kubectl-runs 9" in wrong
