"""`grow`: widen a malleable run, one step and one entry at a time (E2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kubectl_runs import errors
from kubectl_runs.flags import with_session

if TYPE_CHECKING:
    from kubectl_runs.asked import AskedRun
    from kubectl_runs.session import Session
    from planner.model import Decision


@with_session
def command(
    session: Session,
    run: Annotated[str, typer.Argument(metavar="RUN", help="A malleable run that holds GPUs", show_default=False)],
    to: Annotated[
        int | None, typer.Option("--to", metavar="N", min=1, help="Desired width (default: as the run says)")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask")] = False,
    dry_run: Annotated[
        str | None, typer.Option("--dry-run", metavar="[client|server]", help="Only say what would come")
    ] = None,
) -> int:
    """Widen a malleable run toward a width, one step at a time, while steps fit and somebody pays.

    Sets the desired width. What does not fit now is left to a later `grow`, or to the daemon.

    Examples:
      kubectl runs grow train --to 128
      kubectl runs grow train --to 128 --dry-run
    """
    from kubectl_runs.asked import Change, asked_run

    asked = asked_run(session, name=run, file=None, change=Change(), verb="grow")
    decision = _plan(session, asked, to)
    if dry_run is not None:
        from kubectl_runs.commands.plan import exit_of, show

        show(session, decision, f"grow {run}")
        return exit_of(decision, exit_code=False)
    if session.is_file:
        raise errors.UsageError("a snapshot file cannot be changed: --from needs --dry-run")
    return _grow(session, asked, to, decision, yes=yes)


def _plan(session: Session, asked: AskedRun, to: int | None) -> Decision:
    from planner.elastic import plan_growth

    return plan_growth(asked.snapshot, asked.run, session.now, to=to)


def _grow(session: Session, asked: AskedRun, to: int | None, decision: Decision, *, yes: bool) -> int:
    from kubectl_runs.commit.change import grow
    from kubectl_runs.commit.steps import drive
    from kubectl_runs.means import means
    from kubectl_runs.others import settle_others
    from kubectl_runs.render.change import coming, grown
    from kubectl_runs.wire.decision import decision_json

    _check_width(asked, to)
    if decision.verdict == "start" and not yes:
        session.note(coming(decision_json(decision)))
        if not session.confirm(f"Grow {asked.run.key}?"):
            hint = f"kubectl runs grow {asked.run.name} --yes"
            raise errors.RunsError("not confirmed, nothing was changed", hint=hint)
    changed = drive(grow(asked.run.key, to, means(session)), session.store)
    if changed.decision is None or not session.data(decision_json(changed.decision)):
        session.out(grown(asked.run.key, changed))
    settle_others(session, changed.reading, asked.run.key)
    return errors.FAILED if changed.decision is not None and changed.decision.verdict == "refuse" else errors.DONE


def _check_width(asked: AskedRun, to: int | None) -> None:
    """The desired width is the minimum plus whole steps, at most the maximum (section 4)."""
    part, key = asked.run.malleable, asked.run.key
    if part is None:
        raise errors.RunsError(f"run {key} is not malleable: its width is {asked.run.gpus_total}")
    if to is None:
        return
    if not part.gpus_min <= to <= part.gpus_max or (to - part.gpus_min) % part.gpus_step:
        raise errors.RunsError(
            f"run {key}: width {to} is not {part.gpus_min} plus whole steps of {part.gpus_step} up to {part.gpus_max}"
        )
