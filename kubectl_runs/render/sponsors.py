"""Lenders as JSON (section 8) and as rows; what an edit of a run's sponsors would do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kubectl_runs import text
from kubectl_runs.render import amounts

if TYPE_CHECKING:
    from planner.lenders import Lender
    from planner.model import Decision, Run

Json = dict[str, Any]
HEADER = ("SPONSOR", "BUDGET/ENVELOPE", "FLAVOR", "LENDS", "LENT", "LEFT", "GPU-H LEFT", "MAY I BORROW")
RIGHT = (3, 4, 5, 6)


def to_json(found: Iterable[Lender]) -> Json:
    return {
        "lenders": [
            {
                "owner": one.purse.owner,
                "budget": one.purse.payer.budget,
                "envelope": one.purse.payer.envelope,
                "flavor": one.purse.envelope.flavor,
                "lends": one.lends_gpus,
                "lent": one.lent_gpus,
                "left": one.left_gpus,
                "gpuHoursLeft": None if one.left_seconds is None else amounts.whole_hours(one.left_seconds),
                "mayBorrow": one.may_borrow,
                "reason": None if one.reason is None else str(one.reason),
            }
            for one in found
        ]
    }


def row(one: Lender) -> tuple[str, ...]:
    return (
        one.purse.owner,
        one.purse.payer.name,
        one.purse.envelope.flavor,
        str(one.lends_gpus),
        str(one.lent_gpus),
        str(one.left_gpus),
        "-" if one.left_seconds is None else amounts.total_hours(one.left_seconds),
        "-" if one.may_borrow is None else "yes" if one.may_borrow else f"no: {one.reason}",
    )


def edited(run: Run, decision: Decision, *, dry_run: bool) -> str:
    """What the run's funding is now, and what it would do with it."""
    sponsors = ", ".join(run.funding.sponsors) or "nobody"
    limit = run.funding.borrow_gpus_max
    most = "" if limit is None else f", at most {text.plural(limit, 'GPU')}"
    verb = "would borrow" if dry_run else "may borrow"
    lines = [f"{run.key} {verb} from {sponsors}{most}", f"planned now: {decision.verdict}: {decision.message}"]
    return "".join(f"{text.clean(line)}\n" for line in lines)
