"""How a run stands, in one sentence, for commands that found it so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kubectl_runs.text import clean

if TYPE_CHECKING:
    from kubectl_runs.commit.life import Life

WORDS = {
    "New": "is not planned yet",
    "Holds": "is already running",
    "Completed": "has completed",
    "Failed": "has failed",
    "Canceled": "was cancelled",
    "Again": "is to be tried again",
}


def sentence(run: dict[str, Any], life: Life) -> str:
    """What a re-submit says (section 8)."""
    metadata = run["metadata"]
    words = WORDS[life.stage.value]
    if life.stage.value == "Holds":
        words += f" with {life.width} GPUs on {len({lease.node for lease in life.held})} nodes"
    if life.stage.value == "Failed" and life.reason:
        words += f" ({clean(life.reason)})"
    attempt = f", attempt {life.attempt}" if life.attempt > 1 else ""
    return f"run {clean(metadata['namespace'])}/{clean(metadata['name'])} {words}{attempt}\n"
