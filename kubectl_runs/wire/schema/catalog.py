"""The six kinds: which model is the spec, which the status, which rules hold, and how each looks in a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from pydantic import BaseModel

from kubectl_runs.wire import kinds
from kubectl_runs.wire.schema import budget, entry, lease, ledger, reservation, run, run_rules
from kubectl_runs.wire.schema.rules import Json, Rules
from kubectl_runs.wire.schema.structural import attach, structural


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of `kubectl get`; the `wide` ones only with `-o wide`."""

    name: str
    path: str
    type: str = "string"
    wide: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One kind of ours. `exact`: its digest is taken, so nothing is defaulted and nothing may be respelled."""

    kind: kinds.Kind
    description: str
    spec: type[BaseModel]
    status: type[BaseModel] | None = None
    rules: Rules
    short_names: tuple[str, ...]
    columns: tuple[Column, ...]
    selectable: tuple[str, ...] = ()
    exact: bool = False

    def schema(self) -> Json:
        """The structural schema of the whole object, with its rules."""
        properties: Json = {
            "apiVersion": {"type": "string", "description": "Version of this schema."},
            "kind": {"type": "string", "description": "Kind of the object."},
            "metadata": {"type": "object"},
            "spec": structural(self.spec, exact=self.exact),
        }
        if self.status is not None:
            properties["status"] = structural(self.status)
        whole: Json = {
            "type": "object",
            "description": self.description,
            "required": ["spec"],
            "properties": properties,
        }
        attach(whole, self.rules)
        return whole


_AGE = Column(name="Age", path=".metadata.creationTimestamp", type="date")

RESOURCES = (
    Resource(
        kind=kinds.BUDGET,
        description="What an owner of the organisation tree holds, in envelopes.",
        spec=budget.BudgetSpec,
        status=budget.BudgetStatus,
        rules=budget.RULES,
        short_names=("gbud",),
        columns=(
            Column(name="Owner", path=".spec.owner"),
            Column(name="Envelopes", path=".spec.envelopes[*].name"),
            Column(name="Lent", path=".status.lentGPUs", type="integer"),
            Column(name="OverCap", path='.status.conditions[?(@.type=="OverCap")].status'),
            Column(name="GPU-Hours", path=".status.settledGPUHours", type="integer", wide=True),
            _AGE,
        ),
    ),
    Resource(
        kind=kinds.RUN,
        description="Work that asks for GPUs: how many, where, paid by whom, and the pods that do it.",
        spec=run.RunSpec,
        status=run.RunStatus,
        rules=run_rules.RULES,
        short_names=("grun",),
        columns=(
            Column(name="Phase", path=".status.phase"),
            Column(name="Width", path=".status.width.allocated", type="integer"),
            Column(name="GPUs", path=".spec.resources.totalGPUs", type="integer"),
            Column(name="Flavor", path=".spec.resources.gpuType"),
            Column(name="Owner", path=".spec.owner", wide=True),
            Column(name="Earliest-Start", path=".status.earliestStart", type="string"),
            Column(name="Message", path=".status.message", wide=True),
            _AGE,
        ),
    ),
    Resource(
        kind=kinds.LEASE,
        description="The fact that a run held GPUs of one node, for one payer, in one role, from a start to an end.",
        spec=lease.LeaseSpec,
        status=lease.LeaseStatus,
        rules=lease.RULES,
        # `kubectl get leases` finds the built-in kind first.
        short_names=("gl",),
        columns=(
            Column(name="Run", path=".spec.runRef.name"),
            Column(name="Node", path=".spec.slice.nodes[0]"),
            Column(name="GPUs", path=".spec.slice.gpus", type="integer"),
            Column(name="Role", path=".spec.slice.role"),
            Column(name="Budget", path=".spec.paidByBudget"),
            Column(name="Envelope", path=".spec.paidByEnvelope"),
            Column(name="Class", path=".spec.class", wide=True),
            Column(name="Start", path=".spec.interval.start", wide=True),
            Column(name="End", path=".status.endTime"),
            Column(name="Reason", path=".status.closureReason"),
            Column(name="Owner", path=".spec.owner", wide=True),
        ),
        selectable=(".status.closed", ".spec.paidByBudget", ".spec.runRef.name", ".spec.node"),
    ),
    Resource(
        kind=kinds.RESERVATION,
        description="A promise: this run, this slice, not before this time.",
        spec=reservation.ReservationSpec,
        status=reservation.ReservationStatus,
        rules=reservation.RULES,
        short_names=("gres",),
        columns=(
            Column(name="Run", path=".spec.runRef.name"),
            Column(name="GPUs", path=".spec.gpus", type="integer"),
            Column(name="State", path=".status.state"),
            Column(name="Earliest-Start", path=".spec.earliestStart"),
            Column(name="Confidence", path=".status.forecast.confidence", wide=True),
            Column(name="Reason", path=".status.reason", wide=True),
            _AGE,
        ),
    ),
    Resource(
        kind=kinds.LEDGER_ENTRY,
        description="One numbered record of the append-only ledger: an admission, a growth, a cut, a close.",
        spec=entry.EntrySpec,
        rules=entry.RULES,
        short_names=("gle",),
        columns=(
            Column(name="Kind", path=".spec.kind"),
            Column(name="Namespace", path=".spec.run.namespace"),
            Column(name="Run", path=".spec.run.name"),
            Column(name="Attempt", path=".spec.run.attempt", type="integer", wide=True),
            _AGE,
        ),
        exact=True,
    ),
    Resource(
        kind=kinds.LEDGER,
        description="Where reading the ledger begins. There is one, named base.",
        spec=ledger.LedgerSpec,
        rules=ledger.RULES,
        short_names=("gledger",),
        columns=(
            Column(name="Seq", path=".spec.seq", type="integer"),
            Column(name="Time", path=".spec.time"),
            Column(name="Floor", path=".spec.floor", type="integer"),
            Column(name="Pending", path=".spec.pending"),
            _AGE,
        ),
    ),
)
BY_KIND = {resource.kind.name: resource for resource in RESOURCES}


@cache
def schema_of(kind: str) -> Json:
    """The structural schema of a kind, made once; not to be changed."""
    return BY_KIND[kind].schema()
