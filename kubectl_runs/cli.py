"""How typer is bent to look like kubectl: lazy verbs, plain help, flags that may leave out their value."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from kubectl_runs import errors
from kubectl_runs.flags import COMMON, fill_bare
from kubectl_runs.main import ABOUT, PROGRAM, SECTIONS, VERBS
from kubectl_runs.text import clean

if TYPE_CHECKING:
    from collections.abc import Iterable

    from typer._click import Command, Context, HelpFormatter

SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 100, "terminal_width": 100}


class Group(TyperGroup):
    """Knows all verbs by name and loads one only when it is asked for."""

    def __init__(self) -> None:
        super().__init__(
            name=PROGRAM,
            help=ABOUT,
            rich_markup_mode=None,
            options_metavar="",
            subcommand_metavar="COMMAND [flags]",
            context_settings=SETTINGS,
        )

    def list_commands(self, ctx: Context) -> list[str]:  # noqa: ARG002 - typer's signature
        return list(VERBS)

    def get_command(self, ctx: Context, cmd_name: str) -> Command | None:  # noqa: ARG002
        return load(cmd_name) if cmd_name in VERBS else None

    def resolve_command(self, ctx: Context, args: list[str]) -> tuple[str | None, Command | None, list[str]]:
        if args[0] not in VERBS:
            raise _unknown(args[0], PROGRAM, VERBS)
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: Context, formatter: HelpFormatter) -> None:  # noqa: ARG002
        width = max(map(len, VERBS))
        formatter.write(f"{ABOUT}\n\nUsage:\n  {PROGRAM} COMMAND [flags]\n")
        for title, verbs in SECTIONS.items():
            formatter.write(f"\n{title}:\n")
            formatter.write("".join(f"  {verb.name.ljust(width)}   {verb.help}\n" for verb in verbs))
        formatter.write(f"\n{PROGRAM} COMMAND --help says more of one.\n")


class SubGroup(TyperGroup):
    """A verb with verbs of its own, such as `snapshot save`."""

    def resolve_command(self, ctx: Context, args: list[str]) -> tuple[str | None, Command | None, list[str]]:
        if args[0] not in self.commands and not args[0].startswith("-"):
            raise _unknown(args[0], ctx.command_path, self.commands)
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: Context, formatter: HelpFormatter) -> None:
        formatter.write(
            f"Usage: {ctx.command_path} COMMAND [flags]\n\n{inspect.cleandoc(self.help or '')}\n\nCommands:\n"
        )
        width = max(map(len, self.commands))
        for name, command in self.commands.items():
            first = (command.help or "").strip().splitlines()[:1]
            formatter.write(f"  {name.ljust(width)}   {''.join(first)}\n")
        formatter.write(f"\n{ctx.command_path} COMMAND --help says more of one.\n")


class RunsCommand(TyperCommand):
    """A command whose flags may leave out their value, and whose help keeps the docstring's own lines."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        valued = {name for param in self.params if not getattr(param, "is_flag", True) for name in param.opts}
        return super().parse_args(ctx, fill_bare(args, valued))

    def collect_usage_pieces(self, ctx: Context) -> list[str]:  # noqa: ARG002
        """Arguments first, then flags, as kubectl shows them."""
        arguments = [param for param in self.params if param.param_type_name == "argument"]
        return [_usage_of(param) for param in arguments] + ["[flags]"]

    def format_help_text(self, ctx: Context, formatter: HelpFormatter) -> None:  # noqa: ARG002
        text = inspect.cleandoc(self.help or "")
        formatter.write(f"\n{text}\n")

    def format_options(self, ctx: Context, formatter: HelpFormatter) -> None:
        found: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Flags": [], "Common flags": []}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                common = param.name in COMMON or param.name == "help"
                title = "Common flags" if common else "Arguments" if param.param_type_name == "argument" else "Flags"
                found[title].append(record)
        for title, records in found.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


def _usage_of(argument: Any) -> str:
    name = str(argument.metavar or argument.name.upper())
    return name if argument.required or name.startswith("[") else f"[{name}]"


def load(name: str) -> Command:
    """The command of a verb, from its module: a `command` function, or an `app` of several."""
    module = import_module(VERBS[name].path)
    app = getattr(module, "app", None)
    if app is None:
        app = typer.Typer(add_completion=False, rich_markup_mode=None)
        app.command(name)(module.command)
        _shape(app)
        return get_command(app)
    _shape(app)
    group = get_group(app)
    group.name = name
    return group


def _shape(app: typer.Typer) -> None:
    app.rich_markup_mode = None
    app.info.cls = SubGroup
    app.info.context_settings = SETTINGS
    for info in app.registered_commands:
        info.cls = RunsCommand
        info.context_settings = SETTINGS
        info.options_metavar = "[flags]"


def _unknown(word: str, program: str, known: Iterable[str]) -> errors.UsageError:
    from difflib import get_close_matches

    near = get_close_matches(word, list(known), n=1)
    hint = f"{program} {near[0]} --help" if near else f"{program} --help"
    return errors.UsageError(f'unknown command "{clean(word)}" for "{program}"', hint=hint)
