"""`get`: one run or several by name; without a name the same as `list`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kubectl_runs.commands.list import Selector, SortBy, show
from kubectl_runs.flags import with_session

if TYPE_CHECKING:
    from kubectl_runs.session import Session


@with_session
def command(
    session: Session,
    runs: Annotated[list[str] | None, typer.Argument(metavar="[RUN]...", help="Names", show_default=False)] = None,
    selector: Selector = "",
    sort_by: SortBy = "",
) -> None:
    """Show one run, or several.

    Examples:
      kubectl runs get train
      kubectl runs get train eval -o wide
      kubectl runs get train -o yaml
    """
    from kubectl_runs.overview import read
    from kubectl_runs.wire.kinds import RUN

    if not runs:
        objects, rows = read(session, labels=selector)
        return show(session, objects, rows, sort_by=sort_by)
    named = [session.find(RUN, name) for name in runs]
    printed = session.format in ("json", "yaml", "name")
    if printed and not session.is_file:
        session.objects(RUN, named, one=True)
        return None
    keys = [(item["metadata"]["namespace"], item["metadata"]["name"]) for item in named]
    namespaces = {namespace for namespace, _ in keys}
    objects, rows = read(session, namespace="" if len(namespaces) > 1 else min(namespaces))
    if printed:
        by_key = {(item["metadata"]["namespace"], item["metadata"]["name"]): item for item in objects}
        session.objects(RUN, [by_key[key] for key in keys], one=True)
        return None
    chosen = [row for row in rows if (row.namespace, row.name) in keys]
    return show(session, objects, chosen, sort_by=sort_by, several=len(namespaces) > 1)
