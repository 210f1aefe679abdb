"""`list`: runs with phase, width, payers, reason and earliest start."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kubectl_runs.flags import with_session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kubectl_runs.overview import Json, Overview
    from kubectl_runs.session import Session

Selector = Annotated[str, typer.Option("-l", "--selector", metavar="QUERY", help="Only runs with these labels")]
SortBy = Annotated[
    str, typer.Option("--sort-by", metavar="KEY", help="name, phase, gpus, owner, reason, start, age, or a .path")
]


@with_session
def command(session: Session, selector: Selector = "", sort_by: SortBy = "") -> None:
    """List runs with phase, width, payers, reason and earliest start.

    GPUS shows what a run holds and what it wants; REASON says why a run does not simply run, in the words of
    `kubectl runs explain`. From a file without -n all namespaces are listed.

    Examples:
      kubectl runs list
      kubectl runs list -A --sort-by gpus
      kubectl runs list -l team=vision -o wide
    """
    from kubectl_runs.overview import read

    objects, rows = read(session, labels=selector)
    show(session, objects, rows, sort_by=sort_by)


def show(
    session: Session,
    objects: Sequence[Json],
    rows: Sequence[Overview],
    *,
    sort_by: str = "",
    several: bool | None = None,
) -> None:
    """Prints runs as a table, or as a Kubernetes List in the same order."""
    from kubectl_runs.render import list as render
    from kubectl_runs.wire.kinds import RUN

    ordered = render.order(rows, sort_by or "namespace", objects)
    by_key = {f"{item['metadata'].get('namespace') or 'default'}/{item['metadata']['name']}": item for item in objects}
    if session.objects(RUN, [by_key[row.key] for row in ordered]):
        return
    several = not session.scope if several is None else several
    header, cells = render.table(ordered, now=session.now, wide=session.format == "wide", namespaces=several)
    session.table(header, cells, right=(header.index("GPUS"),))
