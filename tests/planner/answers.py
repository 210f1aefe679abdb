"""What the planner answered, in the words that tests compare."""

from __future__ import annotations

from collections.abc import Iterable

from planner.admit import Fit, Refusal, fit
from planner.model import Seat
from tests.planner.worlds import NOW, run_of, world


def fits(text: str, run: str, now: int = NOW) -> Fit:
    """The run fits into the world; the refusal is shown where it does not."""
    answer = fit(world(text, now), run_of(run))
    assert isinstance(answer, Fit), answer
    return answer


def refused(text: str, run: str, now: int = NOW) -> Refusal:
    """The run does not fit into the world."""
    answer = fit(world(text, now), run_of(run))
    assert isinstance(answer, Refusal), pays(answer.seats)
    return answer


def pays(seats: Iterable[Seat]) -> list[str]:
    """Who pays how much and how, in the order of payment: `rai/west 16 owned`."""
    sums: dict[tuple[str, str], int] = {}
    for seat in seats:
        key = (seat.payer.name, seat.funding.value)
        sums[key] = sums.get(key, 0) + seat.gpus
    return [f"{payer} {gpus} {funding}" for (payer, funding), gpus in sums.items()]


def places(seats: Iterable[Seat]) -> list[str]:
    """Where the GPUs are, by group, node and role: `0 d1-n1 8 Active`."""
    sums: dict[tuple[int, str, str], int] = {}
    for seat in seats:
        key = (seat.group, seat.node, seat.role.value)
        sums[key] = sums.get(key, 0) + seat.gpus
    return [f"{group} {node} {gpus} {role}" for (group, node, role), gpus in sums.items()]


def asked(answer: Fit | Refusal) -> list[str]:
    """Every source asked, in order: `C3.1 rai/west 24>16 ConcurrencyCap`."""
    return [
        f"{step.rule} {step.subject} {step.need}>{step.took}" + (f" {step.reason}" if step.reason else "")
        for step in answer.trace
        if step.rule.startswith("C3")
    ]
