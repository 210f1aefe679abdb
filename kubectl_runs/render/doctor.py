"""What a check-up found, as JSON and for people."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kubectl_runs import text

if TYPE_CHECKING:
    from planner.checkup import Symptom

Json = dict[str, Any]


def to_json(found: Iterable[Symptom]) -> Json:
    findings = [
        {
            "check": one.check,
            "severity": str(one.severity),
            "object": one.object,
            "message": one.message,
            "command": one.command,
        }
        for one in found
    ]
    return {"ok": all(one["severity"] == "info" for one in findings), "findings": findings}


def render(answer: Json) -> str:
    """The verdict, then one line a finding with the command that helps under it."""
    findings = answer["findings"]
    wrong = [one for one in findings if one["severity"] != "info"]
    first = f"{text.plural(len(wrong), 'thing')} to look at" if wrong else "nothing is wrong"
    lines = [first + ("\n" if findings else "")]
    for one in findings:
        lines.append(f"{one['severity']:<8}{text.clean(one['object'])}: {text.clean(one['message'])}")
        lines.append(f"        {text.clean(one['command'])}")
    return "\n".join(lines) + "\n"
