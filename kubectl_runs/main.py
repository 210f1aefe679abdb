"""The entry point: which verb lives in which module, and what becomes of whatever a command ends with.

A command's module is imported only when it is invoked, so that `version` and help cost nothing of what `submit`
needs. Decides exit codes and how errors are worded on stderr; the commands decide everything else.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from typing import NamedTuple

from kubectl_runs import errors

PROGRAM = "kubectl runs"
ABOUT = "Plan and run GPU work: who pays, where it runs, who yields, and why."


FORMATS = ("table", "wide", "json", "yaml", "name")
COLORS = ("auto", "always", "never")
COMPLETE = "__complete"  # how shells, and kubectl through kubectl_complete-runs, ask what may come next


class Verb(NamedTuple):
    """One command: its module under `commands` (a `command` function or, for a group, an `app`) and its help."""

    name: str
    help: str
    module: str = ""  # where it differs from the name

    @property
    def path(self) -> str:
        return f"kubectl_runs.commands.{(self.module or self.name).replace('-', '_')}"


SECTIONS: dict[str, tuple[Verb, ...]] = {
    "Run work": (
        Verb("submit", "Plan a run, hold its GPUs and start its pods; or reserve"),
        Verb("plan", "Show what submit would do and why; changes nothing"),
        Verb("watch", "Follow a run until it ends"),
        Verb("list", "List runs with phase, width, payers and reason"),
        Verb("get", "Show one run, or several"),
        Verb("shrink", "Give up groups of a malleable run"),
        Verb("grow", "Widen a malleable run"),
        Verb("cancel", "End a run and free its GPUs"),
        Verb("logs", "Print what a run's pods wrote"),
    ),
    "Understand": (
        Verb("explain", "Tell what happened to a run, reservation or lease, and why"),
        Verb("who-pays", "Split GPUs and GPU-hours by payer"),
        Verb("budgets", "Show envelopes, use, headroom and the nearest limit"),
        Verb("sponsors", "Show who lends to whom; edit a run's sponsors"),
        Verb("leases", "Show who ran where, when, paid by whom, and why it ended"),
        Verb("reservations", "Show promises and when they start"),
        Verb("export", "Write chargeback rows"),
    ),
    "Operate": (
        Verb("resolve", "Activate a due reservation, or bring a budget back under its cap"),
        Verb("settle", "Close what has ended, finish what was begun, start what is due"),
        Verb("verify", "Check the ledger: chain, caps, conservation, draws"),
        Verb("doctor", "Look for missing labels, foreign pods, drift and missing policies"),
        Verb("snapshot", "Save the planning state to one file, or show one"),
        Verb("install", "Apply CRDs, policies and roles"),
    ),
    "Other": (
        Verb("sandbox", "Make and drive an embedded cluster; no Kubernetes needed"),
        Verb("completion", "Print or install shell completion"),
        Verb("version", "Print the version"),
    ),
}
VERBS = {verb.name: verb for verbs in SECTIONS.values() for verb in verbs}

# Processes that live long need the collector; for a short one its scans only cost (3 to 5 times at 100,000 leases).
LONG_LIVED = ("daemon", "watch")


def main(argv: Sequence[str] | None = None) -> None:
    """The console script: runs one command and leaves with its exit code."""
    gc.disable()
    args = sys.argv[1:] if argv is None else argv
    if os.path.basename(sys.argv[0]) == "kubectl_complete-runs":  # noqa: PTH119 - pathlib costs more than it says
        args = [COMPLETE, *args]
    code = run(args)
    code = _flush(code)
    sys.exit(code)


def run(args: Sequence[str]) -> int:
    """Runs one command line; whatever it raises becomes a message on stderr and an exit code (section 8)."""
    if args and args[0] == COMPLETE:
        from kubectl_runs.completing import answer

        sys.stdout.write(answer(args[1:]))
        return errors.DONE

    from typer import Abort, Exit
    from typer.exceptions import TyperException

    from kubectl_runs.cli import Group

    if args and args[0] in LONG_LIVED:
        gc.enable()
    try:
        group = Group()
        with group.make_context(PROGRAM, _words(args)) as context:
            group.invoke(context)
        return errors.DONE
    except Exit as ended:
        return ended.exit_code
    except (KeyboardInterrupt, Abort):
        return errors.INTERRUPTED
    except BrokenPipeError:
        return _silence()
    except TyperException as wrong:
        return _report(_usage(wrong, args))
    except errors.RunsError as error:
        return _report(error)
    except Exception as error:
        if _verbose(args) and not _is_from_store(error):
            raise
        return _report(_in_words(error))


def _words(args: Sequence[str]) -> list[str]:
    """Nothing at all asks for help, `help VERB` is the same as `VERB --help`, and flags stand after the verb."""
    if not args or args[0] == "help":
        return [*args[1:], "--help"]
    if args[0] == "--version":
        return ["version", *args[1:]]
    if args[0].startswith("-") and args[0] not in ("-h", "--help"):
        verb = next((word for word in args if word in VERBS), "COMMAND")
        raise errors.UsageError("flags stand after the command", hint=f"{PROGRAM} {verb} {args[0]} ...")
    return list(args)


def _usage(wrong: Exception, args: Sequence[str]) -> errors.RunsError:
    """typer's own complaints, in our words' style."""
    context = getattr(wrong, "ctx", None)
    message = " ".join(str(wrong.format_message()).split()).rstrip(".")  # type: ignore[attr-defined]
    verb = f" {args[0]}" if args and args[0] in VERBS else ""
    hint = f"{context.command_path if context else PROGRAM + verb} --help"
    return errors.UsageError(message[:1].lower() + message[1:], hint=hint, exit_code=getattr(wrong, "exit_code", 2))


def _verbose(args: Sequence[str]) -> bool:
    return "-v" in args or "--verbose" in args


def _is_from_store(error: Exception) -> bool:
    from kubectl_runs.store.protocol import StoreError

    return isinstance(error, StoreError)


def _in_words(error: Exception) -> errors.RunsError:
    """A store's error that no command put in better words; anything else is a fault of ours, and is called so."""
    from kubectl_runs.store.protocol import NO_SUCH_KIND, NotFound, StoreError, Unknown

    if not isinstance(error, StoreError):
        words = f"internal error: {type(error).__name__}: {error}"
        return errors.RunsError(words, hint="the same with -v shows where; please report it")
    if isinstance(error, NotFound) and error.message == NO_SUCH_KIND:
        return errors.RunsError("the cluster does not know our kinds", hint=f"{PROGRAM} install")
    if isinstance(error, Unknown):
        return errors.OutcomeUnknown(f"no reply, the outcome is unknown: {error.message}")
    return errors.RunsError(error.message, hint=str(error.details.get("hint", "")))


def _report(error: errors.RunsError) -> int:
    from kubectl_runs.text import clean, clean_lines

    lines = [f"error: {clean(error.message)}\n"]
    if error.detail:
        lines.append(clean_lines(error.detail.rstrip("\n")) + "\n")
    if error.hint:
        lines.append(f"\nhint: {clean(error.hint)}\n")
    sys.stdout.flush()
    sys.stderr.write("".join(lines))
    return error.exit_code


def _flush(code: int) -> int:
    try:
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        return _silence()


def _silence() -> int:
    """The reader has gone: say nothing, also not at the interpreter's end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return errors.FAILED
