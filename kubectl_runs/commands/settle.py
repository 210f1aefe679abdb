"""`settle`: close what has ended, finish what was begun, start what is due. What the daemon does, once, by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubectl_runs.flags import with_session

if TYPE_CHECKING:
    from kubectl_runs.session import Session

RUNS_MAX = 10_000  # by hand it is asked for: as many as there are


@with_session
def command(session: Session) -> int:
    """Close what has ended, finish what was begun, start what is due.

    Without a daemon a GPU stays held until somebody with the rights runs any command; this one does nothing else.
    Looks at one namespace, with -A at all.

    Examples:
      kubectl runs settle
      kubectl runs settle -A
    """
    from kubectl_runs import errors
    from kubectl_runs.commit.budget_status import write_budgets
    from kubectl_runs.commit.steps import drive
    from kubectl_runs.commit.sweep import sweep
    from kubectl_runs.means import means
    from kubectl_runs.render.settle import report, rows

    if session.is_file:
        raise errors.UsageError("settle changes a cluster and takes no --from")
    reading = session.reading()
    swept = drive(sweep(reading, means(session), namespace=session.scope, runs_max=RUNS_MAX), session.store)
    if not session.scope:
        # Budgets belong to no namespace; who may not write their status leaves it to operators and the daemon.
        drive(write_budgets(session.reading()), session.store)
    if not session.data(rows(swept)):
        session.out(report(swept))
    for problem in swept.refused:
        session.note(f"not settled: {problem}")
    return 0
