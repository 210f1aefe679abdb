"""A decision for people, read like the best plan output: the first line answers, then what would be created, shrunk
and ended, sums that add up, and at the end that nothing was changed. Pure: the JSON of section 8 → text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kubectl_runs.text import clean, plural, span, table
from kubectl_runs.wire.times import instant, rfc3339
from planner.values import dataclass

Json = dict[str, Any]

TELLING = ("asked", "took", "placed", "unplaced", "passed")
ROWS_MAX = 24  # of a table that `-v` shows whole
NUMBERS = ("GROUP", "NEED", "HAD", "TOOK")
MARK_NEW, MARK_CHANGED, MARK_GONE = "+", "~", "-"
CUT_WORDS = {
    "EndFiller": ("ends", "filler"),
    "DropSpare": ("drops", "spare"),
    "Shrink": ("shrinks", "shrink"),
    "RandomPreempt": ("ends", "lottery"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the command was asked: for the hints, which repeat it with one change."""

    command: str  # "plan -f train.yaml"
    now: int
    at: int | None = None  # `--at`: the time it is planned for, if not now
    verbose: bool = False


def render(answer: Json, request: Asked) -> str:
    """The whole screen."""
    parts = [headline(answer, request.now, request.at)]
    parts += [steps(answer["trace"])] if request.verbose else [why(answer)]
    parts += [missing(answer), groups(answer), payers(answer), cuts(answer), lottery(answer), remedies(answer, request)]
    parts.append(f"{summary(answer)} Nothing was changed.\n")
    return "\n".join(part for part in parts if part)


def headline(answer: Json, now: int, at: int | None = None) -> str:
    """The answer in one line."""
    run = clean(answer["run"] or "the budget")
    when = "now" if at is None else f"at {rfc3339(at)}"
    match answer["decision"]:
        case "start":
            line = f"{run} would start {when} with {plural(answer['width'], 'GPU')}"
            line += f" after {plural(len(answer['cuts']), 'cut')}." if answer["cuts"] else "."
        case "reserve":
            line = f"{run} would not start {when} ({answer['reason']}). {promise(answer, now)}"
        case "refuse":
            verb = "shrink that far" if answer["reason"] == "BelowMinimum" else "start"
            line = f"{run} cannot {verb}: {answer['reason']}." if answer["reason"] else f"{run} cannot {verb}."
        case "cut":
            freed = sum(cut["gpus"] for cut in answer["cuts"])
            line = f"{run} would give up {plural(freed, 'GPU')}, leaving a width of {answer['width']}."
            if answer["run"] is None:
                line = f"{plural(len(answer['cuts']), 'cut')} would free {plural(freed, 'GPU')}."
        case _:
            line = f"{run}: nothing to do" + (f" ({answer['reason']})." if answer["reason"] else ".")
    return line + "\n"


def promise(answer: Json, now: int) -> str:
    """When it starts, as far as anybody can promise."""
    start = answer["earliestStart"]
    if start is None:
        return "It waits until a budget allows it; no start can be promised."
    ahead = instant(start) - now
    when = "now" if ahead <= 0 else f"{start} (in {span(ahead)})"
    if answer["confidence"] == "needs-cuts":
        return f"Earliest start {when}, if others yield."
    return f"Earliest start {when}."


def why(answer: Json) -> str:
    """Who was asked and what stopped them, unless it simply starts."""
    if answer["decision"] == "start":
        return ""
    return refusal(answer["trace"]) or (f"  {clean(answer['message'])}\n" if answer["message"] else "")


def missing(answer: Json) -> str:
    deficit = answer["deficitGPUs"]
    return f"  missing   {plural(deficit, 'GPU')} that no node has free now\n" if deficit else ""


def refusal(trace: Sequence[Json]) -> str:
    """What stopped it now: the steps before the first that places it, which belongs to a later start."""
    end = next((index for index, step in enumerate(trace) if step["act"] == "placed"), len(trace))
    return asked(trace[:end])


