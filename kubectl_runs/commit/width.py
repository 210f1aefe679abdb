"""Making a malleable run narrower: the End that the planner's choice of groups needs (E1)."""

from __future__ import annotations

from kubectl_runs.commit.draft import Draft, ends_of, run_ref
from kubectl_runs.commit.life import life
from kubectl_runs.read import Reading
from kubectl_runs.wire import encode
from planner.model import Closure, Decision, EntryKind, Run, Verdict


def shrink_plan(reading: Reading, run: Run, to: int) -> Decision:
    from planner.elastic import plan_shrink

    return plan_shrink(reading.snapshot, run, to, reading.now)


def shrink_draft(reading: Reading, run: Run, decision: Decision) -> Draft | None:
    """The End that a planned shrink needs; None if nobody has to leave (any more)."""
    if decision.verdict is not Verdict.CUT:
        return None
    lived = life(reading.snapshot, run)
    keys = {key for cut in decision.cuts for key in cut.leases}
    return Draft(
        kind=EntryKind.END,
        run=run_ref(run, lived.attempt),
        trace=tuple(encode.trace(decision.trace)),
        ends=ends_of([lease for lease in lived.held if lease.key in keys], Closure.SHRINK),
    )


def too_wide(reading: Reading, run: Run) -> Draft | None:
    """What a run that holds more than it desires has to give up."""
    if run.malleable is None:
        return None
    return shrink_draft(reading, run, shrink_plan(reading, run, run.malleable.gpus_desired))
