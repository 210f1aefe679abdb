"""`completion`: scripts for shells, and the helper that kubectl itself asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kubectl_runs.errors import RunsError, UsageError
from kubectl_runs.flags import with_session

if TYPE_CHECKING:
    from kubectl_runs.session import Session

HELPER = "kubectl_complete-runs"
HELPER_SCRIPT = '#!/bin/sh\n# kubectl asks this for completions of "kubectl runs".\nexec kubectl-runs __complete "$@"\n'
SCRIPTS = {
    "bash": """# bash completion of kubectl-runs ("kubectl runs" is completed by kubectl: see completion install)
_kubectl_runs() {
    local words=("${COMP_WORDS[@]:1:COMP_CWORD}")
    local IFS=$'\\n'
    COMPREPLY=($(kubectl-runs __complete "${words[@]}" 2>/dev/null | grep -v '^:' | cut -f1))
    [ ${#COMPREPLY[@]} -eq 0 ] && compopt -o default
}
complete -F _kubectl_runs kubectl-runs
""",
    "zsh": """#compdef kubectl-runs
_kubectl_runs() {
    local -a found
    found=("${(@f)$(kubectl-runs __complete "${(@)words[2,CURRENT]}" 2>/dev/null | grep -v '^:' \\
        | sed 's/:/\\\\:/g; s/\\t/:/')}")
    if [[ -n "${found[1]}" ]]; then _describe 'kubectl-runs' found; else _files; fi
}
compdef _kubectl_runs kubectl-runs
""",
    "fish": """# fish completion of kubectl-runs
function __kubectl_runs_complete
    kubectl-runs __complete (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null | string match -v ":*"
end
complete -c kubectl-runs -f -a '(__kubectl_runs_complete)'
""",
}


@with_session
def command(
    session: Session,
    shell: Annotated[str, typer.Argument(metavar="bash|zsh|fish|install", help="A shell, or install the helper")],
    folder: Annotated[
        str | None, typer.Option("--dir", metavar="DIR", help="With install: a folder on PATH (default: beside us)")
    ] = None,
) -> None:
    """Print or install shell completion.

    kubectl completes `kubectl runs` by asking a program kubectl_complete-runs on PATH; `install` writes it. The other
    words print a script that completes `kubectl-runs` itself.

    Examples:
      kubectl runs completion install
      kubectl runs completion install --dir ~/.local/bin
      source <(kubectl runs completion bash)
    """
    if shell == "install":
        session.out(f"{_install(folder)} written")
    elif shell in SCRIPTS:
        session.out(SCRIPTS[shell])
    else:
        raise UsageError(f"unknown shell {shell!r}, known are: {', '.join(SCRIPTS)}, and install")


def _install(folder: str | None) -> str:
    import os
    import shutil
    from pathlib import Path

    beside = shutil.which("kubectl-runs")
    where = Path(folder) if folder else Path(beside).parent if beside else Path.home() / ".local" / "bin"
    target = where.expanduser() / HELPER
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(HELPER_SCRIPT)
        target.chmod(0o755)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise RunsError(f"{target}: {reason}", hint="kubectl runs completion install --dir ~/.local/bin") from None
    if str(target.parent) not in os.environ.get("PATH", "").split(os.pathsep):
        return f"{target} (put {target.parent} on PATH)"
    return str(target)
