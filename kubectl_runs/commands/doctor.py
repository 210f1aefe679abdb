"""`doctor`: what an operator must know in one page, each thing with the command that helps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kubectl_runs import errors
from kubectl_runs.flags import with_session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kubectl_runs.session import Session
    from planner.checkup import Symptom
    from planner.world import World

SKEW_SECONDS_MAX = 60


@with_session
def command(session: Session) -> int:
    """Look for missing labels, foreign pods, drift and missing policies.

    Reported are nodes that take no work and why, GPU pods that no lease pays for, leases without pods, reciprocal
    lending, caps beyond the hardware or over what they hold, promises overdue, definitions and policies that are
    missing or were changed, and clock skew.

    Exit codes: 0 nothing is wrong, 1 something is.

    Examples:
      kubectl runs doctor
      kubectl runs doctor -o json
      kubectl runs doctor --from snapshot.yaml
    """
    from kubectl_runs.render.doctor import render, to_json
    from planner.checkup import checkup
    from planner.world import World

    world = World.of(session.snapshot(), session.now)
    found = [*_ledger(session, world), *_installed(session), *_clock(session), *checkup(world)]
    answer: dict[str, Any] = to_json(found)
    if session.format == "name":
        session.out("".join(f"{one.object}\n" for one in found))
    elif not session.data(answer):
        session.out(render(answer))
    return errors.DONE if answer["ok"] else errors.FAILED


def _ledger(session: Session, world: World) -> Iterator[Symptom]:
    """Without `base` nothing can be committed; a file needs none."""
    from planner.audit_history import Severity
    from planner.checkup import Symptom

    if world.snapshot.base is None and not session.is_file:
        yield Symptom(
            check="ledger",
            severity=Severity.ERROR,
            object="ledger/base",
            message="does not exist: nothing can be committed",
            command="kubectl runs install",
        )


def _installed(session: Session) -> Iterator[Symptom]:
    """Definitions and policies as this version ships them; a file and the sandbox have none."""
    from kubectl_runs.store.protocol import StoreError
    from planner.audit_history import Severity
    from planner.checkup import Symptom

    if session.is_file or session.sandbox_file is not None:
        return
    from kubectl_runs.apply import Result, apply_all
    from kubectl_runs.wire.crds import definitions
    from kubectl_runs.wire.policies import policies

    for wanted in (*definitions(), *policies()):
        name = f"{wanted['kind'].lower()}/{wanted['metadata']['name']}"
        try:
            (outcome,) = apply_all(session.store, [wanted], dry_run=True)
        except StoreError as error:
            yield Symptom(
                check="install",
                severity=Severity.INFO,
                object=name,
                message=f"could not be compared: {error.message}",
                command="kubectl runs doctor --as an-operator",
            )
            continue
        if outcome.result is not Result.UNCHANGED:
            missing = outcome.result is Result.CREATED
            yield Symptom(
                check="install",
                severity=Severity.ERROR,
                object=name,
                message="is missing" if missing else "is not as this version ships it",
                command="kubectl runs install",
            )


def _clock(session: Session) -> Iterator[Symptom]:
    """A laptop whose clock is off confuses people: every time that counts is the server's."""
    import time

    from planner.audit_history import Severity
    from planner.checkup import Symptom

    if session.is_file or session.sandbox_file is not None:
        return
    skew = int(time.time()) - session.store.now()
    if abs(skew) > SKEW_SECONDS_MAX:
        yield Symptom(
            check="clock",
            severity=Severity.WARNING,
            object="clock/local",
            message=f"this machine's clock is {abs(skew)} seconds {'ahead of' if skew > 0 else 'behind'} the server's",
            command="timedatectl status",
        )
