"""`export`: chargeback rows, one for each lease and billing hour, that add up to the GPU-second."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kubectl_runs import errors
from kubectl_runs.flags import with_session

if TYPE_CHECKING:
    from kubectl_runs.session import Session

FORMATS = ("csv", "jsonl", "focus")


@with_session
def command(
    session: Session,
    form: Annotated[str, typer.Option("--format", metavar="|".join(FORMATS), help="What to write")] = "csv",
    since: Annotated[str | None, typer.Option("--since", metavar="TIME|SPAN", help="From then on")] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="TIME|SPAN", help="Up to then, not including it")
    ] = None,
    last_export: Annotated[
        str | None,
        typer.Option("--last-export", metavar="TIME", help="When the export before this one was made, to correct it"),
    ] = None,
    rates: Annotated[
        str | None,
        typer.Option("--rates", metavar="FILE", help="Prices: YAML of flavor (or budget/envelope) to price a GPU-hour"),
    ] = None,
) -> None:
    """Write chargeback rows.

    One row for each lease and hour of UTC that it touches; GPU-seconds of the rows add up to those of the leases. The
    format `focus` has the columns of the FinOps cost and usage specification, ours beginning with `x_`. Text that a
    spreadsheet would take for a formula is written with a leading quote. An open lease counts up to now; if its end is
    recorded later and lies before that, --last-export takes back what was counted too much, as rows of its own.

    Examples:
      kubectl runs export --format csv --since 24h > usage.csv
      kubectl runs export --format focus --rates rates.yaml --since 2026-01-01T00:00:00Z --until 2026-02-01T00:00:00Z
    """
    import sys

    from kubectl_runs.money import Owners, moment, window
    from kubectl_runs.past import Past
    from kubectl_runs.render.export import Prices, correction_rows, corrections, lease_rows, write

    if form not in FORMATS:
        raise errors.UsageError(f"unknown format {form}, allowed are: {', '.join(FORMATS)}")
    if session.format != "table":
        raise errors.UsageError("export has formats of its own: --format csv, jsonl or focus")
    prices = Prices.read(rates) if rates else Prices({})
    owners = Owners.read(session.store)
    span = window(session.now, since, until)
    facts = Past(session).found(lambda lease: owners.learn(lease) is not None, namespace=session.flags.namespace or "")
    leases = [lease for _, lease in facts]
    rows = [row for lease in leases for row in lease_rows(lease, span, owners, prices)]
    if last_export is not None:
        last = moment(last_export, session.now, "--last-export")
        for wrong in corrections(leases, _recorded(session), span, last):
            rows += correction_rows(wrong, owners, prices)
    write(sys.stdout, form, rows, prices)


def _recorded(session: Session) -> dict[str, int]:
    """When the end of each lease was recorded: the time of the entry that closed it."""
    from kubectl_runs.store.protocol import List
    from kubectl_runs.wire import decode
    from kubectl_runs.wire.kinds import LEDGER_ENTRY

    entries = (decode.entry(item) for item in session.store.perform(List(kind=LEDGER_ENTRY)).items)
    return {f"{closed.namespace}/{closed.lease}": entry.time for entry in entries for closed in entry.closes}
