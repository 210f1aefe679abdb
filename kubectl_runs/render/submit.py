"""What `submit` did, and how a run stands, for people. Pure: values → text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kubectl_runs.render import plan
from kubectl_runs.text import clean, plural

if TYPE_CHECKING:
    from kubectl_runs.commit.life import Life

Json = dict[str, Any]

STANDS = {
    "New": "is not planned yet",
    "Holds": "is running",
    "Completed": "has completed",
    "Failed": "has failed",
    "Canceled": "was cancelled",
    "Again": "is to be tried again",
}


def done(answer: Json, *, entry: int | None, now: int) -> str:
    """The first line answers; then where it runs and who pays, or why it waits."""
    run = clean(answer["run"])
    recorded = "" if entry is None else f" (ledger entry {entry})"
    if answer["decision"] == "start":
        parts = [f"{run} started with {plural(answer['width'], 'GPU')}{recorded}.\n"]
        return "\n".join((*parts, plan.groups(answer), plan.payers(answer)))
    if answer["decision"] == "reserve":
        promise = plan.promise(answer, now)
        parts = [f"{run} waits ({answer['reason']}){recorded}. {promise}\n"]
    else:
        parts = [plan.headline(answer, now)]
    if answer["message"]:
        parts.append("  why   " + clean(answer["message"]) + "\n")
    parts += [plan.groups(answer), plan.payers(answer), plan.cuts(answer)]
    parts.append(plan.remedies(answer, plan.Asked(command="submit", now=now)))
    return "\n".join(part for part in parts if part)


def sentence(run: Json, life: Life) -> str:
    """What a re-submit says (section 8)."""
    metadata = run["metadata"]
    words = STANDS[life.stage.value]
    if life.stage.value == "Holds":
        nodes = len({lease.node for lease in life.held})
        words = f"is already running with {plural(life.width, 'GPU')} on {plural(nodes, 'node')}"
    if life.stage.value == "Failed" and life.reason:
        words += f" ({clean(life.reason)})"
    attempt = f", attempt {life.attempt}" if life.attempt > 1 else ""
    return f"run {clean(metadata['namespace'])}/{clean(metadata['name'])} {words}{attempt}\n"
