"""A Budget's status: how each envelope and cap stands, and whether one holds more than it may (R6).

For people and for `kubectl wait`; nothing that decides ever reads it. Written by whoever settles all namespaces and
has the rights, that is operators and the daemon. Who has none leaves it to them.
"""

from __future__ import annotations

from kubectl_runs.commit.steps import Steps
from kubectl_runs.read import Reading
from kubectl_runs.store.protocol import Object, Patch, Reply
from kubectl_runs.wire.encode import Json
from kubectl_runs.wire.kinds import BUDGET
from kubectl_runs.wire.times import rfc3339
from planner.statement import CapLine, EnvelopeLine, Statement, statements
from planner.world import World

HOUR = 3600
OVER_CAP = "OverCap"


def write_budgets(reading: Reading) -> Steps[list[str]]:
    """Brings every budget's status up to date; the names of those that were written."""
    writes: list[Patch] = []
    for found in statements(World.of(reading.snapshot, reading.now)):
        budget = reading.object(BUDGET, found.budget.name)
        if budget is None:
            continue
        status = budget_status(found, budget, reading.now)
        if not _same(budget.get("status") or {}, status):
            writes.append(Patch(kind=BUDGET, name=found.budget.name, patch={"status": status}, subresource="status"))
    outcomes = (yield tuple(writes)) if writes else ()
    return [write.name for write, outcome in zip(writes, outcomes, strict=True) if isinstance(outcome, Reply)]


def budget_status(found: Statement, budget: Object, now: int) -> Json:
    """The status that follows from the books. Envelopes and caps stand in the order of the spec's names."""
    envelopes = sorted(found.envelopes, key=lambda line: line.envelope.name)
    return {
        "observedGeneration": budget["metadata"].get("generation") or 1,
        "envelopes": [_envelope(line) for line in envelopes],
        "aggregateCaps": [_cap(line) for line in found.caps],
        "lentGPUs": sum(line.lent_gpus for line in envelopes),
        "settledGPUHours": sum(line.settled_seconds for line in envelopes) // HOUR,
        "conditions": [_condition(found, budget, now)],
    }


def _envelope(line: EnvelopeLine) -> Json:
    over = line.envelope.concurrency - line.held_gpus
    return {
        "name": line.envelope.name,
        "held": line.held_gpus,
        "headroom": min(over, line.headroom_gpus),
        "lent": line.lent_gpus,
        "settledGPUHours": line.settled_seconds // HOUR,
    }


def _cap(line: CapLine) -> Json:
    most = line.cap.concurrency_max
    if most is None:
        return {"name": line.cap.name, "held": line.held_gpus}
    left = most - line.held_gpus
    return {"name": line.cap.name, "held": line.held_gpus, "headroom": min(left, line.left_gpus or 0)}


def _condition(found: Statement, budget: Object, now: int) -> Json:
    over = sorted(line.payer.name for line in found.envelopes if line.over)
    state = "True" if found.over else "False"
    known = [one for one in (budget.get("status") or {}).get("conditions") or () if one.get("type") == OVER_CAP]
    since = known[0]["lastTransitionTime"] if known and known[0].get("status") == state else rfc3339(now)
    return {
        "type": OVER_CAP,
        "status": state,
        "reason": OVER_CAP if found.over else "WithinCaps",
        "message": f"{', '.join(over)} holds more than it may" if over else "every envelope is within its caps",
        "lastTransitionTime": since,
        "observedGeneration": budget["metadata"].get("generation") or 1,
    }


def _same(old: Json, new: Json) -> bool:
    return all(old.get(key) == value for key, value in new.items())
