"""The command line as a process and as a whole: what it loads, exit codes, flags, streams, signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kubectl_runs.cli import load
from kubectl_runs.flags import BARE, COMMON, fill_bare
from kubectl_runs.main import SECTIONS, VERBS
from tests.docs_examples import captured, in_folder

FILES = Path(__file__).parent / "golden" / "files"
HEAVY = {"kubernetes", "pydantic", "rich", "asyncio", "yaml", "requests"}


def process(*args: str, **more: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kubectl_runs", *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, **more)  # type: ignore[call-overload, no-any-return]


def loaded(*args: str) -> set[str]:
    """Top-level modules that a command imports."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "kubectl_runs", *args], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")]
    return {name.partition(".")[0] for name in lines}


@pytest.mark.parametrize("args", [("version",), ("--help",), ("plan", "--help"), ("__complete", "s")])
def test_light_commands_load_nothing_heavy(args: tuple[str, ...]) -> None:
    assert loaded(*args) & HEAVY == set()


def test_completion_of_verbs_does_not_even_load_typer() -> None:
    assert "typer" not in loaded("__complete", "s")


def test_reading_a_file_loads_yaml_and_nothing_heavier() -> None:
    args = (
        "plan",
        "-f",
        str(FILES / "train.yaml"),
        "--from",
        str(FILES / "snapshot.yaml"),
        "--now",
        "2026-01-05T12:00:00Z",
    )
    assert loaded(*args, "-o", "json") & HEAVY == {"yaml"}


