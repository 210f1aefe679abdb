"""The Reservation object: written from its entry, and its state as the run goes on (6.5).

A Reservation is named after its run. It is kept and written over when the run is planned again, so that its
creationTimestamp, by which places in the queue go, stays (F1 d, F2).
"""

from __future__ import annotations

from kubectl_runs.commit.roll_forward import Unfinished
from kubectl_runs.commit.steps import Outcome, Steps, try_one
from kubectl_runs.read import Reading
from kubectl_runs.store.protocol import (
    AlreadyExists,
    Create,
    Delete,
    Get,
    NotFound,
    Object,
    Patch,
    Replace,
    Reply,
    Request,
    StoreError,
)
from kubectl_runs.wire import encode
from kubectl_runs.wire.encode import Json
from kubectl_runs.wire.kinds import RESERVATION
from kubectl_runs.wire.times import rfc3339
from planner.model import Confidence, Decision, Entry, EntryKind, Reservation, ReservationState


def write_promise(entry: Entry, reading: Reading, status: Json | None = None) -> Steps[list[Unfinished]]:
    """6.5: the Reservation of a Reserve, or of a Cut with the winner's new slice; and what becomes of it later."""
    if entry.void:
        return []
    if entry.reserve is not None:
        return (yield from _write(entry, entry.reserve, reading, status))
    yield from _conclude(entry, reading)
    return []


def _write(entry: Entry, promise: Reservation, reading: Reading, status: Json | None) -> Steps[list[Unfinished]]:
    spec = encode.reservation_spec(promise)
    there = reading.object(RESERVATION, promise.key)
    outcome: Outcome
    if there is None:
        outcome = yield from try_one(_create(promise, spec))
        if isinstance(outcome, AlreadyExists):
            outcome = yield from try_one(Get(kind=RESERVATION, name=promise.name, namespace=promise.namespace))
        there = outcome.object if isinstance(outcome, Reply) else None
    else:
        outcome = Reply(server_time=0, object=there)
    if there is not None and there["spec"]["runRef"]["uid"] != promise.run_uid:
        outcome = yield from _replace_namesake(there, promise, spec)
    elif there is not None and there["spec"] != spec:
        outcome = yield from try_one(Replace(kind=RESERVATION, object={**there, "spec": spec}))
    if isinstance(outcome, StoreError):
        return [(f"reservation {promise.key} is not written", outcome)]
    state = ReservationState.ACTIVE if entry.kind is EntryKind.CUT else state_of(promise)
    yield from try_one(_patch(promise.namespace, promise.name, {**(status or {}), "state": state.value}))
    return []


def state_of(promise: Reservation) -> ReservationState:
    """F1 (d): a promise without a start is Blocked."""
    return ReservationState.BLOCKED if promise.earliest_start is None else ReservationState.PENDING


def _create(promise: Reservation, spec: Json) -> Request:
    return Create(kind=RESERVATION, object=encode.reservation_object(promise.namespace, promise.name, spec))


def _replace_namesake(there: Object, promise: Reservation, spec: Json) -> Steps[Outcome]:
    """The reservation of an earlier run of this name goes; its place in the queue is not inherited."""
    uid = there["metadata"]["uid"]
    gone = yield from try_one(Delete(kind=RESERVATION, name=promise.name, namespace=promise.namespace, uid=uid))
    if isinstance(gone, StoreError) and not isinstance(gone, NotFound):
        return gone
    return (yield from try_one(_create(promise, spec)))


def _conclude(entry: Entry, reading: Reading) -> Steps[None]:
    """A run that started needs its promise no longer; one that was cancelled has none."""
    if entry.run is None or entry.kind not in (EntryKind.START, EntryKind.END):
        return
    promise = next((made for made in reading.snapshot.reservations if made.run_key == entry.run.key), None)
    if promise is None or promise.run_uid != entry.run.uid or not promise.open:
        return
    run = next((run for run in reading.snapshot.runs if run.uid == entry.run.uid), None)
    if entry.kind is EntryKind.START:
        # F5: promised versus actual start is kept.
        started = rfc3339(entry.time)
        status = {"state": ReservationState.RELEASED.value, "reason": "Started", "startedAt": started}
    elif run is None or run.canceled or run.deleting:
        status = {"state": ReservationState.CANCELED.value, "reason": "Canceled"}
    else:
        return
    yield from try_one(_patch(promise.namespace, promise.name, status))


def conclude(reading: Reading, key: str, state: ReservationState, reason: str) -> Steps[None]:
    """The same for a command that knows it."""
    namespace, _, name = key.partition("/")
    if reading.object(RESERVATION, key) is not None:
        yield from try_one(_patch(namespace, name, {"state": state.value, "reason": reason}))


def _patch(namespace: str, name: str, status: Json) -> Request:
    return Patch(kind=RESERVATION, name=name, namespace=namespace, patch={"status": status}, subresource="status")


def forecast_status(decision: Decision) -> Json:
    """What the planner foresaw, for people: deficit, scope, confidence and remedies it tried (F4)."""
    remedies = [
        encode.present(
            kind=remedy.kind,
            message=remedy.message,
            command=remedy.command,
            startsAt=None if remedy.starts_at is None else rfc3339(remedy.starts_at),
        )
        for remedy in decision.remedies
    ]
    forecast = {"deficitGPUs": decision.deficit_gpus} | encode.present(
        confidence=decision.confidence.value if isinstance(decision.confidence, Confidence) else None,
        remedies=remedies,
    )
    return encode.present(reason=decision.reason.value if decision.reason else None, forecast=forecast)
