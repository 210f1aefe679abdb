"""What becomes of a reservation when it is activated: start, start after cuts, or wait on (R1-R5, 6.9).

Decides for one reservation, due or not; whether it may be activated before its time is the command's. Who has to yield
is `cuts`.
"""

from __future__ import annotations

from collections.abc import Iterable

from planner.admit import Fit, Refusal
from planner.cuts import Resolution, make_room
from planner.ending import ending_leases
from planner.model import Confidence, Decision, Entry, Reason, Reservation, Run, Snapshot, Step, Verdict
from planner.plan import blocked, fit_now, started, unfit_request, why
from planner.tighten import tighten
from planner.trace import message_of
from planner.words import count, sum_of
from planner.world import World

__all__ = ["activate", "tighten"]


def activate(snapshot: Snapshot, reservation: Reservation, now: int, freezes: Iterable[Entry] = ()) -> Decision:
    """What activation would do now: `start` with the cuts, or `reserve` with the reason.

    With a lottery that is provisional nothing may be cut yet: its `freeze` has to be appended first, and this asked
    again. With one that is not, the cuts that are not provisional make one Cut; groups that need another domain's
    lottery come after it. `freezes` are this reservation's Freeze entries that the snapshot no longer holds.
    """
    world = World.of(snapshot, now)
    run = world.runs.get(reservation.run_key)
    if run is None:
        return Decision(verdict=Verdict.NONE, run=reservation.run_key, message=f"{reservation.run_key} is gone")
    refused = unfit_request(world, run)
    if refused is not None:
        return refused
    if world.leases_of(run):
        return Decision(verdict=Verdict.NONE, run=run.key, message=f"{run.key} holds GPUs already")
    answer = fit_now(world, run)
    if isinstance(answer, Fit):
        return started(run, answer)
    if answer.funding:  # R1: it cuts only for GPUs
        return blocked(run, answer)
    return _with_cuts(world, run, reservation, answer, make_room(world, run, made=reservation, freezes=freezes))


def _with_cuts(world: World, run: Run, made: Reservation, refusal: Refusal, resolution: Resolution | None) -> Decision:
    if resolution is None:  # R5: pack cannot be made to succeed, so nothing is cut
        return _waits(run, made, refusal, "nobody who could yield would make room")
    if isinstance(resolution.paid, Refusal):
        return blocked(run, resolution.paid)
    if not resolution.cuts:
        held = sum(world.leases[key].gpus for key in ending_leases(world.snapshot) if key in world.leases)
        return _waits(run, made, refusal, f"waits for {count(held, 'GPU')} of leases that are ending")
    paid = resolution.paid
    return Decision(
        verdict=Verdict.START,
        run=run.key,
        message=f"{run.key} starts after {sum_of(resolution.cuts)}",
        width=paid.width,
        groups=paid.groups,
        seats=paid.seats,
        deficit_gpus=refusal.deficit_gpus,
        cuts=resolution.cuts,
        lottery=resolution.lottery,
        trace=(*why(refusal), *resolution.trace, *paid.trace),
        asked=paid.asked,
    )


def _waits(run: Run, made: Reservation, refusal: Refusal, words: str) -> Decision:
    step = Step(rule="R5", act="waited", subject=run.key, need=refusal.deficit_gpus, note=words)
    return Decision(
        verdict=Verdict.RESERVE,
        run=run.key,
        reason=refusal.reason if refusal.reason is not None else Reason.NO_CAPACITY,
        message=f"{words}; {message_of(refusal.trace)}",
        earliest_start=made.earliest_start,
        confidence=Confidence.NEEDS_CUTS if made.earliest_start is not None else None,
        deficit_gpus=refusal.deficit_gpus,
        trace=(*why(refusal), step),
        asked=refusal.asked,
    )
