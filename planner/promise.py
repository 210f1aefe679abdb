"""What an earlier promise makes of a new plan: never later unless its inputs changed for the worse (F2).

A plan is first made as if nothing had been promised; this module holds it against the Reservation that the run
already has. What reservations hold against others is `holds`.
"""

from __future__ import annotations

from dataclasses import replace

from planner.instants import rfc3339
from planner.model import Confidence, Decision, Reservation, Run, Step
from planner.world import World

NOTICE = 15 * 60  # F1 (e): how long before cuts everybody hit can know


def promised(world: World, run: Run) -> Reservation | None:
    """The standing Reservation of a run, if it has one."""
    return next((made for made in world.reservations if made.run_key == run.key), None)


def due(made: Reservation, now: int) -> bool:
    """Whether a promise may be activated: its time has come. A Blocked one has none."""
    return made.earliest_start is not None and made.earliest_start <= now


def kept(world: World, run: Run, planned: Decision) -> Decision:
    """F2: the new plan, or the promised start where the plan would be later for no good reason."""
    made = promised(world, run)
    if made is None or made.earliest_start is None:
        return planned
    start = made.earliest_start
    if planned.earliest_start is not None and planned.earliest_start <= start:
        return planned
    if planned.confidence is Confidence.NEEDS_CUTS:
        return _at(planned, start)
    return _later(planned, start)


def cuts_from(world: World, run: Run) -> int | None:
    """The start that cuts can keep, whatever else becomes of it: one promised by cuts, and any that is due.

    A promise that was exact and is not due yet may be moved by F1 (c): it is later only because something that it
    counted on is gone, and then the message says so.
    """
    made = promised(world, run)
    if made is None or (was_exact(made) and not due(made, world.now)):
        return None
    return made.earliest_start


def was_exact(made: Reservation) -> bool:
    """Whether a promise was exact: cuts are never promised further off than the notice (F1 e)."""
    return made.earliest_start is not None and made.earliest_start - made.created_at > NOTICE


def _at(planned: Decision, start: int) -> Decision:
    step = Step(rule="F2", act="waited", subject=planned.run or "", note=f"keeps its promised start {rfc3339(start)}")
    return replace(planned, earliest_start=start, trace=(*planned.trace, step))


def _later(planned: Decision, start: int) -> Decision:
    """F2: later than promised, and why: the reason of the plan is what changed for the worse."""
    words = f"promised {rfc3339(start)}, not kept: {planned.reason or 'it no longer fits then'}"
    step = Step(rule="F2", act="waited", subject=planned.run or "", reason=planned.reason, note=words)
    return replace(planned, message=f"{words}; {planned.message}", trace=(*planned.trace, step))
