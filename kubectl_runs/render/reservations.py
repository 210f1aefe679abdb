"""Promises as rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kubectl_runs.text import span
from kubectl_runs.wire.times import rfc3339

if TYPE_CHECKING:
    from planner.model import Reservation

HEADER = ("NAME", "RUN", "GPUS", "STATE", "EARLIEST START", "STARTS", "CONFIDENCE", "DEFICIT", "PAYERS", "WAITS FOR")
RIGHT = (2, 7)


def row(made: Reservation, item: dict[str, Any], now: int, *, namespace: bool) -> tuple[str, ...]:
    forecast = (item.get("status") or {}).get("forecast") or {}
    start = made.earliest_start
    cells = (
        made.name,
        made.run_name,
        str(made.gpus),
        str(made.state),
        "-" if start is None else rfc3339(start),
        _countdown(made, now),
        str(forecast.get("confidence") or "-"),
        str(forecast.get("deficitGPUs", "-")),
        ", ".join(f"{share.payer.name} {share.gpus}" for share in made.payers) or "-",
        made.reason or "-",
    )
    return (made.namespace, *cells) if namespace else cells


def _countdown(made: Reservation, now: int) -> str:
    if not made.open:
        return "-"
    if made.earliest_start is None:
        return "when a budget allows"
    if made.earliest_start <= now:
        return "due" if made.earliest_start == now else f"due for {span(now - made.earliest_start)}"
    return f"in {span(made.earliest_start - now)}"
