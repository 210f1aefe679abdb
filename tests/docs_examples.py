"""Runs the examples of documentation pages, so that no page shows what the product does not do.

In a page, every ```console block holds commands (`$ kubectl runs …`) followed by what they print: stdout, then stderr.
A line `...` stands for any lines. `$ echo $?` shows the exit code of the command before. All blocks of a page run in
order, in one empty folder, with an own sandbox (`KUBECTL_RUNS_SANDBOX` is set for pages with `<!-- sandbox -->`).

Comments before a block say what is not shown:

    <!-- file: train.yaml -->        the next block is also written to that file
    <!-- copy: tests/golden/x.yaml -->   a file of the repository is put into the folder
    <!-- setup: kubectl runs … -->   a command that runs without being shown
    <!-- skip: needs a cluster -->   the next console block is not run

`DOCS_UPDATE=1 pytest tests/test_docs_examples.py` writes what really came out into the pages; look at the difference.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROMPT = "$ "
COMMENT = re.compile(r"<!--\s*(file|copy|setup|skip|sandbox)\s*:?\s*(.*?)\s*-->")


@dataclass
class Outcome:
    code: int
    text: str


@dataclass
class Example:
    """One command of a page, what the page says it prints, and where that stands."""

    command: str
    expected: list[str]
    first_line: int  # of the expected output, from 0
    skipped: bool


@dataclass
class Page:
    path: Path
    examples: list[Example] = field(default_factory=list)
    steps: list[tuple[str, str]] = field(default_factory=list)  # what to do, in order
    sandbox: bool = False


def parse(path: Path) -> Page:
    """The steps of a page: files, hidden commands and examples, in order."""
    page = Page(path)
    pending: list[tuple[str, str]] = []
    lines = path.read_text().splitlines()
    number = 0
    while number < len(lines):
        line = lines[number]
        if comment := COMMENT.match(line.strip()):
            pending.append((comment[1], comment[2]))
        elif line.startswith("```"):
            end = next(i for i in range(number + 1, len(lines)) if lines[i].startswith("```"))
            _block(page, line[3:].strip(), lines, number + 1, end, pending)
            pending = []
            number = end
        elif line.strip():
            _notes(page, pending)
            pending = []
        number += 1
    _notes(page, pending)
    return page


def _notes(page: Page, pending: list[tuple[str, str]]) -> None:
    for word, value in pending:
        if word == "sandbox":
            page.sandbox = True
        elif word in ("copy", "setup"):
            page.steps.append((word, value))


def _block(page: Page, language: str, lines: list[str], start: int, end: int, pending: list[tuple[str, str]]) -> None:
    _notes(page, pending)
    words = dict(pending)
    if "file" in words:
        page.steps.append(("file", words["file"] + "\n" + "\n".join(lines[start:end]) + "\n"))
    if language != "console":
        return
    for number in range(start, end):
        if lines[number].startswith(PROMPT):
            stop = next((i for i in range(number + 1, end) if lines[i].startswith(PROMPT)), end)
            example = Example(lines[number][len(PROMPT) :], lines[number + 1 : stop], number + 1, "skip" in words)
            page.steps.append(("example", str(len(page.examples))))
            page.examples.append(example)


def run_page(path: Path, folder: Path) -> list[str]:
    """Runs a page in an empty folder; what differs, in words. With DOCS_UPDATE set the page is corrected instead."""
    page = parse(path)
    wrong: list[str] = []
    corrections: list[tuple[Example, list[str]]] = []
    last = Outcome(0, "")
    with in_folder(folder, sandbox=page.sandbox):
        for word, value in page.steps:
            if word != "example":
                _prepare(word, value)
                continue
            example = page.examples[int(value)]
            if example.skipped:
                continue
            last = Outcome(last.code, f"{last.code}\n") if example.command == "echo $?" else run(example.command)
            actual = last.text.splitlines()
            if not matches(example.expected, actual):
                wrong.append(_difference(page, example, actual))
                corrections.append((example, actual))
    if corrections and os.environ.get("DOCS_UPDATE"):
        _correct(page, corrections)
        return []
    return wrong


def _prepare(word: str, value: str) -> None:
    if word == "copy":
        shutil.copy(ROOT / value, Path(value).name)
    elif word == "file":
        name, _, text = value.partition("\n")
        Path(name).write_text(text)
    else:
        outcome = run(value)
        assert outcome.code == 0, f"setup {value!r} ended with {outcome.code}: {outcome.text}"


def run(command: str) -> Outcome:
    """One command line, in this process: `kubectl runs … [< FILE]`, `cat FILE`, or `rm FILE`."""
    words = shlex.split(command, comments=True)
    stdin = ""
    if "<" in words:
        stdin = Path(words[words.index("<") + 1]).read_text()
        words = words[: words.index("<")]
    if words[:1] == ["cat"]:
        return Outcome(0, "".join(Path(name).read_text() for name in words[1:]))
    assert words[:2] == ["kubectl", "runs"], f"only `kubectl runs` examples can be run, not {command!r}"
    return invoke(words[2:], stdin=stdin)


def invoke(args: list[str], *, stdin: str = "") -> Outcome:
    """The CLI on these arguments: exit code, and stdout followed by stderr."""
    code, out, err = captured(args, stdin=stdin)
    return Outcome(code, out + err)


def captured(args: list[str], *, stdin: str = "") -> tuple[int, str, str]:
    """Exit code, stdout and stderr of the CLI on these arguments, as in a pipe."""
    from kubectl_runs.main import run as cli

    out, err = _Stream(), _Stream()
    old = sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8")
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = cli(args)
    finally:
        sys.stdin = old
    return code, out.getvalue(), err.getvalue()


class _Stream(io.StringIO):
    encoding = "utf-8"


def matches(expected: list[str], actual: list[str]) -> bool:
    """Line by line; `...` stands for any lines. Blanks at ends of lines and of the output do not count."""
    want = [line.rstrip() for line in expected]
    got = [line.rstrip() for line in actual]
    while want and not want[-1]:
        want.pop()
    while got and not got[-1]:
        got.pop()
    return _matches(want, got)


def _matches(want: list[str], got: list[str]) -> bool:
    if not want:
        return not got
    if want[0].strip() == "...":
        return any(_matches(want[1:], got[start:]) for start in range(len(got) + 1))
    return bool(got) and want[0] == got[0] and _matches(want[1:], got[1:])


@contextlib.contextmanager
def in_folder(folder: Path, *, sandbox: bool) -> Iterator[None]:
    """An empty folder, no cluster, no colours, a fixed width."""
    settings = {
        "KUBECONFIG": str(folder / "no-kubeconfig"),
        "HOME": str(folder),
        "XDG_DATA_HOME": str(folder),
        "NO_COLOR": "1",
        "COLUMNS": "100",
        "TZ": "UTC",
    }
    if sandbox:
        settings["KUBECTL_RUNS_SANDBOX"] = str(folder / "sandbox.db")
    before, here = dict(os.environ), Path.cwd()
    os.environ.pop("KUBECTL_RUNS_SANDBOX", None)
    os.environ.update(settings)
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(here)
        os.environ.clear()
        os.environ.update(before)


def _difference(page: Page, example: Example, actual: list[str]) -> str:
    return "\n".join(
        [
            f"{page.path}:{example.first_line}: $ {example.command}",
            "the page says:",
            *example.expected,
            "it is:",
            *actual,
        ]
    )


def _correct(page: Page, corrections: list[tuple[Example, list[str]]]) -> None:
    lines = page.path.read_text().splitlines()
    for example, actual in sorted(corrections, key=lambda pair: -pair[0].first_line):
        lines[example.first_line : example.first_line + len(example.expected)] = actual
    page.path.write_text("\n".join(lines) + "\n")


def pages() -> list[Path]:
    """Every page with an example that can be run."""
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [path for path in found if path.exists() and "```console" in path.read_text()]
