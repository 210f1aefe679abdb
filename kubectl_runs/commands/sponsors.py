"""`sponsors`: who may lend to whom and how much is left; and a run's own list of sponsors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from kubectl_runs import errors
from kubectl_runs.flags import with_session

if TYPE_CHECKING:
    from kubectl_runs.session import Session
    from planner.model import Run, Snapshot

HELP = """Show who lends to whom; edit a run's sponsors.

Examples:
  kubectl runs sponsors list
  kubectl runs sponsors add train org:lab:mm
"""
app = typer.Typer(add_completion=False, rich_markup_mode=None, help=HELP)

RunName = Annotated[str, typer.Argument(metavar="RUN", help="A run that exists", show_default=False)]
OwnerNames = Annotated[list[str], typer.Argument(metavar="OWNER...", help="Owners", show_default=False)]
DryRun = Annotated[str | None, typer.Option("--dry-run", metavar="[client|server]", help="Only say what would change")]


@app.command("list")
@with_session
def list_(
    session: Session,
    borrower: Annotated[
        str | None, typer.Option("--for", metavar="OWNER|RUN", help="May this owner, or this run, borrow there?")
    ] = None,
) -> None:
    """List every envelope that lends, what is left, and whether one may borrow.

    Without --for the question is asked for the owner of the current namespace, if it has one.

    Examples:
      kubectl runs sponsors list
      kubectl runs sponsors list --for org:ai:rai
      kubectl runs sponsors list --for train-128
    """
    from kubectl_runs.render.sponsors import HEADER, RIGHT, row, to_json
    from planner.lenders import lenders
    from planner.world import World

    snapshot = session.snapshot()
    owner, run = _borrower(session, snapshot, borrower)
    found = lenders(World.of(snapshot, session.now), owner, run)
    for one in found:
        if one.nearly_used_up:
            session.note(f"warning: {one.purse.payer.name} has lent 90 % or more of what it lends")
    if session.format == "name":
        session.out("".join(f"{one.purse.payer.name}\n" for one in found))
    elif not session.data(to_json(found)):
        session.table(HEADER, [row(one) for one in found], right=RIGHT)


def _borrower(session: Session, snapshot: Snapshot, word: str | None) -> tuple[str | None, Run | None]:
    """The owner or the run named; else the owner of the namespace."""
    if word is None:
        return snapshot.namespace_owners.get(session.namespace), None
    if ":" in word or any(budget.owner == word for budget in snapshot.budgets):
        return word, None
    run = _find(session, snapshot, word)
    return run.owner, run


def _find(session: Session, snapshot: Snapshot, word: str) -> Run:
    from kubectl_runs.wire.kinds import RUN

    metadata = session.find(RUN, word)["metadata"]
    key = f"{metadata['namespace']}/{metadata['name']}"
    return next(run for run in snapshot.runs if run.key == key)


@app.command("add")
@with_session
def add(
    session: Session,
    run: RunName,
    owners: OwnerNames,
    borrow_max: Annotated[
        int | None, typer.Option("--max-borrow", metavar="N", min=0, help="Limit of borrowed GPUs (maxBorrowGPUs)")
    ] = None,
    dry_run: DryRun = None,
) -> int:
    """Name sponsors for a run, so that it may borrow from them, and say what it would do now.

    They are asked in the order in which they are named, after the family. The run's allowBorrow is set too.

    Examples:
      kubectl runs sponsors add train-128 org:ai:mm
      kubectl runs sponsors add train-128 org:ai:mm org:bio:fold --max-borrow 32
      kubectl runs sponsors add train-128 org:ai:mm --dry-run
    """

    def change(funding: dict[str, Any]) -> None:
        named = funding.get("sponsors") or []
        funding["sponsors"] = [*named, *(owner for owner in dict.fromkeys(owners) if owner not in named)]
        funding["allowBorrow"] = True
        if borrow_max is not None:
            funding["maxBorrowGPUs"] = borrow_max

    return _edit(session, run, change, dry_run)


@app.command("remove")
@with_session
def remove(session: Session, run: RunName, owners: OwnerNames, dry_run: DryRun = None) -> int:
    """Take sponsors off a run's list. What it has borrowed already stays until it is given back.

    Examples:
      kubectl runs sponsors remove train-128 org:ai:mm
    """

    def change(funding: dict[str, Any]) -> None:
        missing = [owner for owner in owners if owner not in (funding.get("sponsors") or [])]
        if missing:
            raise errors.RunsError(
                f"run {run} does not name {missing[0]} as a sponsor", hint=f"kubectl runs sponsors list --for {run}"
            )
        funding["sponsors"] = [owner for owner in funding["sponsors"] if owner not in owners]

    return _edit(session, run, change, dry_run)


def _edit(session: Session, name: str, change: Any, dry_run: str | None) -> int:
    """Validate, show what `plan` would now do, and write. The server refuses if somebody else was quicker."""
    import copy

    from kubectl_runs.asked import Change, asked_run
    from kubectl_runs.store.protocol import Patch
    from kubectl_runs.wire import decode
    from kubectl_runs.wire.kinds import RUN
    from planner.plan import plan_run

    if session.is_file and dry_run is None:
        raise errors.UsageError("a snapshot file cannot be changed: --from needs --dry-run")
    asked = asked_run(session, name=name, file=None, change=Change(), verb="sponsors")
    made = copy.deepcopy(asked.object)
    funding = made["spec"].setdefault("funding", {})
    change(funding)
    run = decode.run(made, asked.snapshot.namespace_owners)
    _check(asked.snapshot, run)
    if dry_run != "client":
        metadata = made["metadata"]
        patch = {
            "metadata": {"uid": metadata.get("uid"), "resourceVersion": metadata.get("resourceVersion")},
            "spec": {"funding": funding},
        }
        session.store.perform(
            Patch(kind=RUN, name=run.name, namespace=run.namespace, patch=patch, dry_run=dry_run is not None)
        )
    decision = plan_run(asked.snapshot, run, session.now)
    if not session.data(
        {"run": run.key, "funding": funding, "plan": {"decision": str(decision.verdict), "message": decision.message}}
    ):
        from kubectl_runs.render.sponsors import edited

        session.out(edited(run, decision, dry_run=dry_run is not None))
    return errors.DONE


def _check(snapshot: Snapshot, run: Run) -> None:
    """Names that nobody has are mistakes, and a run that borrows needs somebody to borrow from (C5)."""
    known = {budget.owner for budget in snapshot.budgets}
    for owner in run.funding.sponsors:
        if owner not in known:
            raise errors.RunsError(f"no budget belongs to {owner}", hint="kubectl runs sponsors list")
        if owner == run.owner:
            raise errors.RunsError(f"{owner} is the run's own owner and pays without being asked")
