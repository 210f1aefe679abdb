"""`sandbox`: make an embedded cluster in one file, and let things happen in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kubectl_runs.flags import with_session

if TYPE_CHECKING:
    from kubectl_runs.session import Session
    from kubectl_runs.store.sandbox import SandboxStore
    from kubectl_runs.store.sandbox.world import World

HELP = """Make and drive an embedded cluster; no Kubernetes needed.

Examples:
  kubectl runs sandbox init
  kubectl runs sandbox advance 2h
  kubectl runs list --sandbox
"""
app = typer.Typer(add_completion=False, rich_markup_mode=None, help=HELP)


@app.command("init")
@with_session
def init(
    session: Session,
    file: Annotated[str | None, typer.Argument(metavar="FILE", help="Where to keep it", show_default=False)] = None,
    fleet: Annotated[
        list[str] | None,
        typer.Option("--fleet", metavar="ISLAND", help="region/cluster/domain=NODESxGPUS[:FLAVOR]; may be repeated"),
    ] = None,
    at: Annotated[str | None, typer.Option("--at", metavar="TIME", help="The time it is there")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace what is in the file")] = False,
) -> None:
    """Make a sandbox: a fleet, the budgets of a small organisation, and a clock.

    Without --fleet there are two islands of 72 H100 each. Four owners share all GPUs: org:ai:rai and org:ai:nlp are
    family, org:ai is their parent, org:lab:mm lends half of what it has. Each has a namespace and a budget. The clock
    stands still until `sandbox advance`, or a command that waits, lets time pass.

    Examples:
      kubectl runs sandbox init
      kubectl runs sandbox init try.db --fleet us-west/a/d1=4x8 --fleet us-east/b/d1=2x8:A100
      kubectl runs sandbox init --at 2026-03-02T09:00:00Z --force
    """
    from kubectl_runs.errors import RunsError
    from kubectl_runs.render.sandbox import made
    from kubectl_runs.store.sandbox import SandboxStore
    from kubectl_runs.store.sandbox.database import Database

    recipe = _recipe(fleet, at)
    path = file or _file(session)
    store = SandboxStore(Database(path))
    try:
        if not store.fill(recipe, unless_filled=not force):
            raise RunsError(f"{path} is a sandbox already", hint=f"kubectl runs sandbox reset --sandbox={path}")
    finally:
        store.close()
    if not session.data({"file": path, **recipe.to_value()}):
        session.out(made(path, recipe))
    session.hint(f"export KUBECTL_RUNS_SANDBOX={path} && kubectl runs budgets")


@app.command("reset")
@with_session
def reset(session: Session) -> None:
    """Make the sandbox as it was when it was made: same fleet, same time, nothing run.

    Examples:
      kubectl runs sandbox reset
      kubectl runs sandbox reset --sandbox=try.db
    """
    from kubectl_runs.render.sandbox import made

    store = _store(session)
    recipe = store.recipe()
    store.fill(recipe)
    if not session.data({"file": _file(session), **recipe.to_value()}):
        session.out(made(_file(session), recipe))


@app.command("advance")
@with_session
def advance(
    session: Session,
    duration: Annotated[str, typer.Argument(metavar="DURATION", help="How long, as 90s, 30m or 1h30m")],
) -> None:
    """Let time pass: pods end, deadlines strike, promises fall due.

    A simulated pod runs until its deadline, or as its annotations say: sim.rq.davidlangworthy.io/after is how long,
    sim.rq.davidlangworthy.io/phase how it ends (Succeeded or Failed). What ended is closed by the next command that
    changes anything, or by `settle`.

    Examples:
      kubectl runs sandbox advance 2h
    """
    from kubectl_runs.render.sandbox import advanced
    from kubectl_runs.session import seconds
    from kubectl_runs.store.sandbox import controls
    from kubectl_runs.wire.times import rfc3339

    span = seconds(duration, "DURATION")
    now, happened = controls.advance(_store(session), span)
    if not session.data({"now": rfc3339(now), "pods": dict(happened)}):
        session.out(advanced(now, span, happened))
    if happened["succeeded"] or happened["failed"]:
        session.hint("kubectl runs settle -A")


@app.command("fail-node")
@with_session
def fail_node(
    session: Session,
    node: Annotated[str, typer.Argument(metavar="NODE", help="Which one")],
    how: Annotated[
        str, typer.Option("--how", metavar="out-of-service|removed|not-ready", help="What is to be seen of it")
    ] = "out-of-service",
) -> None:
    """Fail a node: its pods answer no more.

    A node counts as failed only when its Node object is gone or it carries the out-of-service taint (S1). With
    --how not-ready nothing follows, however long it lasts.

    Examples:
      kubectl runs sandbox fail-node d1-n3
      kubectl runs sandbox fail-node d1-n3 --how removed
    """
    from kubectl_runs.errors import NotFoundError, UsageError
    from kubectl_runs.render.sandbox import node_failed
    from kubectl_runs.store.protocol import NotFound
    from kubectl_runs.store.sandbox import controls

    if how not in list(controls.Failure):
        raise UsageError(f"--how {how}: allowed are {', '.join(controls.Failure)}")
    store = _store(session)
    try:
        lost = controls.fail_node(store, node, controls.Failure(how))
    except NotFound:
        raise NotFoundError(f"no node {node} in the sandbox", hint=_nodes(store)) from None
    if not session.data({"node": node, "how": how, "pods": lost}):
        session.out(node_failed(node, how, lost))
    if lost and how != controls.Failure.NOT_READY:
        session.hint("kubectl runs settle -A")


@app.command("complete")
@with_session
def complete(
    session: Session,
    run: Annotated[str, typer.Argument(metavar="RUN", help="Which one")],
    fail: Annotated[bool, typer.Option("--fail", help="Its pods fail instead")] = False,
) -> None:
    """End a run's pods now, as if its work were done.

    Examples:
      kubectl runs sandbox complete train
      kubectl runs sandbox complete train --fail
    """
    from kubectl_runs.errors import NotFoundError
    from kubectl_runs.render.sandbox import completed
    from kubectl_runs.store.protocol import NotFound
    from kubectl_runs.store.sandbox import controls

    store = _store(session)
    namespace, name = session.key(run) if "/" in run or session.flags.namespace else (store.namespace, run)
    phase = "Failed" if fail else "Succeeded"
    try:
        ended = controls.complete(store, namespace, name, phase)
    except NotFound:
        message = f"run {name} not found in namespace {namespace}"
        raise NotFoundError(message, hint="kubectl runs list -A --sandbox") from None
    if not session.data({"run": f"{namespace}/{name}", "phase": phase, "pods": ended}):
        session.out(completed(namespace, name, phase, ended))
    session.hint(f"kubectl runs settle -n {namespace}")


def _recipe(fleet: list[str] | None, at: str | None) -> World:
    from dataclasses import replace

    from kubectl_runs.errors import UsageError
    from kubectl_runs.session import instant
    from kubectl_runs.store.sandbox import world

    recipe = world.DEFAULT
    try:
        recipe = replace(recipe, islands=world.fleet(fleet)) if fleet else recipe
    except ValueError as error:
        raise UsageError(f"--fleet: {error}") from None
    return replace(recipe, begins_at=instant(at, "--at")) if at else recipe


def _nodes(store: SandboxStore) -> str:
    from kubectl_runs.store.protocol import List
    from kubectl_runs.wire.kinds import NODE

    names = [item["metadata"]["name"] for item in store.perform(List(kind=NODE)).items]
    return f"its nodes are {names[0]} to {names[-1]}" if names else "it has no nodes"


def _file(session: Session) -> str:
    """These commands are about a sandbox whether or not `--sandbox` says so."""
    from kubectl_runs.session import default_sandbox

    return session.sandbox_file or default_sandbox()


def _store(session: Session) -> SandboxStore:
    from kubectl_runs.store import open_sandbox

    return open_sandbox(_file(session))
