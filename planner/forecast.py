"""When a run that does not fit now will: the walk through known events (F1 a, c).

Known are the ends of work with a duration, windows that open or close, and earlier reservations; nothing is guessed,
so the first instant at which the planner itself says yes is exact. What else may be done is `plan` and `cuts`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from planner.admit import Fit, Refusal, could_pay, fit
from planner.model import Lease, Reason, Run
from planner.outlook import Outlook
from planner.promise import promised
from planner.values import dataclass
from planner.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """The first instant at which a run fits, and how."""

    instant: int
    fit: Fit


def never(world: World, run: Run) -> Refusal | None:
    """F1 (a): why the run could never start, or None if it could.

    Every window to come is tried with nothing held: hours burnt stay burnt. A missing place is told where somebody
    could pay; of several other refusals the first that is not merely a closed window, since waiting would not help.
    """
    refusals = []
    for instant in world.window_starts(run.flavor):
        answer = could_pay(world.unused(instant), run)
        if isinstance(answer, Fit):
            return None
        if not answer.funding:
            return answer
        refusals.append(answer)
    return next((no for no in refusals if no.reason is not Reason.WINDOW_CLOSED), refusals[0])


def first_opening(world: World, run: Run, refusal: Refusal, until: int | None = None) -> Opening | None:
    """F1 (c): the first known event at which the run fits.

    An event is passed over where it cannot matter: nothing since the last no freed what it was about. So the walk
    costs what the ends of leases cost, not a plan for each of them.
    """
    last, outlook, turning = refusal, Outlook(world, run), _turning_points(world)
    changed = False
    for instant, ended in _events(world):
        if until is not None and instant > until:
            return None
        outlook.end(ended)
        changed = changed or instant in turning or _matters(last, ended)
        if not changed or not outlook.could_hold():
            continue
        answer = fit(world.at(instant), run)
        if isinstance(answer, Fit):
            return Opening(instant=instant, fit=answer)
        last, changed = answer, False
    return None


def promised_opening(world: World, run: Run) -> Opening | None:
    """F2: the promised start in the promised slice, if it still stands."""
    made = promised(world, run)
    if made is None or made.earliest_start is None or made.earliest_start <= world.now or not made.groups:
        return None
    answer = fit(world.ahead_of_later(made).at(made.earliest_start), run, within=made.groups)
    return Opening(instant=made.earliest_start, fit=answer) if isinstance(answer, Fit) else None


def _events(world: World) -> Iterator[tuple[int, tuple[Lease, ...]]]:
    """Known instants after now in order, each with the leases that have ended by it and not before."""
    overdue = world.ended_by(world.now)
    for instant in world.events():
        yield instant, (*overdue, *world.ended_at(instant))
        overdue = ()


def _turning_points(world: World) -> frozenset[int]:
    """Instants at which more than a lease ends: windows open or close, promises begin or finish."""
    index = world.index
    windows = (t for budget in world.snapshot.budgets for e in budget.envelopes for t in (e.start_at, e.end_at))
    holds = (hold for held in index.node_holds.values() for hold in held.values())
    promises = (promise.hold for made in index.promises_by_run.values() for promise in made)
    spans = (t for hold in (*holds, *promises) for t in (hold.start_at, hold.finish_at))
    return frozenset(t for t in (*windows, *spans) if t is not None)


def _matters(last: Refusal, ended: Iterable[Lease]) -> bool:
    """Whether the end of leases may change the last no: any for a missing place, those of asked budgets for a payer."""
    asked = frozenset(last.asked)
    return not last.funding or any(lease.payer.budget in asked for lease in ended)
