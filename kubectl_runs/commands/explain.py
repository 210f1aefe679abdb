"""`explain`: what happened to a run, reservation or lease, as it was recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kubectl_runs.flags import with_session

if TYPE_CHECKING:
    from kubectl_runs.session import Session


@with_session
def command(
    session: Session,
    name: Annotated[str, typer.Argument(metavar="RUN|RESERVATION|LEASE", help="A name; lease/NAME is a lease")],
) -> None:
    """Tell what happened to a run, reservation or lease, and why.

    The first line answers: why not now, or who took the GPUs. Then come the payers, every ledger entry about it, and
    the steps of the last decision as they were recorded: payers asked, domains tried, cuts, draws. -v shows every
    step of every decision, -o json the raw steps. Nothing is decided again, so it tells what really happened.

    Examples:
      kubectl runs explain train
      kubectl runs explain train -v
      kubectl runs explain lease/l-42-0 -o json
    """
    from kubectl_runs.history import gather
    from kubectl_runs.render.explain import raw, render

    history = gather(session, name)
    if not session.data(raw(history)):
        session.screen(render(history, now=session.now, verbose=session.verbose > 0))
        if history.run is not None and not history.leases:
            session.hint(f"kubectl runs plan {name}")
