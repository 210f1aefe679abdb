"""`cancel`: end a run. First the one-way field, then an entry, then its pods, then its leases (6.7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kubectl_runs.flags import with_session

if TYPE_CHECKING:
    from kubectl_runs.session import Session


@with_session
def command(
    session: Session,
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run to end", show_default=False)],
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Do not wait until its GPUs are free")] = False,
) -> int:
    """End a run and free its GPUs; its leases close with Canceled.

    It can never start again: a submit that is still under way finds it cancelled. Returns when the GPUs are free,
    that is when every pod is gone and the ledger says so; with --no-wait as soon as the pods are told to stop.
    Runs that waited for these GPUs then start, where you may start them.

    Examples:
      kubectl runs cancel train
      kubectl runs cancel train --no-wait
    """
    from kubectl_runs import errors
    from kubectl_runs.commit.change import cancel
    from kubectl_runs.commit.steps import drive
    from kubectl_runs.means import means
    from kubectl_runs.others import settle_others
    from kubectl_runs.render.change import canceled

    if session.is_file:
        raise errors.UsageError("cancel changes a cluster and takes no --from")
    namespace, name = session.key(run)
    changed = drive(cancel(f"{namespace}/{name}", means(session), wait=not no_wait), session.store)
    if not session.data({"run": f"{namespace}/{name}", "stage": changed.life.stage.value, "held": changed.life.width}):
        session.out(canceled(f"{namespace}/{name}", changed))
    settle_others(session, changed.reading, f"{namespace}/{name}", freed=not no_wait)
    return 0
