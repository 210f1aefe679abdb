"""`leases`: the facts. Who ran where, when, paid by whom, and why it ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kubectl_runs.flags import with_session

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubectl_runs.session import Session
    from planner.model import Lease
    from planner.usage import Window


@with_session
def command(
    session: Session,
    node: Annotated[str | None, typer.Option("--node", metavar="NODE", help="On this node")] = None,
    run: Annotated[str | None, typer.Option("--run", metavar="RUN", help="Of this run")] = None,
    payer: Annotated[
        str | None, typer.Option("--payer", metavar="BUDGET[/ENVELOPE]|OWNER", help="Paid by this budget or owner")
    ] = None,
    reason: Annotated[
        str | None, typer.Option("--reason", metavar="REASON", help="Begun or ended for this reason, seed or not")
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME|SPAN", help="Held at some time since then")
    ] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="TIME|SPAN", help="Begun before then")] = None,
    still_open: Annotated[bool, typer.Option("--open", help="Only those that hold GPUs now")] = False,
) -> None:
    """Show who ran where, when, paid by whom, and why it ended.

    With --node, --payer or --reason all namespaces are searched unless -n names one; otherwise the current one, or all
    with -A. A lease that an entry has closed counts as closed, also before somebody writes it.

    Examples:
      kubectl runs leases --node n17-04 --since 24h
      kubectl runs leases --run train-128
      kubectl runs leases --payer mm/west-h100 --open
      kubectl runs leases --reason RandomPreempt -A
    """
    from kubectl_runs.money import Owners, window
    from kubectl_runs.past import Past
    from kubectl_runs.render.leases import HEADER, RIGHT, WIDE, row
    from kubectl_runs.wire.kinds import LEASE

    everywhere = any((node, payer, reason)) and not session.flags.namespace
    namespace, name = session.key(run) if run else ("" if everywhere else session.scope, "")
    if run and session.is_file and not session.flags.namespace and "/" not in run:
        namespace = ""
    owners = Owners.read(session.store) if payer else Owners(())
    span = window(session.now, since, until)
    wanted = _wanted(span, owners, run=name, node=node, payer=payer, reason=reason, still_open=still_open)
    facts = Past(session).found(wanted, namespace=namespace, fields=_fields(name, still_open=still_open))
    if session.objects(LEASE, [obj for obj, _ in facts]):
        return
    wide = session.format == "wide"
    session.table(
        (*HEADER, *(WIDE if wide else ())), [row(lease, session.now, wide=wide) for _, lease in facts], right=RIGHT
    )


def _fields(run: str, *, still_open: bool) -> str:
    """What the server may filter by; the rest is looked at here."""
    parts = [f"spec.runRef.name={run}"] if run else []
    return ",".join([*parts, "status.closed!=true"] if still_open else parts)


def _wanted(
    span: Window,
    owners: object,
    *,
    run: str,
    node: str | None,
    payer: str | None,
    reason: str | None,
    still_open: bool,
) -> Callable[[Lease], bool]:
    from kubectl_runs.money import Owners

    assert isinstance(owners, Owners)

    def wanted(lease: Lease) -> bool:
        return (
            (not run or lease.run_name == run)
            and (node is None or lease.node == node)
            and (payer is None or owners.is_payer(lease, payer))
            and (reason is None or _has_reason(lease, reason))
            and (not still_open or not lease.closed)
            and lease.start_at <= span.until
            and (span.since is None or lease.end_at is None or lease.end_at > span.since)
        )

    return wanted


def _has_reason(lease: Lease, reason: str) -> bool:
    """Why it ended, with or without the seed of a draw; else why it began."""
    closure = lease.closure or ""
    return reason in (closure, closure.partition("(")[0], str(lease.reason))
