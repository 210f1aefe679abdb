"""What `cancel`, `shrink` and `grow` did, for people. Pure: values → text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kubectl_runs.render import plan
from kubectl_runs.text import clean, plural

if TYPE_CHECKING:
    from kubectl_runs.commit.change import Changed

Json = dict[str, Any]


def canceled(key: str, changed: Changed) -> str:
    if changed.life.stage.value not in ("Canceled", "Holds"):
        return f"run {clean(key)} was over already: {changed.life.stage.value.lower()}\n"
    if changed.life.held:
        return f"run {clean(key)} cancelled; {plural(changed.life.width, 'GPU')} still held until its pods are gone\n"
    return f"run {clean(key)} cancelled, its GPUs are free\n"


def leaving(answer: Json) -> str:
    """Who leaves, before anybody is asked."""
    return plan.headline(answer, 0) + "\n" + plan.cuts(answer)


def coming(answer: Json) -> str:
    return plan.headline(answer, 0) + "\n" + plan.groups(answer) + "\n" + plan.payers(answer)


def shrunk(key: str, changed: Changed) -> str:
    decision = changed.decision
    if decision is None or decision.verdict != "cut":
        return f"run {clean(key)}: {clean(decision.message) if decision else 'nothing to do'}\n"
    if changed.life.width > decision.width:
        left = changed.life.width - decision.width
        return f"run {clean(key)} shrinks to {decision.width}; {plural(left, 'GPU')} still held until pods are gone\n"
    return f"run {clean(key)} shrunk to {plural(changed.life.width, 'GPU')}\n"


def grown(key: str, changed: Changed) -> str:
    decision = changed.decision
    line = f"run {clean(key)} has {plural(changed.life.width, 'GPU')}"
    if decision is not None and decision.verdict != "start" and decision.message:
        line += f": {clean(decision.message)}"
    return line + "\n"
