"""What must hold, whatever crashes, races or repeats (section 6), as one list.

Property tests, the simulation, `verify` and the daemon all call this. It repairs nothing and trusts no label and no
digest that it can compute. Two lines of the list are about what happens over time (what was acknowledged is in the
ledger; any prefix of the writes plus one retry reaches the same end): only a simulation can watch them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from planner.audit_draws import draws
from planner.audit_entries import once, replay
from planner.audit_fleet import pods, terminal_runs
from planner.audit_history import Check, Evidence, Finding, History, Resolution, Result, Severity
from planner.audit_leases import attested, closed_leases, conservation, objects
from planner.audit_ledger import base, chain
from planner.audit_walk import caps, gpus
from planner.model import Snapshot

__all__ = [
    "CHECKS",
    "Audit",
    "Check",
    "Evidence",
    "Finding",
    "Resolution",
    "Severity",
    "Tally",
    "audit",
    "audit_draw",
    "examine",
]

NO_EVIDENCE = Evidence()
CHECKS: dict[Check, Callable[[History], Result]] = {
    Check.OBJECTS: objects,
    Check.CHAIN: chain,
    Check.BASE: base,
    Check.ATTESTED: attested,
    Check.GPUS: gpus,
    Check.CAPS: caps,
    Check.ONCE: once,
    Check.PODS: pods,
    Check.CLOSED_LEASES: closed_leases,
    Check.TERMINAL_RUNS: terminal_runs,
    Check.CONSERVATION: conservation,
    Check.REPLAY: replay,
    Check.DRAWS: draws,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """One line of the list: how much was looked at, and whether it holds."""

    check: Check
    examined: int
    ok: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What was examined and what was found, in the order of the list."""

    tallies: tuple[Tally, ...]
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        return all(tally.ok for tally in self.tallies)

    def confirmed_by(self, other: Audit) -> Audit:
        """Only what both found: of a cluster that moved while it was read, the rest was on its way."""
        both = tuple(finding for finding in other.findings if finding in set(self.findings))
        broken = {finding.check for finding in both if finding.severity is Severity.ERROR}
        tallies = tuple(replace(tally, ok=tally.check not in broken) for tally in other.tallies)
        return Audit(tallies=tallies, findings=both)


def examine(snapshot: Snapshot, now: int, evidence: Evidence = NO_EVIDENCE) -> Audit:
    """The whole list over one state. The snapshot holds every entry and lease that is kept, not only the open ones."""
    history = History.of(snapshot, now, evidence)
    return _audit({check: judge(history) for check, judge in CHECKS.items()})


def audit(snapshot: Snapshot, now: int, evidence: Evidence = NO_EVIDENCE) -> tuple[Finding, ...]:
    """The findings alone; empty if everything holds."""
    return examine(snapshot, now, evidence).findings


def audit_draw(snapshot: Snapshot, now: int, seed: str) -> Audit:
    """One lottery alone, by its seed."""
    history = History.of(snapshot, now, Evidence())
    return _audit({Check.CHAIN: chain(history), Check.DRAWS: draws(history, seed)})


def _audit(results: dict[Check, Result]) -> Audit:
    return Audit(
        tallies=tuple(
            Tally(
                check=check,
                examined=result.examined,
                ok=not any(finding.severity is Severity.ERROR for finding in result.findings),
            )
            for check, result in results.items()
        ),
        findings=tuple(finding for result in results.values() for finding in result.findings),
    )
