"""Budgets as JSON (section 8) and as a table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kubectl_runs import text
from kubectl_runs.render import amounts
from kubectl_runs.wire.times import rfc3339

if TYPE_CHECKING:
    from planner.statement import CapLine, EnvelopeLine, Statement
    from planner.world import World

Json = dict[str, Any]
HEADER = (
    "BUDGET/ENVELOPE",
    "FLAVOR",
    "CAP",
    "HELD",
    "LENT",
    "RESERVED",
    "HEADROOM",
    "GPU-H CAP",
    "SETTLED",
    "PROMISED",
    "LEFT",
    "LIMIT",
)


def to_json(found: Iterable[Statement]) -> Json:
    return {
        "budgets": [
            {
                "budget": one.budget.name,
                "owner": one.budget.owner,
                "envelopes": [_envelope(line) for line in one.envelopes],
                "caps": [{"name": line.cap.name, "held": line.held_gpus, "left": line.left_gpus} for line in one.caps],
            }
            for one in found
        ]
    }


def _envelope(line: EnvelopeLine) -> Json:
    left = line.left_seconds
    return {
        "name": line.envelope.name,
        "flavor": line.envelope.flavor,
        "concurrency": line.envelope.concurrency,
        "held": line.held_gpus,
        "lent": line.lent_gpus,
        "reserved": line.reserved_gpus,
        "headroom": line.headroom_gpus,
        "gpuHours": {
            "cap": line.envelope.gpu_hours_max,
            "settled": amounts.whole_hours(line.settled_seconds),
            "promised": amounts.whole_hours(line.promised_seconds),
            "left": None if left is None else amounts.whole_hours(left),
        },
        "limit": None if line.limit is None else str(line.limit),
    }


def render(found: Iterable[Statement], world: World, *, tree: bool, wide: bool) -> str:
    """One table; below each budget its aggregate caps, and who it belongs to."""
    header = (*HEADER, "RUNS OUT") if wide else HEADER
    rows: list[tuple[str, ...]] = []
    named: set[str] = set()
    for one in found:
        depth = "  " * one.budget.owner.count(":") if tree else ""
        above = [owner for owner in _path(one.budget.owner) if owner not in named] if tree else [one.budget.owner]
        rows += [("  " * owner.count(":") * tree + owner,) for owner in above]
        named.update(above)
        rows += [_cells(line, world, depth, wide=wide) for line in one.envelopes]
        rows += [_cap_cells(line, depth) for line in one.caps]
    return text.table([header, *rows], right=range(2, 11)) if rows else ""


def _path(owner: str) -> list[str]:
    """The owner and those above it, root first: they stand in the tree whether or not they hold a budget."""
    parts = owner.split(":")
    return [":".join(parts[: depth + 1]) for depth in range(len(parts))]


def _cells(line: EnvelopeLine, world: World, depth: str, *, wide: bool) -> tuple[str, ...]:
    cap, left = line.envelope.gpu_hours_max, line.left_seconds
    out = line.runs_out_at(world.now)
    cells = (
        f"{depth}  {line.payer.name}",
        line.envelope.flavor,
        str(line.envelope.concurrency),
        str(line.held_gpus),
        str(line.lent_gpus),
        str(line.reserved_gpus),
        str(line.headroom_gpus),
        "-" if cap is None else str(cap),
        amounts.total_hours(line.settled_seconds),
        amounts.total_hours(line.promised_seconds),
        "-" if left is None else amounts.total_hours(left),
        "-" if line.limit is None else str(line.limit),
    )
    return (*cells, "-" if out is None else rfc3339(out)) if wide else cells


def _cap_cells(line: CapLine, depth: str) -> tuple[str, ...]:
    cap, hours = line.cap, line.cap.gpu_hours_max
    return (
        f"{depth}  cap {cap.name} over {', '.join(sorted(cap.envelopes))}",
        cap.flavor,
        "-" if cap.concurrency_max is None else str(cap.concurrency_max),
        str(line.held_gpus),
        "",
        "",
        "-" if line.left_gpus is None else str(line.left_gpus),
        "-" if hours is None else str(hours),
        "",
        amounts.total_hours(line.used_seconds),
        "-" if hours is None else amounts.total_hours(hours * amounts.HOUR - line.used_seconds),
        "OverCap" if line.over else "-",
    )
