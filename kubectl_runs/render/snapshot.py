"""What a snapshot file holds, on one screen. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict

from kubectl_runs.text import plural
from kubectl_runs.text import table as columns
from kubectl_runs.wire.times import rfc3339
from planner.fold import open_leases
from planner.model import Snapshot


def table(snapshot: Snapshot, now: int) -> str:
    """Counts, then the fleet by domain and flavor, then where the ledger stands."""
    held = open_leases(snapshot)
    base = snapshot.base
    rows = [
        ("time", rfc3339(now)),
        ("nodes", len(snapshot.nodes)),
        ("pods", len(snapshot.pods)),
        ("budgets", len(snapshot.budgets)),
        ("runs", len(snapshot.runs)),
        ("leases", f"{len(snapshot.leases)}, {len(held)} open"),
        ("reservations", f"{len(snapshot.reservations)}, {sum(made.open for made in snapshot.reservations)} open"),
        (
            "ledger",
            f"base {base.seq}, {plural(len(snapshot.entries), 'entry', 'entries')} after it" if base else "none",
        ),
    ]
    return columns(rows) + "\n" + _fleet(snapshot)


def _fleet(snapshot: Snapshot) -> str:
    held = Counter[str]()
    for lease in open_leases(snapshot).values():
        held[lease.node] += lease.gpus
    domains: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    for node in snapshot.nodes:
        sums = domains[(node.domain.name if node.domain else "(unlabelled)", node.flavor or "-")]
        for index, amount in enumerate((1, node.gpus, held[node.name])):
            sums[index] += amount
    header = ("DOMAIN", "FLAVOR", "NODES", "GPUS", "LEASED")
    return columns([header, *((*key, *sums) for key, sums in sorted(domains.items()))], right=(2, 3, 4))
