"""What an audit found, as JSON (section 8) and for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kubectl_runs import text

if TYPE_CHECKING:
    from planner.audit import Audit

Json = dict[str, Any]

WORDS = {
    "objects": "every object of ours can be read",
    "chain": "the chain of digests is intact",
    "base": "base equals what the entries up to it add up to",
    "attested": "every lease and promise is named by an entry",
    "gpus": "no GPU is held twice",
    "caps": "no cap was passed at any entry",
    "once": "a run starts at most once an attempt",
    "pods": "a bound pod of ours has an open lease on its node",
    "closed-leases": "a closed lease never changes",
    "terminal-runs": "a run that is over holds nothing",
    "conservation": "GPU-seconds by payer sum to GPU-seconds by lease",
    "replay": "the planner would have allowed each entry",
    "draws": "each draw follows from its frozen list and seed",
}


def to_json(audit: Audit) -> Json:
    return {
        "ok": audit.ok,
        "checks": [{"name": str(tally.check), "examined": tally.examined, "ok": tally.ok} for tally in audit.tallies],
        "findings": [
            {
                "check": str(finding.check),
                "severity": str(finding.severity),
                "object": finding.object,
                "message": finding.message,
            }
            for finding in audit.findings
        ],
    }


def render(answer: Json, *, verbose: bool = False) -> str:
    """The verdict first, then the list, then what was found; infos only with -v."""
    findings = answer["findings"]
    shown = [one for one in findings if verbose or one["severity"] != "info"]
    rows = [
        ("ok" if check["ok"] else "BROKEN", check["name"], str(check["examined"]), WORDS[check["name"]])
        for check in answer["checks"]
    ]
    parts = [_verdict(findings) + "\n\n", text.table([("", "CHECK", "EXAMINED", "WHAT MUST HOLD"), *rows], right=(2,))]
    if shown:
        lines = [(one["severity"], one["object"], one["message"]) for one in shown]
        parts += ["\n", text.table(lines)]
    hidden = len(findings) - len(shown)
    if hidden:
        parts.append(f"\n{text.plural(hidden, 'remark')} not shown (-v)\n")
    return "".join(parts)


def _verdict(findings: list[Json]) -> str:
    broken = [one for one in findings if one["severity"] == "error"]
    warned = sum(1 for one in findings if one["severity"] == "warning")
    if broken:
        return f"{text.plural(len(broken), 'error')}, first: {broken[0]['object']}: {broken[0]['message']}"
    return "everything holds" + (f", with {text.plural(warned, 'warning')}" if warned else "")
