"""The split by payer, as JSON (section 8) and as a table whose numbers add up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kubectl_runs import text
from kubectl_runs.render import amounts
from kubectl_runs.wire.times import rfc3339

if TYPE_CHECKING:
    from kubectl_runs.money import Owners
    from planner.usage import Key, Meter, Sum

Json = dict[str, Any]
BAR_WIDTH = 20
COLORS = {"owned": "32", "shared": "36", "borrowed": "33"}


def to_json(subject: str, meter: Meter, owners: Owners, *, since: int | None, by: str | None) -> Json:
    """Rows in the order of time, then most GPU-seconds first, then name."""
    merged = _by_flavor(meter, owners) if by == "flavor" else {(key, ""): value for key, value in meter.sums.items()}
    found = sorted(merged.items(), key=lambda item: _order(item[0][0], item[1]))
    # Of what has only just begun nothing is used yet: then the GPUs held say who pays.
    used = [value.gpu_seconds for _, value in found]
    shares = amounts.shares(used if any(used) else [value.gpus for _, value in found])
    rows = [
        _row(key, flavor, value, owners, by) | {"share": share / amounts.SHARE_UNITS}
        for ((key, flavor), value), share in zip(found, shares, strict=True)
    ]
    return {
        "subject": subject,
        "since": None if since is None else rfc3339(since),
        "until": rfc3339(meter.window.until),
        "rows": rows,
        "total": {
            "gpus": sum(value.gpus for _, value in found),
            "gpuSeconds": sum(value.gpu_seconds for _, value in found),
        },
    }


def _order(key: Key, value: Sum) -> tuple[Any, ...]:
    return (key.day or 0, -value.gpu_seconds, -value.gpus, key.payer, key.funding, key.role, key.run)


def _by_flavor(meter: Meter, owners: Owners) -> dict[tuple[Key, str], Sum]:
    return {(key, owners.flavor(key.payer)): value for key, value in meter.sums.items()}


def _row(key: Key, flavor: str, value: Sum, owners: Owners, by: str | None) -> Json:
    row: Json = {
        "budget": key.payer.budget,
        "envelope": key.payer.envelope,
        "owner": owners.of(key.payer),
        "class": str(key.funding),
        "role": str(key.role),
        "run": key.run or None,
        "gpus": value.gpus,
        "gpuSeconds": value.gpu_seconds,
    }
    if by == "day":
        row["day"] = rfc3339(key.day or 0)[:10]
    if by == "flavor":
        row["flavor"] = flavor or None
    return row


def render(answer: Json, *, color: bool, by: str | None) -> str:
    rows = answer["rows"]
    window = f"since {answer['since']} until {answer['until']}" if answer["since"] else f"until {answer['until']}"
    total = answer["total"]
    first = f"{answer['subject']}: {text.plural(total['gpus'], 'GPU')} held, "
    first += f"{amounts.total_hours(total['gpuSeconds'])} GPU-hours used {window}"
    if not rows:
        return text.clean(first) + "\n"
    hours = amounts.hours([row["gpuSeconds"] for row in rows])
    extra = _extra(rows, by)
    header = [*extra[:1], "PAYER", "BUDGET/ENVELOPE", "CLASS", "ROLE", "GPUS", "GPU-HOURS", "SHARE"]
    body = [
        [
            *([str(row[extra[1]] or "-")] if extra else []),
            row["owner"] or "-",
            f"{row['budget']}/{row['envelope']}",
            row["class"],
            row["role"],
            str(row["gpus"]),
            hour,
            amounts.percent(round(row["share"] * amounts.SHARE_UNITS)),
        ]
        for row, hour in zip(rows, hours, strict=True)
    ]
    last = ["TOTAL", *[""] * (len(header) - 4), str(total["gpus"]), amounts.total_hours(total["gpuSeconds"])]
    last.append(amounts.percent(round(sum(row["share"] for row in rows) * amounts.SHARE_UNITS)))
    right = range(len(header) - 3, len(header))
    lines = text.table([header, *body, last], right=right).splitlines()
    if color:
        lines = [lines[0], *(f"{line}   {_bar(row)}" for line, row in zip(lines[1:], rows, strict=False)), lines[-1]]
    return text.clean(first) + "\n\n" + "\n".join(lines) + "\n"


def _extra(rows: list[Json], by: str | None) -> tuple[str, ...]:
    """The column that rows are told apart by: its head and its key."""
    if by == "day":
        return "DAY", "day"
    if by == "flavor":
        return "FLAVOR", "flavor"
    if by == "run" or len({row["run"] for row in rows}) > 1:
        return "RUN", "run"
    return ()


def _bar(row: Json) -> str:
    width = round(row["share"] * BAR_WIDTH)
    return f"\x1b[{COLORS[row['class']]}m{'█' * width}{'░' * (BAR_WIDTH - width)}\x1b[0m"
