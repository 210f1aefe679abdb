"""What a sweep did, for people and machines. Pure: values → text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kubectl_runs.text import clean, plural

if TYPE_CHECKING:
    from kubectl_runs.commit.sweep import Swept


def rows(swept: Swept) -> dict[str, Any]:
    return {
        "closed": swept.closed,
        "ended": swept.ended,
        "started": swept.started,
        "finished": swept.finished,
        "deleted": swept.deleted,
    }


def report(swept: Swept) -> str:
    """One line for each thing that was done."""
    lines = []
    if swept.finished:
        lines.append(f"finished {plural(len(swept.finished), 'ledger entry', 'ledger entries')} that others began")
    if swept.ended:
        lines.append(f"ended {plural(len(swept.ended), 'lease')} of runs that are over")
    if swept.closed:
        lines.append(f"closed {plural(len(swept.closed), 'lease')}")
    lines += [f"started run {clean(key)}" for key in swept.started]
    if swept.deleted:
        lines.append(f"deleted {plural(len(swept.deleted), 'prepared pod')} that nobody used")
    return "".join(f"{line}\n" for line in lines or ["nothing to settle"])
