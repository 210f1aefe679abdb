"""Instants and spans as people and seeds read them: whole Unix seconds to text.

The planner has no clock and no calendar of its own; this is the one place where a number of seconds becomes words.
Reading text is the wire's.
"""

from __future__ import annotations

DAY = 86_400


def rfc3339(instant: int) -> str:
    """An instant as the API server writes it, in UTC and whole seconds."""
    year, month, day = _civil(instant // DAY)
    hour, minute, second = _clock(instant)
    return f"{year:04d}-{month:02d}-{day:02d}T{hour:02d}:{minute:02d}:{second:02d}Z"


def starts(instant: int, now: int) -> str:
    """When something starts, as short as it can be said: now, a time of day, or a date."""
    if instant <= now:
        return "starts now"
    year, month, day = _civil(instant // DAY)
    hour, minute, second = _clock(instant)
    time = f"{hour:02d}:{minute:02d}" + (f":{second:02d}" if second else "")
    if instant // DAY == now // DAY:
        return f"starts {time}"
    return f"starts {year:04d}-{month:02d}-{day:02d} {time}"


def go_duration(seconds: int) -> str:
    """A span in Go's style, without parts that are zero: 5400 is 1h30m."""
    hours, minutes, rest = seconds // 3600, seconds // 60 % 60, seconds % 60
    parts = [f"{hours}h" if hours else "", f"{minutes}m" if minutes else "", f"{rest}s" if rest else ""]
    return "".join(parts) or "0s"


def _clock(instant: int) -> tuple[int, int, int]:
    second_of_day = instant % DAY
    return second_of_day // 3600, second_of_day // 60 % 60, second_of_day % 60


def _civil(days: int) -> tuple[int, int, int]:
    """Year, month and day of a count of days since 1970, by the 400-year cycle of the Gregorian calendar."""
    shifted = days + 719_468  # days since 0000-03-01: leap days then come last in a year
    cycle, day_of_cycle = divmod(shifted, 146_097)
    year_of_cycle = (day_of_cycle - day_of_cycle // 1_460 + day_of_cycle // 36_524 - day_of_cycle // 146_096) // 365
    day_of_year = day_of_cycle - (365 * year_of_cycle + year_of_cycle // 4 - year_of_cycle // 100)
    shifted_month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * shifted_month + 2) // 5 + 1
    month = shifted_month + 3 if shifted_month < 10 else shifted_month - 9
    return year_of_cycle + cycle * 400 + (month <= 2), month, day
