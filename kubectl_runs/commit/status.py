"""A Run's status: phase and conditions from its life, width, funding and leases. Derived in this one place.

Status is for people and for `kubectl wait`; nothing that decides ever reads it. `Running` means that the full active
width is held and every pod is bound: it is written by whoever binds, with no daemon to watch containers start.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kubectl_runs.commit.life import Life, Stage, life
from kubectl_runs.commit.steps import Steps, all_of
from kubectl_runs.read import Reading
from kubectl_runs.store.protocol import Object, Patch, Request
from kubectl_runs.wire import encode
from kubectl_runs.wire.encode import Json
from kubectl_runs.wire.kinds import POD, RUN
from kubectl_runs.wire.times import rfc3339
from planner.fold import lease_number
from planner.model import FundingClass, Lease, Reservation, Role, Run

NAMES_MAX = 200
HOUR = 3600
CONDITIONS = ("Running", "Reserved", "Completed", "Failed")


def write_status(reading: Reading, run_object: Object, run: Run, bound: frozenset[str] = frozenset()) -> Steps[None]:
    """6.5: write the Run's status if it says something new. A refusal is no harm: the next command writes it."""
    yield from all_of(status_writes(reading, run_object, run, bound))


def status_writes(reading: Reading, run_object: Object, run: Run, bound: frozenset[str]) -> list[Request]:
    """The write that brings the status up to date, if it needs one."""
    status = run_status(reading, run_object, run, bound)
    if _same(run_object.get("status") or {}, status):
        return []
    metadata = run_object["metadata"]
    # A merge patch drops what is null, so that what no longer holds goes away.
    patch = {"status": {"earliestStart": None, "pendingReservation": None, "message": None, **status}}
    name, namespace = metadata["name"], metadata["namespace"]
    return [Patch(kind=RUN, name=name, namespace=namespace, patch=patch, subresource="status")]


def run_status(reading: Reading, run_object: Object, run: Run, bound: frozenset[str] = frozenset()) -> Json:
    """The status that follows from what was read; `bound` are pods that this command has bound since."""
    lived = life(reading.snapshot, run)
    promise = _promise(reading, run) if lived.may_start else None
    running = lived.stage is Stage.HOLDS and _all_bound(reading, run, lived, bound)
    reason, message = _why(lived, promise, running)
    status: Json = {
        "conditions": _conditions(run_object, lived, promise, running, reason, message, reading.read_at),
        "observedGeneration": run_object["metadata"].get("generation") or 1,
        "attempt": lived.attempt,
        "width": _width(run, lived),
        "funding": _funding(lived.leases, reading.read_at),
        "leases": {
            "open": len(lived.held),
            "names": sorted((lease.name for lease in lived.held), key=_by_number)[:NAMES_MAX],
        },
    }
    start = rfc3339(promise.earliest_start) if promise and promise.earliest_start is not None else None
    status |= encode.present(message=message, earliestStart=start, pendingReservation=promise.name if promise else None)
    return status | {"phase": phase_of(status["conditions"])}


def phase_of(conditions: Iterable[Json]) -> str:
    """The phase follows from the conditions: the first of these that is true."""
    true = {condition["type"] for condition in conditions if condition["status"] == "True"}
    return next((phase for phase in ("Completed", "Failed", "Running") if phase in true), "Pending")


def _why(lived: Life, promise: Reservation | None, running: bool) -> tuple[str, str]:
    """One word for conditions and one sentence for people."""
    match lived.stage:
        case Stage.COMPLETED:
            return "Completed", "every pod succeeded"
        case Stage.CANCELED:
            return "Canceled", "cancelled"
        case Stage.FAILED:
            return lived.reason or "Fail", f"attempt {lived.attempt} ended with {lived.reason}"
        case Stage.HOLDS if running:
            return "Bound", f"holds {lived.width} GPUs"
        case Stage.HOLDS:
            return "Binding", f"holds {lived.width} GPUs, not every pod is bound"
    if promise is not None:
        waits = "waits for a payer" if promise.earliest_start is None else "waits for its reserved start"
        return str(promise.reason or "Reserved"), waits
    if lived.stage is Stage.AGAIN:
        return lived.reason or "Again", f"attempt {lived.attempt - 1} ended with {lived.reason}, to be tried again"
    return "Submitted", "not planned yet"


