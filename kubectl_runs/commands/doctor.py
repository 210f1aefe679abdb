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
    from kubectl_runs.store.protocol import Forbidden, Get, NotFound, StoreError
    from kubectl_runs.wire.crds import definitions
    from kubectl_runs.wire.kinds import INSTALLED
    from kubectl_runs.wire.policies import policies

    if session.is_file or session.sandbox_file is not None:
        return
    kinds = {kind.name: kind for kind in INSTALLED}
    wanted = [*definitions(), *policies()]
    looks = session.store.perform_all([Get(kind=kinds[one["kind"]], name=one["metadata"]["name"]) for one in wanted])
    hidden = sorted({one["kind"] for one, look in zip(wanted, looks, strict=True) if isinstance(look, Forbidden)})
    for kind in hidden:
        yield _install(f"{kind.lower()}s", "may not be read by you, and were not compared", wrong=False)
    for one, look in zip(wanted, looks, strict=True):
        name = f"{one['kind'].lower()}/{one['metadata']['name']}"
        if isinstance(look, NotFound):
            yield _install(name, "is missing")
        elif not isinstance(look, StoreError) and not covers(look.object["spec"], one["spec"]):
            yield _install(name, "is not as this version ships it")


def _install(subject: str, message: str, *, wrong: bool = True) -> Symptom:
    from planner.audit_history import Severity
    from planner.checkup import Symptom

    severity = Severity.ERROR if wrong else Severity.INFO
    command = "kubectl runs install" if wrong else "kubectl runs doctor --as OPERATOR"
    return Symptom(check="install", severity=severity, object=subject, message=message, command=command)


def covers(live: Any, wanted: Any) -> bool:
    """Whether an object says all that was wanted; the server adds defaults, but never to a list."""
    if isinstance(wanted, dict):
        return isinstance(live, dict) and all(covers(live.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list):
        return isinstance(live, list) and len(live) == len(wanted) and all(map(covers, live, wanted))
    return bool(live == wanted) or (not wanted and live is None)


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
