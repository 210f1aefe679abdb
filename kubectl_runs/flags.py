"""The flags that every command has (section 8), added once.

`@with_session` turns a plain function `(session, ...own parameters) -> exit code` into a typer command: it adds the
common flags, opens a `Session` from them and passes it on. Flags stand after the verb, as kubectl wants. What each
flag does is decided in `session`.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from kubectl_runs.main import COLORS, FORMATS
from planner.values import dataclass

# Flags whose value may be left out, and what they then mean. As in kubectl the value is joined with `=`; only the
# sandbox's file may also be the next word, if it looks like a file (see `_is_file`).
BARE = {"--sandbox": "", "--dry-run": "client", "--wait": "running"}
DEFAULT_SANDBOX = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """What was given for the common flags, unread."""

    namespace: str | None = None
    all_namespaces: bool = False
    context: str | None = None
    kubeconfig: str | None = None
    as_user: str | None = None
    as_groups: tuple[str, ...] = ()
    request_timeout: str | None = None
    output: str = "table"
    source: str | None = None
    now: str | None = None
    sandbox: str | None = None
    color: str = "auto"
    no_hints: bool = False
    verbose: int = 0


def _option(*names: str, help: str, metavar: str | None = None, **more: Any) -> Any:  # noqa: A002
    return typer.Option(*names, help=help, metavar=metavar, show_default=False, **more)


COMMON: dict[str, tuple[Any, Any]] = {
    "namespace": (str | None, _option("-n", "--namespace", metavar="NAME", help="Namespace (default: the context's)")),
    "all_namespaces": (bool, _option("-A", "--all-namespaces", help="All namespaces")),
    "context": (str | None, _option("--context", metavar="NAME", help="Context of the kubeconfig")),
    "kubeconfig": (str | None, _option("--kubeconfig", metavar="FILE", help="Kubeconfig file (default: as kubectl)")),
    "as_user": (str | None, _option("--as", metavar="USER", help="Act as this user")),
    "as_groups": (list[str] | None, _option("--as-group", metavar="GROUP", help="Act as this group; may be repeated")),
    "request_timeout": (str | None, _option("--request-timeout", metavar="DURATION", help="Give up on one request")),
    "output": (str, _option("-o", "--output", metavar="|".join(FORMATS), help="Output format")),
    "source": (str | None, _option("--from", metavar="FILE", help="Read a snapshot file instead of a cluster")),
    "now": (str | None, _option("--now", metavar="TIME", help="With --from: the time it is, as 2026-01-05T12:00:00Z")),
    "sandbox": (
        str | None,
        _option("--sandbox", metavar="[FILE]", help="Use the embedded cluster (or set KUBECTL_RUNS_SANDBOX)"),
    ),
    "color": (str, _option("--color", metavar="|".join(COLORS), help="Colour (default: on a terminal)")),
    "no_hints": (bool, _option("--no-hints", help="No hint lines")),
    "verbose": (int, _option("-v", "--verbose", help="Say more", count=True)),
}
DEFAULTS = {field.name: field.default for field in fields(Flags)}


def with_session(function: Callable[..., int | None]) -> Callable[..., None]:
    """Adds the common flags to a command and hands it a Session; what it returns is the exit code."""
    own = [
        parameter
        for parameter in inspect.signature(function, eval_str=False).parameters.values()
        if parameter.name != "session"
    ]
    hints = _annotations(function)

    def run(**values: Any) -> None:
        from kubectl_runs.session import Session

        given = {name: values.pop(name) for name in COMMON}
        given["as_groups"] = tuple(given["as_groups"] or ())
        with Session(Flags(**given)) as session:
            code = function(session, **values)
        if code:
            raise typer.Exit(code)

    parameters = [_keyword(parameter, hints[parameter.name]) for parameter in own] + _common_parameters()
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {}
    run.__name__ = function.__name__
    run.__doc__ = function.__doc__
    return run


def _annotations(function: Callable[..., Any]) -> dict[str, Any]:
    """The function's annotations, evaluated all but the session's, which only type checkers import."""
    names = function.__globals__
    return {
        name: eval(text, names) if isinstance(text, str) else text
        for name, text in function.__annotations__.items()
        if name not in ("session", "return")
    }


def _keyword(parameter: inspect.Parameter, annotation: Any) -> inspect.Parameter:
    return parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=annotation)


def _common_parameters() -> list[inspect.Parameter]:
    return [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None if name == "as_groups" else DEFAULTS[name],
            annotation=Annotated[kind, option],
        )
        for name, (kind, option) in COMMON.items()
    ]


def fill_bare(args: list[str], valued: set[str]) -> list[str]:
    """`--wait` becomes `--wait=running`, and `--sandbox FILE` is told from `--sandbox RUN`."""
    filled: list[str] = []
    rest = iter(range(len(args)))
    for index in rest:
        word = args[index]
        if word == "--":
            return filled + args[index:]
        if word not in BARE or word not in valued:
            filled.append(word)
        elif word == "--sandbox" and index + 1 < len(args) and _is_file(args[index + 1]):
            filled.append(f"{word}={args[next(rest)]}")
        else:
            filled.append(f"{word}={BARE[word] or DEFAULT_SANDBOX}")
    return filled


def _is_file(word: str) -> bool:
    """A word with a slash, with the ending of a database, or naming an SQLite file; a run's name is none of these."""
    if word.startswith("-"):
        return False
    if os.sep in word or word.endswith((".db", ".sqlite", ".sandbox")):
        return True
    try:
        with Path(word).open("rb") as file:
            return file.read(15) == b"SQLite format 3"
    except OSError:
        return False
