"""`snapshot`: the planning state of a cluster or sandbox in one file, for what-if and for bug reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kubectl_runs.flags import with_session

if TYPE_CHECKING:
    from kubectl_runs.session import Session

HELP = """Save the planning state to one file, or show one.

Examples:
  kubectl runs snapshot save state.json
  kubectl runs snapshot show state.json
  kubectl runs plan -f train.yaml --from state.json
"""
app = typer.Typer(add_completion=False, rich_markup_mode=None, help=HELP)


@app.command("save")
@with_session
def save(
    session: Session,
    file: Annotated[str, typer.Argument(metavar="FILE", help="Where to write, or - for stdout")],
    redact: Annotated[bool, typer.Option("--redact", help="Replace all names, keeping their order")] = False,
    history: Annotated[bool, typer.Option("--history/--no-history", help="With closed leases and old entries")] = True,
) -> None:
    """Save the planning state to one file.

    The file holds nodes, pods, budgets, runs, leases, reservations, ledger entries, the ledger's base and
    namespaces, as far as planning needs them: of pods no command line and no environment. Any reading command takes
    it with --from, at the time it was saved.

    --redact replaces every name and drops pod templates, keeping the order of names, so that the planner decides the
    same; digests are made anew, and lottery draws can no longer be verified.

    Examples:
      kubectl runs snapshot save state.json
      kubectl runs snapshot save report.json --redact
      kubectl runs plan -f train.yaml --from state.json
    """
    from kubectl_runs import saving

    objects = saving.collect(session.store, history=history)
    if redact:
        from kubectl_runs.redact import redacted

        objects = redacted(objects)
    saving.write(file, saving.as_list(objects, saved_at=session.now))
    session.note(f"{saving.counted(objects)} saved to {file}")


@app.command("show")
@with_session
def show(
    session: Session,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A snapshot file, or - for stdin")],
) -> None:
    """Show what a snapshot file holds.

    Examples:
      kubectl runs snapshot show state.json
      kubectl runs snapshot show state.json -o yaml
    """
    from kubectl_runs import saving
    from kubectl_runs.render.snapshot import table
    from kubectl_runs.store.snapshot import SnapshotStore

    store = SnapshotStore.open(file)
    objects = [obj for found in store.objects.values() for obj in found.values()]
    if not session.data(saving.as_list(objects, saved_at=store.now())):
        session.out(table(store.snapshot, store.now()))
