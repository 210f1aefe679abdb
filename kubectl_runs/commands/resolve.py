"""`resolve`: make room for a promise that is due (R1-R5), or bring a budget back within its caps (R6)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from kubectl_runs import errors
from kubectl_runs.flags import with_session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kubectl_runs.session import Session
    from planner.model import Decision, Entry, Reservation, Snapshot


@with_session
def command(
    session: Session,
    reservation: Annotated[
        str | None, typer.Argument(metavar="RESERVATION", help="A promise to activate", show_default=False)
    ] = None,
    budget: Annotated[
        str | None, typer.Option("--budget", metavar="NAME[/ENVELOPE]", help="A budget to bring back under its caps")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask")] = False,
    dry_run: Annotated[
        str | None, typer.Option("--dry-run", metavar="[client]", help="Only say who would yield")
    ] = None,
) -> int:
    """Activate a promise that is due, or bring a budget back under its caps.

    Who yields follows the published order: fillers, spares, malleable runs down to their minimum, and only then an
    attested lottery over fixed runs. Nothing is cut for a run that nobody can pay, and nothing if it would not be
    enough. Cutting needs the verb `resolve` on ledgerentries, which operators and the daemon have.

    With --dry-run it shows what activation would do now, due or not; a lottery is then an example, marked provisional.

    Examples:
      kubectl runs resolve big-eval --dry-run
      kubectl runs resolve big-eval
      kubectl runs resolve --budget rai/west-h100 --dry-run
    """
    if (reservation is None) == (budget is None):
        raise errors.UsageError(
            "name a RESERVATION, or a budget with --budget: one of the two",
            hint="kubectl runs resolve RESERVATION --dry-run",
        )
    if dry_run is None:
        if session.is_file:
            raise errors.UsageError("a snapshot file cannot be changed: --from needs --dry-run")
        return _act(session, reservation, budget, yes=yes)
    from kubectl_runs.commands.plan import show

    decision = _activation(session, reservation) if reservation is not None else _tightening(session, budget or "")
    show(session, decision, f"resolve {reservation or '--budget ' + (budget or '')}")
    return exit_of(decision)


def _act(session: Session, reservation: str | None, budget: str | None, *, yes: bool) -> int:
    """Shows who yields and asks on a terminal (R6); then acts, each entry planned from a fresh reading (6.9)."""
    from kubectl_runs.commit import preempt
    from kubectl_runs.commit.steps import drive
    from kubectl_runs.means import means
    from kubectl_runs.render.resolve import resolved
    from kubectl_runs.wire.decision import decision_json

    if reservation is not None:
        snapshot = session.snapshot()
        promise = find_promise(session, snapshot, reservation)
        _check_due(promise, session.now)
        decision = _activation(session, reservation)
        steps = preempt.activate(promise.key, means(session))
    else:
        decision = _tightening(session, budget or "")
        name, _, envelope = (budget or "").partition("/")
        steps = preempt.tighten(name, envelope or None, means(session))
    if decision.cuts and not yes:
        _confirm(session, decision)
    done = drive(steps, session.store)
    lottery = done.lottery or done.decision.lottery
    answer = decision_json(replace(done.decision, cuts=done.yielded or done.decision.cuts, lottery=lottery))
    if not session.data(answer):
        session.out(resolved(answer, [entry.seq for entry in done.cuts], _freed(done.cuts)))
    return exit_of(done.decision)


def _check_due(promise: Reservation, now: int) -> None:
    """Section 8: `resolve` before the time is an error."""
    from kubectl_runs.text import span
    from kubectl_runs.wire.times import rfc3339

    start = promise.earliest_start
    if start is not None and start > now:
        raise errors.RunsError(
            f"reservation {promise.key} is not due: it starts at {rfc3339(start)}, in {span(start - now)}",
            hint=f"kubectl runs resolve {promise.name} -n {promise.namespace} --dry-run",
        )


def _confirm(session: Session, decision: Decision) -> None:
    from kubectl_runs.render.resolve import yielding
    from kubectl_runs.wire.decision import decision_json

    session.note(yielding(decision_json(decision)))
    if not session.confirm("Make these cuts?"):
        raise errors.RunsError("not confirmed, nothing was changed")


def _freed(cuts: Sequence[Entry]) -> int:
    """How many leases the Cut entries ended."""
    return sum(len(entry.ends) for entry in cuts)


def exit_of(decision: Decision) -> int:
    """`start`, `cut` and `none` are done; `reserve` and `refuse` say why not, exit 1."""
    return errors.DONE if decision.verdict in ("start", "cut", "none") else errors.FAILED


def _activation(session: Session, name: str) -> Decision:
    from planner.resolve import activate

    snapshot = session.snapshot()
    promise = find_promise(session, snapshot, name)
    # On a cluster the freeze of an open promise stays pending, so it has been read.
    freezes = _frozen_before(session, snapshot) if session.is_file else ()
    return activate(snapshot, promise, session.now, freezes)


def _tightening(session: Session, named: str) -> Decision:
    from planner.resolve import tighten

    budget, _, envelope = named.partition("/")
    snapshot = session.snapshot()
    check_budget(snapshot, budget, envelope)
    return tighten(snapshot, budget, envelope or None, session.now, _frozen_before(session, snapshot))


def _frozen_before(session: Session, snapshot: Snapshot) -> tuple[Entry, ...]:
    """R4: an order that was frozen stands, also where base has passed its entry; only without one it is an example."""
    from kubectl_runs.commit.preempt import frozen_before
    from kubectl_runs.commit.steps import drive

    return drive(frozen_before(snapshot), session.store)


def find_promise(session: Session, snapshot: Snapshot, name: str) -> Reservation:
    """The reservation named; in a file without `-n` it may be in any namespace, if only one has that name."""
    from planner.fold import reservations_by_key

    known = reservations_by_key(snapshot)
    namespace, bare = session.key(name)
    if (found := known.get(f"{namespace}/{bare}")) is not None:
        return found
    elsewhere = [made for made in known.values() if made.name == bare] if session.is_file else []
    if len(elsewhere) == 1 and not session.flags.namespace:
        return elsewhere[0]
    raise errors.NotFoundError(
        f"reservation {bare} not found in namespace {namespace}", hint="kubectl runs reservations -A"
    )


def check_budget(snapshot: Snapshot, budget: str, envelope: str) -> None:
    """Both names exist, or the error says which do."""
    found = next((each for each in snapshot.budgets if each.name == budget), None)
    if found is None:
        known = ", ".join(sorted(each.name for each in snapshot.budgets)) or "none"
        raise errors.NotFoundError(f"budget {budget} not found, there are: {known}", hint="kubectl runs budgets")
    names = sorted(each.name for each in found.envelopes)
    if envelope and envelope not in names:
        raise errors.NotFoundError(
            f"budget {budget} has no envelope {envelope}, it has: {', '.join(names) or 'none'}",
            hint=f"kubectl runs resolve --budget {budget} --dry-run",
        )
