"""`install` as text: one line for each object, in kubectl's words, and a count at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kubectl_runs.text import clean

if TYPE_CHECKING:
    from kubectl_runs.apply import Outcome


def lines(outcomes: Sequence[Outcome], *, dry_run: bool = False, names_only: bool = False) -> str:
    """`clusterrole/kubectl-runs-operator created`; with a dry run what would be."""
    if names_only:
        return "".join(f"{_name(each)}\n" for each in outcomes)
    ending = " (dry run)" if dry_run else ""
    body = "".join(f"{_name(each)} {each.result.value}{ending}\n" for each in outcomes)
    return f"{body}{_summary(outcomes)}{ending}\n"


def _name(outcome: Outcome) -> str:
    where = f" in {outcome.namespace}" if outcome.namespace else ""
    return clean(f"{outcome.kind.name.lower()}/{outcome.name}{where}")


def _summary(outcomes: Sequence[Outcome]) -> str:
    counts = Counter(each.result.value for each in outcomes)
    return ", ".join(f"{counts[word]} {word}" for word in ("created", "configured", "unchanged") if counts[word])
