"""`submit`: plan, prepare, append, bind; or reserve. Idempotent: a run that is known is told how it stands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from kubectl_runs import errors
from kubectl_runs.flags import with_session

if TYPE_CHECKING:
    from kubectl_runs.commit.submit import Submitted
    from kubectl_runs.session import Session


@with_session
def command(
    session: Session,
    run: Annotated[str | None, typer.Argument(metavar="RUN", help="A run that exists", show_default=False)] = None,
    file: Annotated[
        str | None, typer.Option("-f", "--filename", metavar="FILE", help="A manifest, or - for stdin")
    ] = None,
    wait: Annotated[
        str | None, typer.Option("--wait", metavar="[running|end]", help="Wait until it runs, or until it ends")
    ] = None,
    timeout: Annotated[
        str | None, typer.Option("--timeout", metavar="DURATION", help="With --wait: give up after this long")
    ] = None,
    dry_run: Annotated[
        str | None, typer.Option("--dry-run", metavar="[client|server]", help="Only say what would be done")
    ] = None,
    check_plan: Annotated[
        str | None, typer.Option("--check-plan", metavar="DIGEST", help="Refuse if the plan is not this one any more")
    ] = None,
) -> int:
    """Plan a run, hold its GPUs and start its pods; or reserve.

    The decision is one entry of the ledger: all of it holds, or nothing does. A run that cannot start now is promised
    a start and waits. Submitting a run again says how it stands and finishes what an earlier command began.

    Exit codes: 0 it started, waits or has completed; 1 it is refused, has failed or was cancelled; 4 with --wait if
    it took too long; 75 the outcome is unknown (run the same command again).

    Examples:
      kubectl runs submit -f train.yaml
      kubectl runs submit -f train.yaml --wait=end
      kubectl runs submit train --dry-run=server
    """
    if wait not in (None, "running", "end"):
        raise errors.UsageError(f"--wait is running or end, not {wait}")
    if dry_run not in (None, "none", "client", "server"):
        raise errors.UsageError(f"--dry-run is client or server, not {dry_run}")
    if dry_run == "client" or session.is_file:
        return _plan_only(session, run, file, check_plan, dry_run)
    return _submit(session, _manifest(session, run, file), wait, timeout, dry_run == "server", check_plan or "")


def _plan_only(session: Session, run: str | None, file: str | None, check_plan: str | None, dry_run: str | None) -> int:
    """`--dry-run`: exactly what `plan` says."""
    from kubectl_runs.asked import Change, asked_run
    from kubectl_runs.commands.plan import decide, exit_of, show
    from kubectl_runs.commit.submit import check_same
    from kubectl_runs.wire.decision import decision_json
    from kubectl_runs.wire.kinds import RUN

    if dry_run is None:
        raise errors.UsageError("a snapshot file cannot be changed: --from needs --dry-run")
    asked = asked_run(session, name=run, file=file, change=Change(), verb="submit")
    if asked.exists:
        # Section 8: a re-submit with another spec is refused.
        check_same(session.find(RUN, asked.run.key), asked.object, asked.snapshot.namespace_owners)
    decision = decide(session, asked)
    digest = decision_json(decision)["digest"]
    if check_plan and digest != check_plan:
        raise errors.RunsError(f"run {asked.run.key}: the plan is now {digest}, not {check_plan}: the world moved")
    show(session, decision, asked.command)
    return exit_of(decision, exit_code=False)


def _manifest(session: Session, run: str | None, file: str | None) -> dict[str, Any]:
    """The run to submit: from a file, strictly read, or one that exists."""
    from kubectl_runs.asked import manifest_of
    from kubectl_runs.means import means
    from kubectl_runs.wire.kinds import RUN
    from kubectl_runs.wire.pods import check_template

    if (run is None) == (file is None):
        raise errors.UsageError("name a RUN, or a file with -f: one of the two", hint="kubectl runs submit -f FILE")
    if file is None:
        found = session.find(RUN, run or "")
    else:
        # A generated name is made here, not by the server: a create whose reply was lost can then be looked up.
        found = manifest_of(session, file, ending=means(session).nonce()[:6]).value
        found["metadata"].pop("generateName", None)
    check_template(found)
    return found


def _submit(
    session: Session, manifest: dict[str, Any], wait: str | None, timeout: str | None, server_only: bool, check: str
) -> int:
    from kubectl_runs.commit.steps import drive
    from kubectl_runs.commit.submit import dry_run, submit
    from kubectl_runs.means import means
    from kubectl_runs.others import settle_others

    key = f"{manifest['metadata']['namespace']}/{manifest['metadata']['name']}"
    ours = means(session)
    if server_only:
        tried = drive(dry_run(manifest, ours, check_plan=check), session.store)
        session.remark(tried.reading)
        return _show(session, tried, tried_only=True)
    submitted = drive(submit(manifest, ours, check_plan=check), session.store)
    session.remark(submitted.reading)
    code = _show(session, submitted)
    if wait is not None and code == errors.DONE:
        code = _wait(session, key, wait, timeout)
    settle_others(session, submitted.reading, key)
    return code


def _show(session: Session, submitted: Submitted, *, tried_only: bool = False) -> int:
    from kubectl_runs.commands.plan import exit_of, show
    from kubectl_runs.render.submit import done, sentence
    from kubectl_runs.wire.decision import decision_json
    from kubectl_runs.wire.kinds import RUN

    if submitted.begun is not None and submitted.begun.rolled is not None:
        for problem in submitted.begun.rolled.unfinished:
            session.note(f"unfinished: {problem}; any later command finishes it")
    for left in submitted.unfinished:
        session.note(f"unfinished: ledger entry {left.seq} ({left.kind.value}); any later command finishes it")
    if tried_only and submitted.decision is not None:
        # Nothing was started: it says "would", as `plan` does.
        show(session, submitted.decision, f"submit {submitted.run['metadata']['name']}")
    elif session.format == "name":
        session.objects(RUN, [submitted.run])
    elif submitted.decision is not None:
        answer = decision_json(submitted.decision)
        if not session.data(answer):
            entry = submitted.begun.entry if submitted.begun else None
            session.out(done(answer, entry=entry.seq if entry else None, now=submitted.reading.now))
    elif not session.objects(RUN, [submitted.run], one=True):
        session.out(sentence(submitted.run, submitted.life))
    if submitted.decision is not None:
        return exit_of(submitted.decision, exit_code=False)
    return errors.FAILED if submitted.life.stage in ("Failed", "Canceled") else errors.DONE


def _wait(session: Session, key: str, wait: str, timeout: str | None) -> int:
    from kubectl_runs.commit.steps import drive
    from kubectl_runs.commit.submit import follow
    from kubectl_runs.means import means
    from kubectl_runs.render.submit import STANDS
    from kubectl_runs.session import seconds

    limit = seconds(timeout, "--timeout") if timeout else None
    lived = drive(follow(key, means(session), until_end=wait == "end", seconds_max=limit), session.store)
    if lived is None:
        raise errors.TimedOut(f"run {key} has not {'ended' if wait == 'end' else 'started'} after {timeout}")
    session.note(f"run {key} {STANDS[lived.stage.value]}" + (f" ({lived.reason})" if lived.stage == "Failed" else ""))
    return errors.FAILED if lived.stage in ("Failed", "Canceled") else errors.DONE
