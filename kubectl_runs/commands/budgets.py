"""`budgets`: where every envelope and cap stands, nearest limit first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kubectl_runs import errors
from kubectl_runs.flags import with_session

if TYPE_CHECKING:
    from kubectl_runs.session import Session
    from planner.statement import Statement


@with_session
def command(
    session: Session,
    owner: Annotated[
        str | None, typer.Argument(metavar="OWNER|BUDGET", help="Only this owner's, or this budget", show_default=False)
    ] = None,
    tree: Annotated[bool, typer.Option("--tree", help="As the tree of the organisation, from OWNER down")] = False,
) -> None:
    """Show envelopes, use, headroom and the nearest limit.

    HEADROOM is what work without a duration could take now; HELD, RESERVED and HEADROOM add up to the concurrency
    where that is the nearest limit. GPU-hours promised are those that open leases and reservations have used or may
    still use. An envelope over its cap (OverCap) takes on nothing new; `kubectl runs resolve --budget` brings it back.

    Examples:
      kubectl runs budgets
      kubectl runs budgets org:ai:rai
      kubectl runs budgets --tree org:ai
    """
    from kubectl_runs.render.budgets import render, to_json
    from planner.statement import statements
    from planner.world import World

    world = World.of(session.snapshot(), session.now)
    chosen = _chosen(statements(world), owner, tree=tree)
    if owner is not None and not chosen:
        raise errors.NotFoundError(f"no budget of owner {owner}", hint="kubectl runs budgets")
    for one in chosen:
        if one.over:
            session.note(f"warning: budget {one.budget.name} is over its cap (OverCap) and takes on nothing new there")
            session.hint(f"kubectl runs resolve --budget {one.budget.name} --dry-run")
    if session.format == "name":
        session.out("".join(f"budget.rq.davidlangworthy.io/{one.budget.name}\n" for one in chosen))
    elif not session.data(to_json(chosen)):
        session.out(render(chosen, world, tree=tree, wide=session.format == "wide"))


def _chosen(found: tuple[Statement, ...], owner: str | None, *, tree: bool) -> tuple[Statement, ...]:
    from planner.family import glob_matches

    if tree:
        return tuple(
            one
            for one in sorted(found, key=lambda one: (one.budget.owner.split(":"), one.budget.name))
            if owner is None or (one.budget.owner + ":").startswith(owner + ":")
        )
    if owner is None:
        return found
    return tuple(one for one in found if glob_matches(owner, one.budget.owner) or one.budget.name == owner)