def _conditions(
    run_object: Object, lived: Life, promise: Reservation | None, running: bool, reason: str, message: str, now: int
) -> list[Json]:
    """The four conditions; `lastTransitionTime` moves only when the answer does."""
    truth = {
        "Running": running,
        "Reserved": promise is not None,
        "Completed": lived.stage is Stage.COMPLETED,
        "Failed": lived.stage in (Stage.FAILED, Stage.CANCELED),
    }
    before = {each["type"]: each for each in (run_object.get("status") or {}).get("conditions") or ()}
    generation = run_object["metadata"].get("generation") or 1
    made = []
    for name in CONDITIONS:
        status = "True" if truth[name] else "False"
        old = before.get(name)
        since = old["lastTransitionTime"] if old and old["status"] == status else rfc3339(now)
        made.append(
            {
                "type": name,
                "status": status,
                "reason": str(_word(reason)),
                "message": message,
                "lastTransitionTime": since,
                "observedGeneration": generation,
            }
        )
    return made


def _word(reason: str) -> str:
    """Condition reasons are one word: a lottery's seed stays on the leases."""
    return reason.partition("(")[0] or "Unknown"


def _all_bound(reading: Reading, run: Run, lived: Life, bound: frozenset[str]) -> bool:
    """Full active width (malleable: its minimum), every pod on its node."""
    needed = run.malleable.gpus_min if run.malleable else run.gpus_total
    begun = [lease for lease in lived.leases if lease.attempt == lived.attempt and lease.role is not Role.SPARE]
    finished = sum(lease.gpus for lease in begun if lease.closed and lease.closure == "Completed")
    if lived.width + finished < needed:
        return False
    return all(_is_bound(reading, lease, bound) for lease in lived.held if lease.pod is not None)


def _is_bound(reading: Reading, lease: Lease, bound: frozenset[str]) -> bool:
    assert lease.pod is not None
    if lease.pod.uid in bound:
        return True
    pod = reading.object(POD, f"{lease.namespace}/{lease.pod.name}")
    return pod is not None and bool((pod.get("spec") or {}).get("nodeName"))


def _width(run: Run, lived: Life) -> Json:
    low = run.malleable.gpus_min if run.malleable else run.gpus_total
    high = run.malleable.gpus_max if run.malleable else run.gpus_total
    desired = run.malleable.gpus_desired if run.malleable else run.gpus_total
    pending = 0 if lived.over else max(0, desired - lived.width)
    return {"min": low, "max": high, "desired": desired, "allocated": lived.width, "pending": pending}


def _funding(leases: Sequence[Lease], now: int) -> Json:
    """GPUs paid now and GPU-hours so far, by class; hours are whole, rounded down."""
    made: Json = {}
    for funding in FundingClass:
        paid = [lease for lease in leases if lease.funding is funding]
        seconds = sum(lease.gpus * max(0, (lease.end_at or now) - lease.start_at) for lease in paid)
        held = sum(lease.gpus for lease in paid if not lease.closed)
        if paid:
            made[funding.value] = {"gpus": held, "gpuHours": seconds // HOUR}
    return made


def _promise(reading: Reading, run: Run) -> Reservation | None:
    """The run's open reservation: as an entry tells, until its object speaks for it."""
    told = [entry.reserve for entry in reading.snapshot.entries if entry.reserve is not None and not entry.void]
    mine = [made for made in (*told, *reading.snapshot.reservations) if made.run_uid == run.uid and run.uid]
    return next((made for made in reversed(mine) if made.open), None)


def _by_number(name: str) -> tuple[int, str]:
    return lease_number(name), name


def _same(before: Json, after: Json) -> bool:
    """Whether the written status already says this; GPU-hours alone are no news."""
    ignored = ("funding",)
    return {key: part for key, part in before.items() if key not in ignored} == {
        key: part for key, part in after.items() if key not in ignored
    }
