"""What comes next on a command line, by kubectl's plugin protocol."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from kubectl_runs.completing import answer
from tests.docs_examples import captured, in_folder

BUSY = str(Path(__file__).parent / "golden" / "files" / "busy.yaml")


def words(*typed: str) -> list[str]:
    return [line.partition("\t")[0] for line in answer(typed).splitlines()]


def test_verbs_come_first_with_their_help() -> None:
    assert words("wa") == ["watch", ":4"]
    assert (
        answer(["ver"])
        == "verify\tCheck the ledger: chain, caps, conservation, draws\nversion\tPrint the version\n:4\n"
    )
    assert len(words("")) > 20


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        (("snapshot", "s"), ["save", "show", ":4"]),
        (("list", "-o", "j"), ["json", ":4"]),
        (("list", "--color", ""), ["auto", "always", "never", ":4"]),
        (("watch", "x", "--ti"), ["--timeout", ":4"]),
        (("snapshot", "save", "--re"), ["--request-timeout", "--redact", ":4"]),
        (("plan", "-f", ""), [":0"]),
        (("completion", "b"), ["bash", ":4"]),
        (("version", ""), [":4"]),
    ],
)
def test_flags_values_and_subcommands_complete(typed: tuple[str, ...], found: list[str]) -> None:
    assert sorted(words(*typed)) == sorted(found)


def test_names_are_read_from_where_the_line_points_to() -> None:
    assert words("explain", "--from", BUSY, "-n", "rai", "") == ["big", "eval", "idea", "wide", ":4"]
    assert words("list", "--from", BUSY, "-n", "r") == ["rai", ":4"]


def test_whatever_goes_wrong_completes_nothing_and_says_nothing(tmp_path: Path) -> None:
    with in_folder(tmp_path, sandbox=False):
        assert captured(["__complete", "watch", ""]) == (0, ":4\n", "")
        assert captured(["__complete", "watch", "--from", "no.yaml", ""]) == (0, ":4\n", "")


def test_install_writes_the_helper_that_kubectl_asks(tmp_path: Path) -> None:
    code, out, _ = captured(["completion", "install", "--dir", str(tmp_path)])
    helper = tmp_path / "kubectl_complete-runs"
    assert code == 0
    assert str(helper) in out
    assert os.access(helper, os.X_OK)
    assert "kubectl-runs __complete" in helper.read_text()


def test_bash_script_is_bash() -> None:
    _, script, _ = captured(["completion", "bash"])
    assert subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True).returncode == 0
    assert captured(["completion", "tcsh"])[0] == 2
