"""What may come next on a command line, by kubectl's plugin protocol: `word<TAB>description` lines, then `:4`.

Asked on every press of Tab, so verbs cost no import of typer, and whatever goes wrong completes nothing and says
nothing. Names of runs and namespaces are read from wherever the flags on the line point to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kubectl_runs.main import COLORS, FORMATS, VERBS

FILES, NO_FILES = 0, 4  # the shell may add file names, or not
TAKES_RUN = frozenset("cancel explain get grow logs plan resolve shrink submit watch who-pays".split())
TAKES_FILE = frozenset(("-f", "--filename", "--from", "--kubeconfig", "--sandbox"))
VALUES = {"-o": FORMATS, "--output": FORMATS, "--color": COLORS}
POINTING = {"-n", "--namespace", "--context", "--kubeconfig", "--from", "--as"}


def answer(words: Sequence[str]) -> str:
    """The answer for a line; its last word is what is being typed."""
    try:
        directive, found = _candidates(list(words) or [""])
        typed = words[-1] if words else ""
        lines = [f"{word}\t{about}" if about else word for word, about in found if word.startswith(typed)]
    except Exception:  # a broken kubeconfig or a dead server must not disturb somebody who types
        directive, lines = NO_FILES, []
    return "".join(f"{line}\n" for line in lines) + f":{directive}\n"


def _candidates(words: list[str]) -> tuple[int, list[tuple[str, str]]]:
    *before, word = words
    if not before:
        return NO_FILES, [(verb.name, verb.help) for verb in VERBS.values()]
    last = before[-1]
    if last in VALUES:
        return NO_FILES, [(value, "") for value in VALUES[last]]
    if last in TAKES_FILE:
        return FILES, []
    if last in ("-n", "--namespace"):
        return NO_FILES, list(_names(before[:-1], "Namespace"))
    if word.startswith("-"):
        return NO_FILES, list(_flags(before))
    if len(before) == 1 and before[0] not in TAKES_RUN:
        return NO_FILES, list(_subcommands(before[0]))
    if before[0] in TAKES_RUN:
        return NO_FILES, list(_names(before, "Run"))
    return NO_FILES, []


def _flags(before: Sequence[str]) -> Iterator[tuple[str, str]]:
    from kubectl_runs.cli import load

    command = load(before[0])
    inner = getattr(command, "commands", {})
    if inner and len(before) > 1:
        command = inner.get(before[1], command)
    for param in command.params:
        for name in getattr(param, "opts", ()):
            if name.startswith("--"):
                yield name, str(getattr(param, "help", "") or "")


def _subcommands(verb: str) -> Iterator[tuple[str, str]]:
    if verb == "completion":
        yield from ((shell, "") for shell in ("bash", "zsh", "fish", "install"))
        return
    from kubectl_runs.cli import load

    for name, command in getattr(load(verb), "commands", {}).items():
        yield name, (command.help or "").strip().partition("\n")[0]


def _names(before: Sequence[str], kind: str) -> Iterator[tuple[str, str]]:
    """Names of objects, from where the line points to: `-n`, `--context`, `--from` and the like."""
    from kubectl_runs.flags import Flags
    from kubectl_runs.session import Session
    from kubectl_runs.store.protocol import List
    from kubectl_runs.wire.kinds import BY_NAME

    given = {flag: before[index + 1] for index, flag in enumerate(before[:-1]) if flag in POINTING}
    flags = Flags(
        namespace=given.get("-n") or given.get("--namespace"),
        context=given.get("--context"),
        kubeconfig=given.get("--kubeconfig"),
        source=given.get("--from"),
        as_user=given.get("--as"),
        sandbox="default" if "--sandbox" in before else None,
        request_timeout="2s",
    )
    with Session(flags) as session:
        where = session.scope if BY_NAME[kind].namespaced else ""
        for item in session.store.perform(List(kind=BY_NAME[kind], namespace=where)).items:
            yield item["metadata"]["name"], str((item.get("status") or {}).get("phase") or "")
