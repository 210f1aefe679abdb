"""What becomes of a run: start, reserve or refuse, and when (F1, F2, F3).

The one entry point of `plan` and `submit`. It asks `admit` whether the run fits now and, if not, walks the questions
of F1 in their order; each answer is somebody else's: never and when (`forecast`), who would yield (`cuts`), what
would help (`remedies`), growth of a run that already runs (`elastic`).
"""

from __future__ import annotations

from dataclasses import replace

from planner import forecast, remedies
from planner.admit import Fit, Refusal, fit
from planner.cuts import Resolution, ending_fillers, make_room
from planner.elastic import growth
from planner.instants import rfc3339
from planner.model import Confidence, Decision, Reason, Run, Snapshot, Step, Verdict
from planner.promise import NOTICE, cuts_from, due, kept, promised
from planner.trace import message_of
from planner.world import World


def plan_run(snapshot: Snapshot, run: Run, now: int) -> Decision:
    """What `submit` would do with the run at `now`, with remedies where it would not start."""
    return plan_in(World.of(snapshot, now), run)


def plan_in(world: World, run: Run) -> Decision:
    """The same on a world that is already indexed: many plans on one snapshot share it."""
    refused = unfit_request(world, run)
    if refused is not None:
        return refused
    if world.leases_of(run):
        return growth(world, run)
    answer = fit_now(world, run)
    if isinstance(answer, Fit):
        return started(run, answer)
    decision = not_now(world, run, answer)
    return remedies.add(world, run, decision)


def unfit_request(world: World, run: Run) -> Decision | None:
    """Section 7: a run whose owner is not its namespace's is refused, and so is one that was cancelled (6.7)."""
    owner = world.snapshot.namespace_owners.get(run.namespace)
    if owner is not None and owner != run.owner:
        words = f"namespace {run.namespace} belongs to {owner}, the run names {run.owner}"
        return _refused(run, Reason.OWNER_MISMATCH, words, rule="C7")
    if run.canceled:
        return _refused(run, Reason.CANCELED, "the run was cancelled", rule="6.7")
    return None


def fit_now(world: World, run: Run) -> Fit | Refusal:
    """Whether the run fits now: in the slice that is held for it if its promise is due, else anywhere.

    A malleable run still starts at the largest width there is (P5), inside its slice or not.
    """
    anywhere = fit(world, run)
    made = promised(world, run)
    if made is None or not due(made, world.now) or not made.groups:
        return anywhere
    inside = fit(world.ahead_of_later(made), run, within=made.groups)
    if isinstance(inside, Refusal) or (isinstance(anywhere, Fit) and anywhere.width > inside.width):
        return anywhere
    return inside


def not_now(world: World, run: Run, refusal: Refusal) -> Decision:
    """F1, question by question, and what an earlier promise makes of the answer (F2)."""
    hopeless = forecast.never(world, run)
    if hopeless is not None:  # (a)
        return _never(run, hopeless)
    if not refusal.funding:  # (b)
        ended = ending_fillers(world, run)
        if ended is not None:
            return kept(world, run, _needs_cuts(run, refusal, ended, world.now))
    opening = _opening(world, run, refusal)
    made = promised(world, run)
    if made is not None and made.earliest_start is not None and world.now < made.earliest_start:
        ended = ending_fillers(world.ahead_of_later(made).at(made.earliest_start), run)
        # F2, F3: a promise in whose slice fillers run still stands; they end when it is due.
        if ended is not None and (opening is None or opening.instant > made.earliest_start):
            return _needs_cuts(run, refusal, ended, made.earliest_start)
    if opening is not None:  # (c)
        return kept(world, run, _exact(world, run, refusal, opening))
    if refusal.funding:  # (d)
        return kept(world, run, blocked(run, refusal))
    return kept(world, run, _cuts_later(world, run, refusal))  # (e)


def started(run: Run, answer: Fit) -> Decision:
    """A start, with its slice and its payers."""
    return Decision(
        verdict=Verdict.START,
        run=run.key,
        message=message_of(answer.trace),
        width=answer.width,
        groups=answer.groups,
        seats=answer.seats,
        trace=answer.trace,
        asked=answer.asked,
    )


