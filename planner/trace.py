"""The trace of a decision in words, and the slice rebuilt from it.

A trace holds facts only; this module words them (C7) and proves them: `replay` makes the seats from the steps alone,
so that `explain` cannot tell another story than the one that happened.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from planner.cover import Segment
from planner.model import Domain, FundingClass, Payer, Role, Run, Seat, Snapshot, Step
from planner.seats import placements_of, share_out
from planner.shape import PlacedGroup

ITEMS_MAX = 24  # sources or domains that a message names before it sums up the rest


def message_of(trace: Iterable[Step]) -> str:
    """C7: every source asked, in order, with its numbers; of placement, every domain that could not hold it."""
    words = [_words(step) for step in trace if _tells(step)]
    merged = [_counted(item, len(list(same))) for item, same in groupby(words)]
    if len(merged) > ITEMS_MAX:
        hidden = len(merged) - ITEMS_MAX
        merged = [*merged[: ITEMS_MAX // 2], f"{hidden} more", *merged[-ITEMS_MAX // 2 :]]
    return "; ".join(merged)


def _tells(step: Step) -> bool:
    return step.act == "unplaced" or (step.act in ("asked", "took") and step.rule.startswith("C3"))


def _counted(item: str, times: int) -> str:
    return item if times == 1 else f"{item} x{times}"


def _words(step: Step) -> str:
    verdict = "paid" if step.reason is None else step.reason.value
    if step.had is None:
        return f"{step.subject}: need {step.need} ({verdict})"
    return f"{step.subject}: need {step.need}, had {step.had} ({verdict})"


def replay(snapshot: Snapshot, run: Run, trace: Sequence[Step]) -> tuple[Seat, ...]:
    """The seats that a trace adds up to: its `placed` steps give places, its `took` steps give payers."""
    owners = {budget.name: budget.owner for budget in snapshot.budgets}
    paid: dict[tuple[int, Role], list[Segment]] = {}
    for step in trace:
        if step.act == "took" and step.group is not None and step.role is not None:
            paid.setdefault((step.group, step.role), []).append(_segment(step, owners))
    seats: list[Seat] = []
    for places in placements_of(run, _groups(run, trace)):
        purse = paid[places[0].group, places[0].role]
        segments = _spend(purse, len(places) * run.gpus_per_pod)
        seats += share_out(places, segments, run.gpus_per_pod)
    return tuple(seats)


def _segment(step: Step, owners: dict[str, str]) -> Segment:
    budget, _, envelope = step.subject.partition("/")
    return Segment(
        payer=Payer(budget, envelope),
        owner=owners[budget],
        funding=step.funding or FundingClass.OWNED,
        gpus=step.took or 0,
    )


def _spend(purse: list[Segment], gpus: int) -> list[Segment]:
    """Takes the first segments that add up to the request; requests of one group and role follow one another."""
    spent: list[Segment] = []
    while gpus > 0:
        segment = purse.pop(0)
        spent.append(segment)
        gpus -= segment.gpus
    return spent


def _groups(run: Run, trace: Sequence[Step]) -> Iterable[PlacedGroup]:
    placed = [step for step in trace if step.act == "placed" and step.group is not None]
    for index in dict.fromkeys(step.group for step in placed):
        mine = [step for step in placed if step.group == index]
        work = [step for step in mine if step.role is not Role.SPARE]
        yield PlacedGroup(
            index=index or 0,
            domain=_domain(work[0].subject),
            pods=tuple(node for step in work for node in [step.node or ""] * ((step.took or 0) // run.gpus_per_pod)),
            spares=tuple((_domain(step.subject), step.node or "") for step in mine if step.role is Role.SPARE),
        )


def _domain(name: str) -> Domain:
    region, cluster, fabric = name.split("/", 2)
    return Domain(region, cluster, fabric)
