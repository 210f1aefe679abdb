"""`watch`: a run until it ends; a live tree on a terminal, one line a change in a pipe. Reads only."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from kubectl_runs import errors
from kubectl_runs.flags import with_session

if TYPE_CHECKING:
    from kubectl_runs.session import Session
    from kubectl_runs.watching import View

PAUSE_SECONDS = 1.0


@with_session
def command(
    session: Session,
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run to follow")],
    timeout: Annotated[
        str | None, typer.Option("--timeout", metavar="DURATION", help="Give up after this long, exit 4")
    ] = None,
) -> int:
    """Follow a run until it ends.

    On a terminal a live tree: groups, payers, nodes, spares, last events. In a pipe one line a change. Exit codes: 0
    it completed, 1 it failed or was cancelled, 4 the timeout passed first.

    Examples:
      kubectl runs watch train
      kubectl runs watch train --timeout 1h | tee train.log
    """
    from kubectl_runs.session import seconds
    from kubectl_runs.wire.kinds import RUN

    metadata = session.find(RUN, run)["metadata"]
    limit = seconds(timeout, "--timeout") if timeout else None
    if session.is_terminal:
        last = _live(session, metadata["namespace"], metadata["name"], limit)
    else:
        last = _follow(session, metadata["namespace"], metadata["name"], limit, _print)
    if last.unsettled:
        session.hint("kubectl runs settle   # its leases are still open: this frees its GPUs")
    return errors.FAILED if last.outcome == "Failed" else errors.DONE


def _follow(
    session: Session, namespace: str, name: str, limit: int | None, show: Callable[[View, list[str]], None]
) -> View:
    """Looks again and again, and shows what changed, until the run is over."""
    from kubectl_runs.render.watch import line
    from kubectl_runs.watching import changes, look

    before: View | None = None
    begun: int | None = None
    while True:
        now = look(session.store, namespace, name)
        begun = now.at if begun is None else begun
        show(now, [line(now, what) for what in changes(before, now)])
        if now.outcome or session.is_file:
            return now
        if limit is not None and now.at - begun >= limit:
            raise errors.TimedOut(f"run {now.row.key} has not ended after {limit} s; it is {now.row.phase}")
        before = now
        session.store.sleep(PAUSE_SECONDS)


def _print(now: View, events: list[str]) -> None:  # noqa: ARG001 - the tree needs the view, a pipe does not
    sys.stdout.write("".join(events))
    sys.stdout.flush()


def _live(session: Session, namespace: str, name: str, limit: int | None) -> View:
    """The tree, redrawn in place; rich puts the cursor back also after Ctrl-C."""
    from rich.live import Live
    from rich.text import Text

    from kubectl_runs.render.watch import tree

    events: list[str] = []
    with Live(console=session.console, auto_refresh=False, vertical_overflow="visible") as live:

        def show(now: View, new: list[str]) -> None:
            events.extend(new)
            live.update(Text(tree(now, events).rstrip("\n")), refresh=True)

        return _follow(session, namespace, name, limit, show)
