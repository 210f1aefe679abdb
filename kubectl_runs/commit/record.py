"""From a decision to what its entry records: the leases it opens, the promise it makes, the budgets it asked.

Nothing here decides or writes; `start` and `preempt` append what is made here.
"""

from __future__ import annotations

from collections.abc import Sequence

from kubectl_runs.commit.draft import Draft
from kubectl_runs.commit.prepare import Prepared
from kubectl_runs.read import Reading
from kubectl_runs.store.protocol import Object
from kubectl_runs.wire import encode
from kubectl_runs.wire.kinds import BUDGET
from planner.model import (
    Decision,
    EntryKind,
    Opened,
    Opening,
    Payer,
    PayerShare,
    Reservation,
    Run,
    RunRef,
    Seat,
    SliceGroup,
    SliceNode,
)


def draft_of(kind: EntryKind, run: Object, attempt: int, reading: Reading, decision: Decision) -> Draft:
    """What entries of a run have in common; `opens` or `reserve` is the caller's."""
    ref = run_ref_of(run, attempt)
    return Draft(
        kind=kind,
        run=ref,
        reservation=_reservation_ref(reading, ref),
        budgets=budget_records(reading, decision),
        plan=plan_digest(decision),
        trace=tuple(encode.trace(decision.trace)),
    )


def run_ref_of(run: Object, attempt: int) -> RunRef:
    metadata = run["metadata"]
    return RunRef(namespace=metadata["namespace"], name=metadata["name"], uid=metadata["uid"], attempt=attempt)


def opens_of(run: Run, seats: Sequence[Seat], prepared: Prepared, reason: Opening) -> tuple[Opened, ...]:
    """One lease for each pod and payer, or each spare slot and payer, by group, pods before spares."""
    ordered = sorted(
        seats, key=lambda seat: (seat.group, seat.rank is None, seat.rank or 0, seat.slot or 0, seat.payer)
    )
    return tuple(
        Opened(
            lease="",
            pod=None if seat.rank is None else prepared.ref(seat.rank),
            node=seat.node,
            gpus=seat.gpus,
            role=seat.role,
            group=seat.group,
            owner=run.owner,
            payer=seat.payer,
            funding=seat.funding,
            reason=reason,
        )
        for seat in ordered
    )


def promise_of(ref: RunRef, run: Run, decision: Decision) -> Reservation:
    """The Reservation's spec: slice and payers of the plan; while Blocked those that were asked and were full."""
    domains = {group.index: group.domain.name for group in decision.groups}
    nodes: dict[int, dict[str, int]] = {index: {} for index in domains}
    paid: dict[Payer, int] = {}
    for seat in decision.seats:
        nodes[seat.group][seat.node] = nodes[seat.group].get(seat.node, 0) + seat.gpus
        paid[seat.payer] = paid.get(seat.payer, 0) + seat.gpus
    groups = tuple(
        SliceGroup(
            index=index,
            domain=domains[index],
            nodes=tuple(SliceNode(name=name, gpus=nodes[index][name]) for name in sorted(nodes[index])),
        )
        for index in sorted(domains)
    )
    shares = tuple(PayerShare(payer=payer, gpus=gpus) for payer, gpus in paid.items()) or decision.waits_for
    return Reservation(
        namespace=ref.namespace,
        name=ref.name,
        run_name=ref.name,
        run_uid=ref.uid,
        gpus=sum(seat.gpus for seat in decision.seats) or decision.width or run.gpus_total,
        groups=groups,
        payers=shares,
        earliest_start=decision.earliest_start,
    )


def budget_records(reading: Reading, decision: Decision) -> tuple[encode.Json, ...]:
    """The budgets that were asked, as they stood: caps are judged by these (section 6)."""
    known = reading.objects.get(BUDGET, {})
    return tuple(encode.budget_record(known[name]) for name in decision.asked if name in known)


def plan_digest(decision: Decision) -> str:
    """What `--check-plan` compares: what would be done, without times and prose."""
    from kubectl_runs.wire.decision import decision_json

    return str(decision_json(decision)["digest"])


def _reservation_ref(reading: Reading, ref: RunRef) -> RunRef | None:
    made = next((made for made in reading.snapshot.reservations if made.run_key == ref.key), None)
    if made is None or made.run_uid != ref.uid or not made.open:
        return None
    return RunRef(namespace=made.namespace, name=made.name, uid=made.uid)
