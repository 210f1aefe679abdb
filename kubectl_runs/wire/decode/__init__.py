"""Kubernetes JSON → the planner's words, without pydantic: strict on our specs, lenient on all else (section 8)."""

from kubectl_runs.errors import WireError
from kubectl_runs.wire.decode.fleet import Topology, lenient_instant, needs, node, pod
from kubectl_runs.wire.decode.shape import describe
from kubectl_runs.wire.decode.whole import base as ledger
from kubectl_runs.wire.decode.whole import (
    budget,
    entry,
    lease,
    leniently,
    namespace_owners,
    reservation,
    run,
    snapshot,
    topology,
)
from planner.model import LedgerBase

NO_BASE = LedgerBase()  # a snapshot without a Ledger has base 0 (section 6)

__all__ = [
    "NO_BASE",
    "Topology",
    "WireError",
    "budget",
    "describe",
    "entry",
    "lease",
    "ledger",
    "lenient_instant",
    "leniently",
    "namespace_owners",
    "needs",
    "node",
    "pod",
    "reservation",
    "run",
    "snapshot",
    "topology",
]