def blocked(run: Run, refusal: Refusal) -> Decision:
    """F1 (d): nobody can pay now; it holds nothing and waits for those it asked and found full."""
    return Decision(
        verdict=Verdict.RESERVE,
        run=run.key,
        reason=refusal.reason,
        message=message_of(refusal.trace),
        deficit_gpus=refusal.deficit_gpus,
        trace=why(refusal),
        asked=refusal.asked,
        waits_for=refusal.waits_for,
    )


def why(refusal: Refusal) -> tuple[Step, ...]:
    """Why not now, as steps that lead to no seat: what was placed and taken in vain is told as asked."""
    told = (step for step in refusal.trace if step.act != "placed")
    return tuple(replace(step, act="asked") if step.act == "took" else step for step in told)


def _never(run: Run, refusal: Refusal) -> Decision:
    return Decision(
        verdict=Verdict.REFUSE,
        run=run.key,
        reason=refusal.reason,
        message=message_of(refusal.trace),
        trace=why(refusal),
        asked=refusal.asked,
    )


def _opening(world: World, run: Run, refusal: Refusal) -> forecast.Opening | None:
    """F1 (c), F2: the first known instant, or the promised one in the promised slice where none comes before it."""
    promise = forecast.promised_opening(world, run)
    if promise is None:
        return forecast.first_opening(world, run, refusal, until=cuts_from(world, run))
    return forecast.first_opening(world, run, refusal, until=promise.instant - 1) or promise


def _exact(world: World, run: Run, refusal: Refusal, opening: forecast.Opening) -> Decision:
    then = opening.fit
    waited = Step(rule="F1.c", act="waited", subject=run.key, reason=refusal.reason, note=rfc3339(opening.instant))
    # Section 7: where foreign pods are not visible, no plan is exact.
    exact = Confidence.EXACT if world.snapshot.pods_visible else None
    return Decision(
        verdict=Verdict.RESERVE,
        run=run.key,
        reason=refusal.reason,
        message=message_of(refusal.trace),
        width=then.width,
        groups=then.groups,
        seats=then.seats,
        earliest_start=opening.instant,
        confidence=exact,
        deficit_gpus=refusal.deficit_gpus,
        trace=(*why(refusal), waited, *then.trace),
        asked=tuple(sorted({*refusal.asked, *then.asked})),
    )


def _cuts_later(world: World, run: Run, refusal: Refusal) -> Decision:
    """F1 (e): cuts at the end of the notice, with what they would be; none where pack cannot be made to succeed."""
    start = world.now + NOTICE
    resolution = make_room(world, run, start=start)
    if resolution is not None and isinstance(resolution.paid, Refusal):
        return blocked(run, resolution.paid)
    return _needs_cuts(run, refusal, resolution, start)


def _needs_cuts(run: Run, refusal: Refusal, resolution: Resolution | None, start: int) -> Decision:
    paid = resolution.paid if resolution is not None and isinstance(resolution.paid, Fit) else None
    steps = resolution.trace if resolution is not None else ()
    return Decision(
        verdict=Verdict.RESERVE,
        run=run.key,
        reason=refusal.reason,
        message=message_of(refusal.trace),
        width=paid.width if paid else 0,
        groups=paid.groups if paid else (),
        seats=paid.seats if paid else (),
        earliest_start=start,
        confidence=Confidence.NEEDS_CUTS,
        deficit_gpus=refusal.deficit_gpus,
        cuts=resolution.cuts if resolution else (),
        lottery=resolution.lottery if resolution else None,
        trace=(*why(refusal), *steps, *(paid.trace if paid else ())),
        asked=tuple(sorted({*refusal.asked, *(paid.asked if paid else ())})),
    )


def _refused(run: Run, reason: Reason, words: str, rule: str) -> Decision:
    step = Step(rule=rule, act="passed", subject=run.key, reason=reason, note=words)
    return Decision(verdict=Verdict.REFUSE, run=run.key, reason=reason, message=words, trace=(step,))
