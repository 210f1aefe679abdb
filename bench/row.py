"""What a benchmark reports: one row a figure, as a table for people and as JSON for tools."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One figure. `ratio` is to `ratio_to`, measured in the same run; `limit` is the design's figure for it."""

    name: str
    size: str
    value: float
    unit: str
    ratio_to: str = ""
    ratio: float | None = None
    limit: str = ""  # as the design words it: "≤ 20 ms", "≤ 1.5×"

    def json(self) -> dict[str, Any]:
        fields = ("name", "size", "value", "unit", "ratio_to", "ratio", "limit")
        return {field: getattr(self, field) for field in fields}


def seconds_of(work: Callable[[], object], repeats: int = 5) -> float:
    """The median wall time of some work."""
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def table(rows: Iterable[Row]) -> str:
    """Aligned columns: names to the left, numbers to the right."""
    head = ("benchmark", "size", "value", "unit", "ratio", "to", "limit")
    cells = [head, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(head))]
    right = {2, 4}
    lines = (
        "  ".join(
            text.rjust(width) if at in right else text.ljust(width)
            for at, (text, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in cells
    )
    return "\n".join(line.rstrip() for line in lines)


def _cells(row: Row) -> tuple[str, ...]:
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}×"
    return (row.name, row.size, f"{row.value:,.4g}", row.unit, ratio, row.ratio_to, row.limit)
