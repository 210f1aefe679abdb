"""`who-pays`: GPUs and GPU-hours by payer, now and in any window, exact to the GPU-second."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from kubectl_runs import errors
from kubectl_runs.flags import with_session

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubectl_runs.money import Owners
    from kubectl_runs.past import Past
    from kubectl_runs.session import Session
    from planner.model import Lease

Since = Annotated[
    str | None,
    typer.Option("--since", metavar="TIME|SPAN", help="From then on (2026-01-05T12:00:00Z, 2026-01-05, 24h)"),
]
Until = Annotated[str | None, typer.Option("--until", metavar="TIME|SPAN", help="Up to then, not including it")]
BYS = ("payer", "run", "day", "flavor")


@with_session
def command(
    session: Session,
    run: Annotated[str | None, typer.Argument(metavar="RUN", help="What this run cost", show_default=False)] = None,
    owner: Annotated[str | None, typer.Option("--owner", metavar="OWNER", help="What this owner paid")] = None,
    used_by: Annotated[
        str | None, typer.Option("--used-by", metavar="OWNER", help="What this owner's runs used, whoever paid")
    ] = None,
    since: Since = None,
    until: Until = None,
    by: Annotated[str | None, typer.Option("--by", metavar="|".join(BYS), help="One row for each")] = None,
) -> None:
    """Split GPUs and GPU-hours by payer.

    GPUS are those held at the end of the window, GPU-HOURS those used in it. Intervals hold their start and not their
    end, so windows that follow each other add up. The class of a payment is what its lease says: history does not
    change when the organisation does. Spares and fillers stand in rows of their own.

    Examples:
      kubectl runs who-pays train-128
      kubectl runs who-pays --owner org:ai:mm --since 24h
      kubectl runs who-pays --used-by 'org:ai:*' --since 2026-03-01 --until 2026-04-01 --by day
    """
    from kubectl_runs.render.who_pays import render

    if sum(given is not None for given in (run, owner, used_by)) != 1:
        raise errors.UsageError("name one of RUN, --owner or --used-by", hint="kubectl runs who-pays train")
    if by is not None and by not in BYS:
        raise errors.UsageError(f"unknown --by {by}, allowed are: {', '.join(BYS)}")
    answer = bill(session, run=run, owner=owner, used_by=used_by, since=since, until=until, by=by)
    if session.format == "name":
        session.out("".join(f"{row['budget']}/{row['envelope']}\n" for row in answer["rows"]))
    elif not session.data(answer):
        session.out(render(answer, color=session.color, by=by))


def bill(
    session: Session,
    *,
    run: str | None,
    owner: str | None,
    used_by: str | None,
    since: str | None,
    until: str | None,
    by: str | None,
) -> dict[str, Any]:
    """The answer as JSON (section 8)."""
    from kubectl_runs.money import Owners, window
    from kubectl_runs.past import Past
    from kubectl_runs.render.who_pays import to_json
    from kubectl_runs.wire.kinds import RUN
    from planner.usage import By, Meter

    owners = Owners.read(session.store)
    past = Past(session)
    subject, namespace, fields, wanted = _subject(session, owners, past, run, owner, used_by)
    span = window(session.now, since, until)
    meter = past.uses(
        lambda: Meter(span, By(by) if by else None),
        lambda meter, lease: meter.add(owners.learn(lease)) if wanted(lease) else None,
        namespace=namespace,
        fields=fields,
    )
    if run is not None and not meter.sums and since is None and until is None:
        session.find(RUN, run)  # neither a run nor a lease of that name: say so
    if past.base.floor and span.since is None:
        session.note(f"leases up to ledger entry {past.base.floor} may be archived and are then not counted")
    return to_json(subject, meter, owners, since=span.since, by=by)


def _subject(
    session: Session, owners: Owners, past: Past, run: str | None, owner: str | None, used_by: str | None
) -> tuple[str, str, tuple[str, ...], Callable[[Lease], bool]]:
    """Whom it is about: its name, where its leases are, what the server may filter by, and which of them count."""
    from planner.family import glob_matches

    if run is not None:
        namespace, name = _run(session, run)
        return f"{namespace}/{name}", namespace, (f"spec.runRef.name={name}",), lambda lease: lease.run_name == name
    if used_by is not None:
        return used_by, "", ("",), lambda lease: glob_matches(used_by, lease.owner)
    assert owner is not None
    # A server finds a payer's leases itself: of 100,000 only those that count are sent.
    fields: tuple[str, ...] = ("",)
    if hasattr(session.store, "pages"):
        fields = tuple(f"spec.paidByBudget={budget}" for budget in owners.may_pay(owner, past))
    return owner, "", fields, lambda lease: owners.pays(lease, owner)


def _run(session: Session, name: str) -> tuple[str, str]:
    """A run that exists, or one that is gone and whose leases tell of it."""
    from kubectl_runs.wire.kinds import RUN

    try:
        metadata = session.find(RUN, name)["metadata"]
        return metadata["namespace"], metadata["name"]
    except errors.NotFoundError:
        return session.key(name)
