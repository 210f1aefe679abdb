"""A decision as the JSON of section 8: payers, groups and their placements are derived from its seats.

`digest` covers decision, run, width, payers, groups and cuts, and so neither times nor prose: two plans that would do
the same have the same digest, and `--check-plan` compares just that.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from kubectl_runs.wire.encode import step, without_nulls
from kubectl_runs.wire.times import rfc3339
from planner.digest import digest
from planner.model import Cut, Decision, Lottery, Remedy

Json = dict[str, Any]

DIGESTED = ("decision", "run", "width", "payers", "groups", "cuts")


def decision_json(decision: Decision) -> Json:
    """The whole answer, keys in the order of the design."""
    answer: Json = {
        "decision": decision.verdict.value,
        "run": decision.run,
        "reason": decision.reason.value if decision.reason else None,
        "message": decision.message,
        "width": decision.width,
        "payers": payers(decision),
        "groups": groups(decision),
        "earliestStart": _time(decision.earliest_start),
        "confidence": decision.confidence.value if decision.confidence else None,
        "deficitGPUs": decision.deficit_gpus,
        "cuts": [_cut(cut) for cut in decision.cuts],
        "lottery": _lottery(decision.lottery),
        "remedies": [_remedy(remedy) for remedy in decision.remedies],
        "trace": [step(fact) for fact in decision.trace],
    }
    return {**answer, "digest": decision_digest(answer)}


def decision_digest(answer: Json) -> str:
    """What `--check-plan` compares."""
    return digest(without_nulls({key: answer[key] for key in DIGESTED}))


def payers(decision: Decision) -> list[Json]:
    """One line for each envelope and class, in the order of payment; spares included."""
    shares: Counter[tuple[str, str, str, str]] = Counter()  # keeps the order of first payment
    for seat in decision.seats:
        shares[(*seat.payer, seat.owner, seat.funding.value)] += seat.gpus
    return [
        {"budget": budget, "envelope": envelope, "owner": owner, "gpus": gpus, "class": funding}
        for (budget, envelope, owner, funding), gpus in shares.items()
    ]


def groups(decision: Decision) -> list[Json]:
    """Groups by index, each with one placement for each node, role and payer, in that order."""
    places: dict[int, Counter[tuple[str, str, str]]] = {group.index: Counter() for group in decision.groups}
    for seat in decision.seats:
        places[seat.group][(seat.node, seat.role.value, seat.payer.name)] += seat.gpus
    return [
        {"index": group.index, "domain": group.domain.name, "placements": _placements(places[group.index])}
        for group in sorted(decision.groups, key=lambda group: group.index)
    ]


def _placements(places: Counter[tuple[str, str, str]]) -> list[Json]:
    return [
        {"node": node, "gpus": gpus, "role": role, "payer": payer}
        for (node, role, payer), gpus in sorted(places.items())
    ]


def _cut(cut: Cut) -> Json:
    return {
        "kind": cut.kind.value,
        "run": cut.run,
        "group": cut.group,
        "gpus": cut.gpus,
        "provisional": cut.provisional,
    }


def _lottery(lottery: Lottery | None) -> Json | None:
    if lottery is None:
        return None
    tokens = [
        {"run": chance.token.run, "owner": chance.token.owner, "gpus": chance.token.gpus, "chance": chance.chance}
        for chance in lottery.chances
    ]
    return {"seed": lottery.seed, "provisional": lottery.provisional, "tokens": tokens}


def _remedy(remedy: Remedy) -> Json:
    return {
        "kind": remedy.kind,
        "message": remedy.message,
        "command": remedy.command,
        "startsAt": _time(remedy.starts_at),
    }


def _time(at: int | None) -> str | None:
    return None if at is None else rfc3339(at)
