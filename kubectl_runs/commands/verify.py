"""`verify`: what must hold, recomputed from the objects alone. Reads, judges, prints; repairs nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from kubectl_runs import errors
from kubectl_runs.flags import with_session

if TYPE_CHECKING:
    from kubectl_runs.session import Session
    from planner.audit import Audit

LOOKS_MAX = 3


@with_session
def command(
    session: Session,
    draw: Annotated[
        str | None, typer.Option("--draw", metavar="SEED", help="Only the lottery with this seed, drawn again")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="The whole list (the default)")] = False,
) -> int:
    """Check the ledger: chain, caps, conservation, draws.

    Everything is recomputed from the objects: the chain of digests, every cap at every entry, no GPU held twice,
    GPU-seconds by payer and by lease, closed leases unchanged, each draw from its frozen list and seed, and whether
    the planner would have allowed each entry. With --from FILE no cluster is needed.

    Exit codes: 0 all holds (warnings may remain), 1 something does not.

    Examples:
      kubectl runs verify
      kubectl runs verify --from snapshot.json -o json
      kubectl runs verify --draw 5f1c...e9
    """
    from kubectl_runs.render.verify import render, to_json

    if draw is not None and everything:
        raise errors.UsageError("--draw and --all exclude each other")
    found = _one_draw(session, draw) if draw is not None else _all(session)
    answer: dict[str, Any] = to_json(found)
    if session.format == "name":
        session.out("".join(f"{finding['object']}\n" for finding in answer["findings"]))
    elif not session.data(answer):
        session.out(render(answer, verbose=session.verbose > 0))
    return errors.DONE if found.ok else errors.FAILED


def _one_draw(session: Session, seed: str) -> Audit:
    from kubectl_runs.evidence import evidence, read_everything
    from planner.audit import audit_draw

    snapshot, _ = evidence(read_everything(session.store))
    return audit_draw(snapshot, session.now, _bare_seed(seed))


def _bare_seed(seed: str) -> str:
    """The seed as people paste it: alone, with 0x, or inside its closing reason."""
    return seed.removeprefix("RandomPreempt(").removesuffix(")").removeprefix("0x").lower()


def _all(session: Session) -> Audit:
    """The whole list. A cluster moves while it is read, so an error counts only if a second look shows it too."""
    found = _look(session)
    for _ in range(LOOKS_MAX - 1):
        if found.ok or session.is_file:
            break
        again = _look(session, again=True)
        if {*again.findings} == {*found.findings}:
            break
        found = found.confirmed_by(again)
    return found


def _look(session: Session, *, again: bool = False) -> Audit:
    from kubectl_runs.evidence import evidence, read_everything
    from planner.audit import examine

    objects = read_everything(
        session.store, lambda kind: session.note(f"{kind.plural} not visible: not judged") if not again else None
    )
    snapshot, facts = evidence(objects)
    return examine(snapshot, session.now if session.is_file else session.store.now(), facts)