def asked(trace: Sequence[Json]) -> str:
    """Who was asked to pay and which domains were tried, with the numbers; a repeated step is shown once."""
    told = [step for step in _domains_whole(trace) if _tells(step)]
    several = any(step.get("group") for step in told)
    rows = list(dict.fromkeys(_row(step, several) for step in told))
    if not rows:
        return ""
    if len(rows) > ROWS_MAX:
        left = (f"{len(rows) - ROWS_MAX} more steps, -v shows all",)
        rows = [*rows[: ROWS_MAX // 2], ("...", *[""] * several, *left), *rows[-ROWS_MAX // 2 :]]
    header = ["RULE", "ASKED", "NEED", "HAD", "TOOK", "WHY NOT MORE"]
    if several:
        header.insert(1, "GROUP")
    return table([header, *rows], right=[index for index, word in enumerate(header) if word in NUMBERS], indent="  ")


def _tells(step: Json) -> bool:
    return step["act"] in TELLING and step["rule"][0] in "CP" and "need" in step


def _row(step: Json, several: bool) -> tuple[object, ...]:
    note = f"({step['note']})" if step.get("note") else ""
    why = " ".join(filter(None, (str(step.get("reason") or ""), note)))
    if not why and step["act"] == "passed":
        why = "passed over"
    group = (step.get("group", ""),) if several else ()
    return (step["rule"], *group, step["subject"], *(step.get(key, "") for key in ("need", "had", "took")), why)


def _domains_whole(trace: Sequence[Json]) -> list[Json]:
    """A group's placements, recorded node by node, as one step for its domain."""
    found: list[Json] = []
    for step in trace:
        last = found[-1] if found else {}
        alike = all(step.get(key) == last.get(key) for key in ("act", "rule", "subject", "group", "role"))
        if step["act"] == "placed" and alike:
            found[-1] = {**last, "took": last.get("took", 0) + step.get("took", 0)}
        else:
            found.append(step)
    return found


def groups(answer: Json) -> str:
    """What would be created: one line a group and role, nodes with their GPUs."""
    rows = []
    for group in answer["groups"]:
        for role in ("Active", "Spare", "Borrowed"):
            seats = _by_node(placement for placement in group["placements"] if placement["role"] == role)
            if seats:
                nodes = ", ".join(f"{node} {gpus}" for node, gpus in seats.items())
                total = plural(sum(seats.values()), "GPU")
                rows.append((MARK_NEW, f"group {group['index']}", total, _role(role), group["domain"], nodes))
    return table(rows, indent="  ")


def _by_node(placements: Iterator[Json]) -> dict[str, int]:
    """GPUs by node: a node shared by two payers is one place."""
    found: dict[str, int] = {}
    for placement in placements:
        found[placement["node"]] = found.get(placement["node"], 0) + placement["gpus"]
    return found


def _role(role: str) -> str:
    """The words of the design: on the wire a filler's role is `Borrowed`, which is no way of paying."""
    return {"Active": "active", "Spare": "spare", "Borrowed": "filler"}[role]


def payers(answer: Json) -> str:
    """Who pays, in the order of payment, and the sum."""
    rows = [
        (
            "paid by" if index == 0 else "",
            part["gpus"],
            f"{part['budget']}/{part['envelope']}",
            part["class"],
            part["owner"],
        )
        for index, part in enumerate(answer["payers"])
    ]
    if len(rows) > 1:
        rows.append(("in all", sum(part["gpus"] for part in answer["payers"]), "", "", ""))
    return table(rows, right=(1,), indent="  ")


def cuts(answer: Json) -> str:
    """Who would yield: `~` where a run goes on with less, `-` where it ends."""
    rows = []
    for cut in answer["cuts"]:
        ends = cut["kind"] in ("EndFiller", "RandomPreempt")
        verb, word = CUT_WORDS[cut["kind"]]
        what = f"run/{cut['run']}" + ("" if cut["group"] is None else f" group {cut['group']}")
        note = f"{word}, an example draw" if cut["provisional"] else word
        rows.append((MARK_GONE if ends else MARK_CHANGED, what, verb, plural(cut["gpus"], "GPU"), note))
    return table(rows, indent="  ")


def lottery(answer: Json) -> str:
    """Every token's chance at the first draw (R4)."""
    drawn = answer["lottery"]
    if drawn is None:
        return ""
    state = "provisional: the real seed does not exist yet" if drawn["provisional"] else "attested"
    head = f"  lottery   seed {clean(drawn['seed'])} ({state})\n"
    rows = [
        ("chance", token["chance"], token["run"], token["owner"], plural(token["gpus"], "GPU"))
        for token in drawn["tokens"]
    ]
    return head + table(rows, indent="    ")


def remedies(answer: Json, request: Asked) -> str:
    """What would help; each was tried by the planner (F4)."""
    found = answer["remedies"]
    if not found:
        return ""
    title = "any one of these would help:" if len(found) > 1 else "this would help:"
    before = request.command
    if not before.startswith("plan ") and answer["decision"] == "reserve":
        before = f"plan {clean(answer['run']).partition('/')[2]}"  # it has been submitted, so it can be named
    rows = [(remedy["message"], pasted(remedy["command"], before)) for remedy in found]
    return f"  {title}\n" + table(rows, indent="    ")


def pasted(command: str, before: str) -> str:
    """A remedy's command as it can be pasted: `plan --gpus 24` repeats what was asked, with that change."""
    if command.startswith("plan ") and before.startswith("plan "):
        return f"kubectl runs {before} {command.removeprefix('plan ')}"
    return f"kubectl runs {command}" if command else ""


def steps(trace: Sequence[Json]) -> str:
    """Every step of the trace, one line each: `-v`, and `explain`."""
    header = ("RULE", "ACT", "WHAT", "GROUP", "NEED", "HAD", "TOOK", "CAP", "WHY")
    rows = [
        (
            step["rule"],
            step["act"],
            step["subject"] + (f" {step['node']}" if step.get("node") else ""),
            *(step.get(key, "") for key in ("group", "need", "had", "took", "cap")),
            " ".join(filter(None, (str(step.get("reason") or ""), str(step.get("note") or "")))),
        )
        for step in trace
    ]
    return table([header, *rows], right=(3, 4, 5, 6, 7), indent="  ")


def summary(answer: Json) -> str:
    """One countable line."""
    held = sum(part["gpus"] for part in answer["payers"])
    parts = []
    if answer["decision"] == "start":
        parts.append(f"{plural(held, 'GPU')} to hold on {plural(len(_nodes(answer)), 'node')}")
    elif answer["decision"] == "reserve":
        parts.append(f"1 to reserve ({plural(held, 'GPU')})" if held else "1 to reserve")
    else:
        parts.append("nothing to start")
    for kind, word in (
        ("Shrink", "to shrink"),
        ("DropSpare", "to drop"),
        ("EndFiller", "filler"),
        ("RandomPreempt", "drawn"),
    ):
        found = [cut for cut in answer["cuts"] if cut["kind"] == kind]
        if found:
            parts.append(f"{len(found)} {word} ({plural(sum(cut['gpus'] for cut in found), 'GPU')})")
    return f"Plan: {', '.join(parts)}."


def _nodes(answer: Json) -> frozenset[str]:
    return frozenset(placement["node"] for group in answer["groups"] for placement in group["placements"])
