"""The docs are true: generated pages match the code, links lead somewhere, and every command line shown parses."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.generate import decisions, pages

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
PROGRAM = re.compile(r"^\$? ?(?:kubectl runs|kubectl-runs|\.venv/bin/kubectl-runs) (.*)$")
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def test_generated_pages_match_the_commands() -> None:
    stale = [name for name, text in pages().items() if not _same(ROOT / "docs" / "cli" / name, text)]
    assert stale == [], "run `make docs`"


def test_index_of_decisions_lists_every_page() -> None:
    assert _same(ROOT / "docs" / "decisions" / "README.md", decisions()), "run `make docs`"


def test_decision_has_the_number_of_its_file() -> None:
    pages = (ROOT / "docs" / "decisions").glob("[0-9]*.md")
    assert [page.name for page in pages if not page.read_text().startswith(f"# {page.name[:4]}: ")] == []


def test_commit_page_has_every_sentence_that_code_cites_and_names_modules_that_exist() -> None:
    page = (ROOT / "docs" / "concepts" / "commit.md").read_text()
    code = [path.read_text() for path in (ROOT / "kubectl_runs").rglob("*.py")]
    cited = {number for text in code for number in re.findall(r"(?<![\d.])6\.[1-9](?![\d.])", text)}
    assert sorted(number for number in cited if f"\n## {number} " not in page) == []
    named = re.findall(r"`((?:commit|wire)/\w+)`", page)
    assert [name for name in named if not (ROOT / "kubectl_runs" / f"{name}.py").exists()] == []


def _same(path: Path, text: str) -> bool:
    return path.exists() and path.read_text() == text


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    pages = [path for folder in ("concepts", "user-guide") for path in (ROOT / "docs" / folder).glob("*.md")]
    assert [path.name for path in pages if f"({path.parent.name}/{path.name})" not in index] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(document: Path) -> None:
    links = [link for link in LINK.findall(document.read_text()) if not link.startswith(("http:", "https:"))]
    assert [link for link in links if not (document.parent / link).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_command_lines_shown_are_valid(document: Path) -> None:
    """Parsed by the real command with its real flags, not run: the guides' own tests run them."""
    wrong = []
    for line in command_lines(document.read_text()):
        try:
            parse(line)
        except Exception as error:
            wrong.append(f"{line}: {error}")
    assert wrong == []


def command_lines(text: str) -> Iterator[str]:
    """Lines of code blocks, fenced or indented, that call us; up to a pipe, a redirection or a comment."""
    fenced = False
    for line in text.replace("\\\n", " ").splitlines():
        if line.lstrip().startswith("```"):
            fenced = not fenced
        found = PROGRAM.match(line.strip()) if fenced or line.startswith("    ") else None
        if found:
            yield re.split(r"\s(?:\||>|>>|&&|;|2>)\s", found.group(1))[0]


def parse(line: str) -> None:
    from kubectl_runs.cli import load

    verb, *rest = shlex.split(line, comments=True)
    if verb.startswith("-") or "…" in line or "..." in line or "[" in line:
        return  # usage lines, not examples
    command = load(verb)
    words = verb
    subcommands = getattr(command, "commands", {})
    while subcommands and rest and rest[0] in subcommands:
        command, words, rest = subcommands[rest[0]], f"{words} {rest[0]}", rest[1:]
        subcommands = getattr(command, "commands", {})
    command.make_context(words, rest).close()
