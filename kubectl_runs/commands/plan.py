"""`plan`: what `submit` would do and why. Reads, decides, prints; changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from kubectl_runs import errors
from kubectl_runs.asked import Change, asked_run
from kubectl_runs.flags import with_session
from kubectl_runs.session import instant
from kubectl_runs.wire.times import rfc3339

if TYPE_CHECKING:
    from kubectl_runs.asked import AskedRun
    from kubectl_runs.session import Session
    from planner.model import Decision


@with_session
def command(
    session: Session,
    run: Annotated[str | None, typer.Argument(metavar="RUN", help="A run that exists", show_default=False)] = None,
    file: Annotated[
        str | None, typer.Option("-f", "--filename", metavar="FILE", help="A manifest, or - for stdin")
    ] = None,
    gpus: Annotated[int | None, typer.Option("--gpus", metavar="N", min=1, help="As if it asked for N GPUs")] = None,
    sponsor: Annotated[
        list[str] | None, typer.Option("--sponsor", metavar="OWNER", help="As if it named this sponsor too")
    ] = None,
    max_borrow: Annotated[
        int | None, typer.Option("--max-borrow", metavar="N", min=0, help="As if it might borrow N GPUs")
    ] = None,
    spread: Annotated[bool, typer.Option("--spread", help="As if its groups might lie in several domains")] = False,
    spares: Annotated[
        int | None, typer.Option("--spares", metavar="N", min=0, help="As if it kept N spares a group")
    ] = None,
    duration: Annotated[
        str | None, typer.Option("--duration", metavar="SPAN", help="As if it ran for that long, e.g. 1h30m")
    ] = None,
    at: Annotated[str | None, typer.Option("--at", metavar="TIME", help="As if it were submitted then")] = None,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit 3 if it would not start now")] = False,
) -> int:
    """Show what submit would do and why; changes nothing.

    The first line answers: starts now, starts then, or why never. Below it stand the groups with their nodes, who
    pays, who would have to yield, and remedies that were each tried. A run that already holds GPUs is planned for its
    next growth.

    Exit codes: 0 it would start or be reserved, 1 it is refused, 3 with --exit-code if it would only be reserved.

    Examples:
      kubectl runs plan -f train.yaml
      kubectl runs plan train --gpus 64
      kubectl runs plan -f train.yaml --from snapshot.yaml --now 2026-01-05T12:00:00Z -o json
    """
    change = Change(
        gpus=gpus,
        sponsors=tuple(sponsor or ()),
        max_borrow=max_borrow,
        spread=spread,
        spares=spares,
        duration=duration,
    )
    asked = asked_run(session, name=run, file=file, change=change)
    then = None if at is None else instant(at, "--at")
    decision = decide(session, asked, at=then)
    show(session, decision, asked.command, at=then)
    if decision.verdict == "start" and change == Change() and at is None:
        session.hint(f"kubectl runs {asked.command.replace('plan', 'submit', 1)}")
    return exit_of(decision, exit_code=exit_code)


def decide(session: Session, asked: AskedRun, *, at: int | None = None) -> Decision:
    """The planner's answer, now or as the world is expected to be at a later time."""
    from planner.plan import plan_in
    from planner.world import World

    over = _over(asked)
    if over is not None:
        return over
    world = World.of(asked.snapshot, session.now)
    if at is not None:
        if at < session.now:
            raise errors.UsageError(f"--at {rfc3339(at)} is in the past, it is {rfc3339(session.now)}")
        world = world.at(at)
    return plan_in(world, asked.run)


def _over(asked: AskedRun) -> Decision | None:
    """6.7: a run that has ended does not start again, so `plan` says what `submit` would say."""
    from kubectl_runs.commit.life import Stage, life
    from planner.model import Decision, Reason, Verdict

    lived = life(asked.snapshot, asked.run)
    if not lived.over:
        return None
    if lived.stage is Stage.COMPLETED:
        return Decision(verdict=Verdict.NONE, run=asked.run.key, message="the run has completed")
    if lived.stage is Stage.CANCELED:
        words = "the run was cancelled"
        return Decision(verdict=Verdict.REFUSE, run=asked.run.key, reason=Reason.CANCELED, message=words)
    words = f"the run has failed ({lived.reason}) and does not start again"
    return Decision(verdict=Verdict.REFUSE, run=asked.run.key, message=words)


def show(session: Session, decision: Decision, asked: str, *, at: int | None = None) -> None:
    """Prints a decision: JSON as in section 8, or for people."""
    from kubectl_runs.render.plan import Asked, render
    from kubectl_runs.wire.decision import decision_json

    answer: dict[str, Any] = decision_json(decision)
    if session.format == "name":
        session.out(f"{answer['decision']}")
    elif not session.data(answer):
        session.screen(render(answer, Asked(command=asked, now=session.now, at=at, verbose=session.verbose > 0)))


def exit_of(decision: Decision, *, exit_code: bool) -> int:
    """0 for start and reserve, 1 for refuse; with `--exit-code` reserve is 3."""
    if decision.verdict == "refuse":
        return errors.FAILED
    if decision.verdict == "reserve" and exit_code:
        return errors.NOT_NOW
    return errors.DONE
