"""Texts of the wire as whole numbers: RFC 3339 instants, Go durations, Kubernetes quantities.

Decides how each is read, how it is rounded and what is refused (`ValueError`, naming the text); what an instant or a
span means is for others to say. Instants are whole Unix seconds in UTC, spans are whole seconds.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from fractions import Fraction

# Ordinary Go durations; a sign is refused, since no span here is negative.
DURATION_PATTERN = r"^([0-9]{1,7}(\.[0-9]{1,9})?(ns|us|µs|ms|s|m|h))+$"

_INSTANT = re.compile(r"(\d{4}-\d{2}-\d{2})[Tt](\d{2}:\d{2}:\d{2})(?:\.\d+)?([Zz]|[+-]\d{2}:\d{2})", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DURATION = re.compile(DURATION_PATTERN)
_DURATION_PART = re.compile(r"([0-9.]+)(ns|us|µs|ms|s|m|h)")
_SECONDS = {
    "ns": Fraction(1, 10**9),
    "us": Fraction(1, 10**6),
    "µs": Fraction(1, 10**6),
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "m": Fraction(60),
    "h": Fraction(3600),
}
_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([KMGTPE]i|[numkMGTPE])|[eE]([+-]?\d{1,2}))?", re.ASCII)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


def instant(text: str) -> int:
    """Fractions of a second are dropped: the server's own timestamps have none."""
    match = _INSTANT.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no RFC 3339 time such as 2026-01-05T12:00:00Z")
    day, clock, zone = match.groups()
    try:
        moment = datetime.fromisoformat(f"{day}T{clock}{'+00:00' if zone in 'Zz' else zone}")
    except ValueError as error:
        raise ValueError(f"{text!r} is no RFC 3339 time: {error}") from None
    return (moment - _EPOCH) // timedelta(seconds=1)


def rfc3339(seconds: int) -> str:
    """The one spelling that we write: UTC, whole seconds, `Z`."""
    moment = _EPOCH + timedelta(seconds=seconds)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ").rjust(20, "0")


def duration(text: str) -> int:
    """A Go duration in whole seconds, rounded up, so that nothing is ever granted less than it asked for."""
    if not _DURATION.fullmatch(text):
        raise ValueError(f"{text!r} is no duration such as 90s, 30m or 1h30m")
    total = sum((Fraction(number) * _SECONDS[unit] for number, unit in _DURATION_PART.findall(text)), Fraction(0))
    return _ceil(total)


def go_duration(seconds: int) -> str:
    """The shortest spelling that reads back as the same span: `1h30m`, `90m` becoming `1h30m`, nothing being `0s`."""
    hours, rest = divmod(seconds, 3600)
    minutes, rest = divmod(rest, 60)
    parts = ((hours, "h"), (minutes, "m"), (rest, "s"))
    return "".join(f"{number}{unit}" for number, unit in parts if number) or "0s"


def quantity(value: str | int, *, per_unit: int = 1) -> int:
    """A Kubernetes quantity as a whole number, rounded up as the API server does; `per_unit=1000` for milli-CPUs."""
    match = _QUANTITY.fullmatch(str(value))
    if match is None:
        raise ValueError(f"{value!r} is no quantity such as 8, 500m or 64Gi")
    number, suffix, exponent = match.groups()
    amount = Fraction(number) * per_unit
    if suffix in _BINARY:
        return _ceil(amount * 2 ** _BINARY[suffix])
    power = _DECIMAL[suffix] if suffix else int(exponent or 0)
    return _ceil(amount * Fraction(10) ** power)


def _ceil(number: Fraction) -> int:
    return -(-number.numerator // number.denominator)
