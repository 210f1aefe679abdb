"""`shrink`: give up groups of a malleable run (E1). Shows what leaves first, asks on a terminal, then does it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kubectl_runs import errors
from kubectl_runs.flags import with_session

if TYPE_CHECKING:
    from kubectl_runs.session import Session
    from planner.model import Decision, Run, Snapshot


@with_session
def command(
    session: Session,
    run: Annotated[str, typer.Argument(metavar="RUN", help="A malleable run that holds GPUs", show_default=False)],
    to: Annotated[int | None, typer.Option("--to", metavar="N", min=0, help="New width in GPUs")] = None,
    by: Annotated[int | None, typer.Option("--by", metavar="N", min=1, help="GPUs to give up")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask")] = False,
    dry_run: Annotated[
        str | None, typer.Option("--dry-run", metavar="[client|server]", help="Only say what would leave")
    ] = None,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Do not wait until the GPUs are free")] = False,
) -> int:
    """Give up groups of a malleable run: those with borrowed GPUs first, then the highest index.

    Groups leave whole, with their spares, and never below the run's minimum. Its desired width follows, so that it
    does not grow back. Returns when the GPUs are free, with --no-wait at once. Runs that waited for them then start,
    where you may start them.

    Examples:
      kubectl runs shrink train --to 64
      kubectl runs shrink train --by 16 --yes
      kubectl runs shrink train --to 64 --dry-run
    """
    if (to is None) == (by is None):
        raise errors.UsageError(
            "say how far: --to N or --by N, one of the two", hint=f"kubectl runs shrink {run} --to N"
        )
    found, snapshot = _run(session, run)
    target = to if to is not None else _width(session, snapshot, found) - (by or 0)
    decision = _plan(session, snapshot, found, target)
    if dry_run is not None:
        from kubectl_runs.commands.plan import exit_of, show

        show(session, decision, f"shrink {run}")
        return exit_of(decision, exit_code=False)
    return _shrink(session, found, target, decision, yes=yes, wait=not no_wait)


def _run(session: Session, name: str) -> tuple[Run, Snapshot]:
    from kubectl_runs.asked import Change, asked_run

    asked = asked_run(session, name=name, file=None, change=Change(), verb="shrink")
    return asked.run, asked.snapshot


def _width(session: Session, snapshot: Snapshot, run: Run) -> int:
    """What it would be after what is already leaving."""
    from planner.elastic import held_groups
    from planner.world import World

    return sum(group.width for group in held_groups(World.of(snapshot, session.now), run))


def _plan(session: Session, snapshot: Snapshot, run: Run, to: int) -> Decision:
    from planner.elastic import plan_shrink

    return plan_shrink(snapshot, run, to, session.now)


def _shrink(session: Session, run: Run, to: int, decision: Decision, *, yes: bool, wait: bool) -> int:
    from kubectl_runs.commands.plan import exit_of
    from kubectl_runs.commit.change import shrink
    from kubectl_runs.commit.steps import drive
    from kubectl_runs.means import means
    from kubectl_runs.others import settle_others
    from kubectl_runs.render.change import leaving, shrunk
    from kubectl_runs.wire.decision import decision_json

    if session.is_file:
        raise errors.UsageError("a snapshot file cannot be changed: --from needs --dry-run")
    if decision.verdict == "refuse":
        raise errors.RunsError(f"{decision.message} ({decision.reason})")
    if decision.verdict == "cut" and not yes:
        session.note(leaving(decision_json(decision)))
        if not session.confirm(f"Shrink {run.key} to {decision.width}?"):
            raise errors.RunsError("not confirmed, nothing was changed", hint=f"kubectl runs shrink {run.name} --yes")
    changed = drive(shrink(run.key, to, means(session), wait=wait), session.store)
    if changed.decision is not None and not session.data(decision_json(changed.decision)):
        session.out(shrunk(run.key, changed))
    settle_others(session, changed.reading, run.key, freed=wait)
    return exit_of(decision, exit_code=False)
