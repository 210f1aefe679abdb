"""Who yields, before anybody is asked, and what `resolve` did. Pure: the JSON of section 8 → text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kubectl_runs.render import plan
from kubectl_runs.text import clean, plural

Json = dict[str, Any]


def yielding(answer: Json) -> str:
    """Everybody who would have to yield, and the odds where a lottery decides."""
    parts = (plan.headline(answer, 0), plan.cuts(answer), plan.lottery(answer))
    return "\n".join(part for part in parts if part)


def resolved(answer: Json, entries: Sequence[int], leases: int) -> str:
    """What was done, and the entries that prove it."""
    parts = [_headline(answer, leases)]
    if entries:
        numbers = ", ".join(map(str, entries))
        parts += [plan.cuts(answer), plan.lottery(answer)]
        parts.append(f"  recorded in ledger {'entry' if len(entries) == 1 else 'entries'} {numbers}\n")
    if answer["decision"] == "start":
        parts += [plan.groups(answer), plan.payers(answer)]
    return "\n".join(part for part in parts if part)


def _headline(answer: Json, leases: int) -> str:
    cuts = f" after {plural(leases, 'lease')} gave way" if leases else ""
    if answer["decision"] == "start":
        return f"{clean(answer['run'])} started with {plural(answer['width'], 'GPU')}{cuts}.\n"
    if answer["run"] is None:
        return f"the budget is within its caps{cuts}.\n"
    if answer["decision"] == "none":
        return f"nothing to do: {clean(answer['message'])}\n"
    why = f" ({answer['reason']})" if answer["reason"] else ""
    return f"{clean(answer['run'])} waits{why}{cuts}: {clean(answer['message'])}\n"