def test_list_on_a_cluster_loads_neither_the_planner_nor_anything_heavy(tmp_path: Path) -> None:
    """`list` has to be about as quick as `kubectl get`; nobody answers here, but everything it needs is loaded."""
    config = tmp_path / "config"
    cluster = {"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}
    context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
    user = {"name": "u", "user": {"token": "t"}}
    parts = {"clusters": [cluster], "contexts": [context], "users": [user], "current-context": "x"}
    config.write_text(json.dumps(parts))
    command = [sys.executable, "-X", "importtime", "-m", "kubectl_runs", "list", "--kubeconfig", str(config)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    names = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert done.returncode == 1
    assert "kubectl_runs.overview" in names
    assert {name.partition(".")[0] for name in names} & {"kubernetes", "pydantic", "rich", "asyncio"} == set()
    assert {name for name in names if name.partition(".")[0] == "planner"} <= {"planner", "planner.values"}


@pytest.mark.parametrize("verb", list(VERBS))
def test_every_verb_has_a_module_with_help_examples_and_the_common_flags(verb: str) -> None:
    command = load(verb)
    inner = getattr(command, "commands", None)
    assert "Examples:" in (command.help or "")
    for each in inner.values() if inner else [command]:
        assert "Examples:" in (each.help or ""), each.name
        assert set(COMMON) <= {param.name for param in each.params}, each.name


def test_verbs_are_those_of_the_design() -> None:
    wanted = (
        "submit plan explain watch list get shrink grow cancel sponsors who-pays budgets leases reservations resolve "
        "verify export doctor snapshot settle logs install sandbox completion version"
    )
    assert set(wanted.split()) == set(VERBS)
    assert sum(map(len, SECTIONS.values())) == len(VERBS)


def test_unknown_verb_names_the_nearest_and_exits_2() -> None:
    code, out, err = captured(["explian", "x"])
    assert (code, out) == (2, "")
    assert err == 'error: unknown command "explian" for "kubectl runs"\n\nhint: kubectl runs explain --help\n'


@pytest.mark.parametrize(
    ("args", "message", "hint"),
    [
        (["sandbox", "int"], 'unknown command "int" for "kubectl runs sandbox"', "kubectl runs sandbox init --help"),
        (["sponsors", "x"], 'unknown command "x" for "kubectl runs sponsors"', "kubectl runs sponsors --help"),
        (["sponsors"], "missing command", "kubectl runs sponsors --help"),
        (["list", "-o"], "option '-o' requires an argument", "kubectl runs list --help"),
    ],
)
def test_wrong_words_exit_2_with_the_help_that_is_nearest(args: list[str], message: str, hint: str) -> None:
    assert captured(args) == (2, "", f"error: {message}\n\nhint: {hint}\n")


@pytest.mark.parametrize(
    ("args", "filled"),
    [
        (["--sandbox"], ["--sandbox=default"]),
        (["--sandbox", "-n", "x"], ["--sandbox=default", "-n", "x"]),
        (["--sandbox", "train"], ["--sandbox=default", "train"]),
        (["--sandbox", "./x"], ["--sandbox=./x"]),
        (["--sandbox", "x.db", "train"], ["--sandbox=x.db", "train"]),
        (["--sandbox=x"], ["--sandbox=x"]),
        (["--wait", "train"], ["--wait=running", "train"]),
        (["--wait=end"], ["--wait=end"]),
        (["--dry-run", "--", "--wait"], ["--dry-run=client", "--", "--wait"]),
    ],
)
def test_flags_may_leave_out_their_value(args: list[str], filled: list[str]) -> None:
    assert fill_bare(args, set(BARE)) == filled


def test_flag_that_is_no_valued_flag_of_the_command_stays() -> None:
    assert fill_bare(["--dry-run", "x"], {"--sandbox"}) == ["--dry-run", "x"]


@pytest.mark.parametrize("args", [["-n", "team"], ["-nteam"], ["--namespace=team"], ["--namespace", "team"]])
def test_namespace_flag_is_read_in_every_spelling(args: list[str], tmp_path: Path) -> None:
    with in_folder(tmp_path, sandbox=False):
        code, _, err = captured(["list", *args, "--from", str(FILES / "snapshot.yaml")])
    assert code == 0
    assert err == "No resources found in team namespace.\n"


def test_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    """EPIPE is silent: `kubectl runs … | head -1`."""
    read, write = os.pipe()
    os.close(read)
    args = [sys.executable, "-m", "kubectl_runs", "snapshot", "show", str(FILES / "snapshot.yaml"), "-o", "yaml"]
    done = subprocess.run(args, stdout=write, stderr=subprocess.PIPE, text=True, timeout=60)
    os.close(write)
    assert done.stderr == ""
    assert done.returncode == 1


def test_interrupt_exits_130_without_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("kubectl_runs.overview.read", interrupted)
    assert captured(["list", "--from", str(FILES / "snapshot.yaml")]) == (130, "", "")


def test_watch_on_a_terminal_draws_a_tree_and_gives_the_cursor_back(tmp_path: Path) -> None:
    """A real terminal: the tree is there, Ctrl-C ends it with 130, and the cursor is shown again."""
    import pexpect

    run = (
        (FILES / "train.yaml")
        .read_text()
        .replace("totalGPUs: 24", "totalGPUs: 16")
        .replace("duration: 4h", "duration: 400h")
    )
    (tmp_path / "train.yaml").write_text(run)
    env = {
        **os.environ,
        "KUBECTL_RUNS_SANDBOX": str(tmp_path / "s.db"),
        "TERM": "xterm",
        "NO_COLOR": "1",
        "COLUMNS": "120",
    }
    done = process("submit", "-f", str(tmp_path / "train.yaml"), env=env)
    assert done.returncode == 0, done.stderr
    args = ["-m", "kubectl_runs", "watch", "train", "-n", "rai"]
    # A suite in the background ignores Ctrl-C and hands that on: the child listens again.
    child = pexpect.spawn(
        sys.executable,
        args,
        env=env,
        encoding="utf-8",
        timeout=30,
        dimensions=(30, 120),
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    child.expect("rai/train +Running +16/16 GPUs +\\[####################\\]")
    child.expect("└─ group 0 +16 GPUs +rai/h100 +owned +active +open")
    child.sendintr()
    child.expect("\\x1b\\[\\?25h")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 130


def test_fault_of_ours_is_called_so_and_shown_with_v(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("spec")

    monkeypatch.setattr("kubectl_runs.overview.read", broken)
    code, out, err = captured(["list", "--from", str(FILES / "snapshot.yaml")])
    assert (code, out) == (1, "")
    assert err.startswith("error: internal error: KeyError: 'spec'\n\nhint: ")
    with pytest.raises(KeyError):
        captured(["list", "-v", "--from", str(FILES / "snapshot.yaml")])


def test_errors_go_to_stderr_and_data_to_stdout() -> None:
    done = process("list", "--from", "no-such-file.yaml")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "error: no-such-file.yaml: no such file or directory\n"


def test_hostile_names_reach_the_terminal_harmless(tmp_path: Path) -> None:
    text = (FILES / "snapshot.yaml").read_text().replace("us-west", '"us\\e[2J\\u202Ewest"')
    (tmp_path / "bad.yaml").write_text(text)
    code, out, _ = captured(["snapshot", "show", str(tmp_path / "bad.yaml")])
    assert code == 0
    assert "us[2Jwest/a/d1" in out
    assert "\x1b" not in out
    _, out, _ = captured(["snapshot", "show", str(tmp_path / "bad.yaml"), "-o", "yaml"])
    assert out.isascii()
    assert "\x1b" not in out


@pytest.mark.parametrize(("name", "code"), [("train", 0), ("too-wide", 1)])
def test_whole_example_of_the_design_comes_out(name: str, code: int) -> None:
    """`message`, `trace` and `digest` are ours to word; all else is determined."""
    args = ["plan", "-f", str(FILES / f"{name}.yaml"), "--from", str(FILES / "snapshot.yaml")]
    got, out, _ = captured([*args, "--now", "2026-01-05T12:00:00Z", "-o", "json"])
    answer, wanted = json.loads(out), json.loads((FILES / f"{name}.json").read_text())
    assert got == code
    assert list(answer) == list(wanted)
    for key in wanted:
        if key not in ("message", "trace", "digest"):
            assert answer[key] == wanted[key], key
