"""`reservations`: promises with their countdown, what is missing and what they wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kubectl_runs.flags import with_session

if TYPE_CHECKING:
    from kubectl_runs.session import Session


@with_session
def command(
    session: Session,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME...]", help="Only these", show_default=False)
    ] = None,
) -> None:
    """Show promises and when they start.

    STARTS counts down to the promised start; a Blocked promise waits for a budget and has none. DEFICIT is what pack
    could not place when the promise was made. A due promise that fits starts with any command that settles; one that
    needs cuts by `kubectl runs resolve` or the daemon.

    Examples:
      kubectl runs reservations
      kubectl runs reservations -A
      kubectl runs reservations big-eval -o json
    """
    from kubectl_runs.render.reservations import HEADER, RIGHT, row
    from kubectl_runs.store.protocol import List
    from kubectl_runs.wire import decode
    from kubectl_runs.wire.kinds import RESERVATION

    if names:
        items = [session.find(RESERVATION, name) for name in names]
    else:
        items = list(session.store.perform(List(kind=RESERVATION, namespace=session.scope)).items)
    shown = [(item, decode.reservation(item)) for item in items]
    # Open ones first, by their start; Blocked ones have none.
    shown.sort(
        key=lambda pair: (not pair[1].open, pair[1].earliest_start is None, pair[1].earliest_start or 0, pair[1].key)
    )
    if session.objects(RESERVATION, [item for item, _ in shown], one=bool(names)):
        return
    several = not session.scope
    header = ("NAMESPACE", *HEADER) if several else HEADER
    rows = [row(made, item, session.now, namespace=several) for item, made in shown]
    session.table(header, rows, right=[column + several for column in RIGHT])
    starts = [made for _, made in shown if made.open and made.earliest_start is not None]
    due = next((made for made in starts if (made.earliest_start or 0) <= session.now), None)
    if due is not None:
        session.hint(f"kubectl runs resolve {due.name} -n {due.namespace} --dry-run")
