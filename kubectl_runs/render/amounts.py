"""How amounts are printed so that the numbers on one screen add up."""

from __future__ import annotations

from collections.abc import Sequence

from planner.usage import apportion

HOUR = 3600
SHARE_UNITS = 10_000  # hundredths of a per cent


def hours(gpu_seconds: Sequence[int]) -> list[str]:
    """GPU-hours with one decimal; together they make the rounded total."""
    tenths = apportion(gpu_seconds, round_half_up(sum(gpu_seconds) * 10, HOUR))
    return [tenth_hours(tenth) for tenth in tenths]


def total_hours(gpu_seconds: int) -> str:
    return tenth_hours(round_half_up(gpu_seconds * 10, HOUR))


def tenth_hours(tenths: int) -> str:
    sign, tenths = ("-", -tenths) if tenths < 0 else ("", tenths)
    return f"{sign}{tenths // 10}.{tenths % 10}"


def round_half_up(amount: int, unit: int) -> int:
    return (2 * amount + unit) // (2 * unit)


def shares(amounts: Sequence[int]) -> list[int]:
    """Shares in hundredths of a per cent; together they make 100 % (or nothing, of nothing)."""
    return list(apportion(amounts, SHARE_UNITS))


def percent(units: int) -> str:
    return f"{units // 100}.{units % 100:02d}%"


def whole_hours(gpu_seconds: int) -> int | float:
    """GPU-hours as a JSON number: whole where they are, else to the tenth of a milli-hour."""
    return gpu_seconds // HOUR if gpu_seconds % HOUR == 0 else round(gpu_seconds / HOUR, 4)
