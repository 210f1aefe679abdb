"""A watched run: a tree for a terminal, one line a change for a pipe. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kubectl_runs.text import clean, plural, span, table
from kubectl_runs.watching import View
from kubectl_runs.wire.times import rfc3339
from planner.model import Lease, Role

BAR = 20
EVENTS_MAX = 6


def line(now: View, what: str) -> str:
    """`2026-01-05T06:41:12Z train Running 104/128 -24 Shrink`."""
    row = now.row
    return f"{rfc3339(now.at)} {clean(row.name)} {row.phase} {row.gpus}/{row.gpus_wanted} {clean(what)}\n"


def tree(now: View, events: Sequence[str]) -> str:
    """The run, its groups by payer, its spares, and the last events."""
    row = now.row
    head = f"{clean(row.key)}   {row.phase}   {row.gpus}/{row.gpus_wanted} GPUs  {bar(row.gpus, row.gpus_wanted)}"
    if now.gpus_min is not None:
        head += f"   min {now.gpus_min} step {now.gpus_step}"
    started = min((lease.start_at for lease in now.held), default=None)
    if started is not None:
        head += f"   since {span(max(0, now.at - started))}"
    elif row.earliest_start is not None:
        head += f"   {clean(row.reason)}, from {rfc3339(row.earliest_start)}"
    elif row.reason:
        head += f"   {clean(row.reason)}"
    last = "".join(f"{event}" for event in events[-EVENTS_MAX:])
    return f"{head}\n{branches(now)}{last}"


def bar(part: int, whole: int) -> str:
    """`[################....]`"""
    full = min(BAR, part * BAR // whole) if whole else 0
    return "[" + "#" * full + "." * (BAR - full) + "]"


def branches(now: View) -> str:
    """One line for groups that are alike: same payer, class, role and state, with their nodes."""
    alike: dict[tuple[str, str, str, str], list[Lease]] = {}
    for lease in now.leases:
        state = _state(lease)
        alike.setdefault((lease.payer.name, lease.funding.value, lease.role.value, state), []).append(lease)
    rows = [
        (
            _groups(leases),
            plural(sum(lease.gpus for lease in leases), "GPU"),
            payer,
            funding,
            _role(role),
            state,
            _nodes(leases),
        )
        for (payer, funding, role, state), leases in alike.items()
    ]
    lines = table(rows).splitlines()
    marks = ["├─ "] * (len(lines) - 1) + ["└─ "] * bool(lines)
    return "".join(f"{mark}{text}\n" for mark, text in zip(marks, lines, strict=True))


def _state(lease: Lease) -> str:
    return clean(lease.closure).partition("(")[0] if lease.closed else "open"


def _role(role: str) -> str:
    return {Role.ACTIVE: "active", Role.SPARE: "spare", Role.FILLER: "filler"}[Role(role)]


def _groups(leases: Sequence[Lease]) -> str:
    """`groups 0-11,14`."""
    indexes = sorted({lease.group for lease in leases})
    runs: list[list[int]] = []
    for index in indexes:
        if runs and runs[-1][1] == index - 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    words = ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
    return f"group {words}" if len(indexes) == 1 else f"groups {words}"


def _nodes(leases: Sequence[Lease]) -> str:
    gpus: Counter[str] = Counter()
    for lease in leases:
        gpus[lease.node] += lease.gpus
    names = [f"{node} {count}" for node, count in sorted(gpus.items())]
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
