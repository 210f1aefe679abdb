"""What the audit says of a test's world."""

from __future__ import annotations

from kubectl_runs.evidence import evidence
from planner.audit import Audit, Severity, examine
from tests.ledger_world import NOW, World


def audited(world: World) -> Audit:
    snapshot, facts = evidence(world.list())
    return examine(snapshot, NOW, facts)


def errors(world: World) -> list[tuple[str, str, str]]:
    return [
        (str(found.check), found.object, found.message)
        for found in audited(world).findings
        if found.severity is Severity.ERROR
    ]
