"""Roll forward: write down what an entry has already decided (6.5). Idempotent, by anyone with the rights.

Creates leases and the Reservation, binds pods, stops those in `ends`, closes what the entry closes. Every write is
deterministic from the entry, so it does not matter who does it, how often, or who died half-way. It decides nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from kubectl_runs.commit.steps import Outcome, Steps, all_of
from kubectl_runs.read import Reading
from kubectl_runs.store.protocol import (
    AlreadyExists,
    Bind,
    Conflict,
    Create,
    Delete,
    Forbidden,
    Get,
    Invalid,
    NotFound,
    Object,
    Patch,
    Reply,
    Request,
    StoreError,
)
from kubectl_runs.wire import encode
from kubectl_runs.wire.kinds import LEASE, POD
from planner.fold import closed_keys, open_leases
from planner.model import Closed, Closure, Ended, Entry, Lease, Opened
from planner.values import dataclass

# A pod of a failed node, or of a run that is over, is given its own grace; a cut one gets time to save (section 4).
NO_TIME_TO_SAVE = (Closure.CANCELED, Closure.FAIL, Closure.COMPLETED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rolled:
    """What became of one entry: `unfinished` names what is still to be written, `refused` why it was not."""

    seq: int
    unfinished: tuple[str, ...] = ()
    refused: tuple[StoreError, ...] = ()


def roll_forward(entry: Entry, reading: Reading) -> Steps[Rolled]:
    """6.5: everything one entry has decided, except the reservation (`reserve`) and the Run's status (`status`)."""
    if entry.void:
        return Rolled(seq=entry.seq)
    ended = ended_keys(reading.snapshot.entries)
    opened = yield from _open(entry, reading, ended)
    yield from stop(entry, reading)
    closes = yield from _write_closes(entry, reading)
    still = still_open(reading)
    # 6.8: a lease in `ends` that is still open keeps its entry unfinished.
    waiting = [f"lease {key} is still open" for key in _keys(entry.ends) if key in still]
    outcomes = (*opened, *closes)
    return Rolled(
        seq=entry.seq,
        unfinished=(*(word for word, _ in outcomes), *waiting),
        refused=tuple(error for _, error in outcomes if error is not None),
    )


Unfinished = tuple[str, StoreError | None]


def _keys(parts: Iterable[Ended]) -> list[str]:
    return [f"{part.namespace}/{part.lease}" for part in parts]


def still_open(reading: Reading, written: Collection[int] = ()) -> set[str]:
    """Leases that are held, or closed by an entry alone; `written` are entries whose closes are known to be done."""
    closing = [
        f"{close.namespace}/{close.lease}"
        for entry in reading.snapshot.entries
        if not entry.void and entry.seq not in written
        for close in entry.closes
        if not _shown_closed(close, reading) and not reading.terminating(close.namespace)
    ]
    return set(open_leases(reading.snapshot)) | set(closing)


def ended_keys(entries: Iterable[Entry]) -> set[str]:
    """Leases that some entry ends or closes: their pods are not to be started any more."""
    counting = [entry for entry in entries if not entry.void]
    return {key for entry in counting for key in _keys(entry.ends)} | closed_keys(counting)


# Leases and pods


def _open(entry: Entry, reading: Reading, ended: set[str]) -> Steps[list[Unfinished]]:
    """6.5: write the leases and bind the pods, all at once: the entry already holds the GPUs for both."""
    if not entry.opens:
        return []
    assert entry.run is not None, "an entry that opens leases names their run"
    namespace = entry.run.namespace
    leases = _leases_to_write(entry, reading, namespace)
    binds = _binds_to_make(entry, reading, namespace, ended)
    creates = [Create(kind=LEASE, object=encode.lease_object(entry, open_)) for open_ in leases]
    outcomes = yield from all_of([*creates, *binds])
    problems = yield from _check_leases(entry, namespace, leases, outcomes[: len(leases)])
    return problems + (yield from _check_binds(namespace, binds, outcomes[len(leases) :]))


def _leases_to_write(entry: Entry, reading: Reading, namespace: str) -> list[Opened]:
    """6.5: the leases `l-<seq>-<i>`; in a namespace that is Terminating or gone they count as written."""
    if reading.terminating(namespace):
        return []
    written = reading.objects.get(LEASE, {})
    return [open_ for open_ in entry.opens if f"{namespace}/{open_.lease}" not in written]


def _check_leases(
    entry: Entry, namespace: str, leases: Sequence[Opened], outcomes: Sequence[Outcome]
) -> Steps[list[Unfinished]]:
    """`AlreadyExists` counts as success only if run UID, node and payer match."""
    unsure = [index for index, outcome in enumerate(outcomes) if isinstance(outcome, StoreError)]
    looks = yield from all_of([_get_lease(namespace, leases[index].lease) for index in unsure])
    problems: list[Unfinished] = []
    for index, look in zip(unsure, looks, strict=True):
        outcome = outcomes[index]
        assert isinstance(outcome, StoreError)
        if not (_same_lease(entry, leases[index], look) or _namespace_gone(outcome)):
            problems.append((f"lease {namespace}/{leases[index].lease} is not written", outcome))
    return problems


def _same_lease(entry: Entry, open_: Opened, look: Outcome) -> bool:
    """Whether what is there is this entry's lease: same run UID, node and payer."""
    if not isinstance(look, Reply):
        return False
    there, wanted = look.object["spec"], encode.lease_spec(entry, open_)
    return all(
        part(there) == part(wanted)
        for part in (
            lambda spec: spec["runRef"]["uid"],
            lambda spec: spec["slice"]["nodes"],
            lambda spec: (spec["paidByBudget"], spec["paidByEnvelope"]),
        )
    )


def _namespace_gone(error: StoreError) -> bool:
    """The server's own words for a namespace in which nothing can be written any more."""
    causes = [cause.get("reason") for cause in error.details.get("causes") or ()]
    terminating = "NamespaceTerminating" in causes or "because it is being terminated" in error.message
    gone = isinstance(error, NotFound) and error.details.get("kind") == "namespaces"
    return terminating or gone


def _get_lease(namespace: str, name: str) -> Request:
    return Get(kind=LEASE, namespace=namespace, name=name)


def _binds_to_make(entry: Entry, reading: Reading, namespace: str, ended: set[str]) -> list[Bind]:
    """6.5: bind with the UID from the entry, so that a namesake made later is never started in its place."""
    pods = reading.objects.get(POD, {})
    wanted: dict[str, Bind] = {}
    for open_ in entry.opens:
        # A lease that was ended meanwhile starts nothing any more: its pod is stopped by the entry that ended it.
        if open_.pod is None or f"{namespace}/{open_.lease}" in ended:
            continue
        if not _is_bound(pods, namespace, open_, entry.seq <= reading.seen):
            name, uid = open_.pod.name, open_.pod.uid
            wanted[name] = Bind(namespace=namespace, pod=name, uid=uid, node=open_.node)
    return list(wanted.values())


def _check_binds(namespace: str, binds: Sequence[Bind], outcomes: Sequence[Outcome]) -> Steps[list[Unfinished]]:
    unsure = [index for index, outcome in enumerate(outcomes) if isinstance(outcome, StoreError)]
    looks = yield from all_of([Get(kind=POD, namespace=namespace, name=binds[index].pod) for index in unsure])
    problems: list[Unfinished] = []
    for index, look in zip(unsure, looks, strict=True):
        outcome = outcomes[index]
        assert isinstance(outcome, StoreError)
        if not _bound_or_gone(binds[index], look):
            problems.append((f"pod {namespace}/{binds[index].pod} is neither bound nor gone", outcome))
    return problems


def _is_bound(pods: Mapping[str, Object], namespace: str, open_: Opened, seen: bool) -> bool:
    """Whether the reading already shows the pod bound or gone; of pods made after it nothing is known."""
    assert open_.pod is not None
    pod = pods.get(f"{namespace}/{open_.pod.name}")
    if pod is None or pod["metadata"].get("uid") != open_.pod.uid:
        return seen
    return bool((pod.get("spec") or {}).get("nodeName"))


def _bound_or_gone(bind: Bind, look: Outcome) -> bool:
    """A 409 on a bind says three things: read the pod to learn which (bound here, another pod, being deleted)."""
    if isinstance(look, NotFound):
        return True
    if isinstance(look, StoreError):
        return False
    pod = look.object
    if pod["metadata"]["uid"] != bind.uid:
        return True
    return bool((pod.get("spec") or {}).get("nodeName") == bind.node)


def stop(entry: Entry, reading: Reading) -> Steps[None]:
    """6.5: stop the pods in `ends`; their GPUs stay held until a Close."""
    held = open_leases(reading.snapshot)
    deletes: dict[str, Request] = {}
    for end in entry.ends:
        lease = held.get(f"{end.namespace}/{end.lease}")
        if lease is None or lease.pod is None or not _to_delete(lease, reading):
            continue
        deletes[f"{lease.namespace}/{lease.pod.name}"] = Delete(
            kind=POD,
            name=lease.pod.name,
            namespace=lease.namespace,
            uid=lease.pod.uid,
            grace_seconds=_grace(lease, end.reason, reading),
        )
    for outcome in (yield from all_of(list(deletes.values()))):
        # Gone, or another pod of that name: nothing to stop. Without the right somebody else stops it (pending).
        if isinstance(outcome, StoreError) and not isinstance(outcome, NotFound | Conflict | Forbidden):
            raise outcome


def _to_delete(lease: Lease, reading: Reading) -> bool:
    """Live and not being deleted already. A pod that has ended keeps its output until its run is deleted."""
    assert lease.pod is not None
    pod = reading.object(POD, f"{lease.namespace}/{lease.pod.name}")
    if pod is None or pod["metadata"].get("uid") != lease.pod.uid:
        return True
    ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    return not ended and not pod["metadata"].get("deletionTimestamp")


def _grace(lease: Lease, reason: str, reading: Reading) -> int | None:
    """Section 4: a cut gives pods up to `checkpoint` to save. A failed node's pod answers nobody (S1)."""
    if reason == Closure.NODE_FAILURE:
        return 0
    run = next((run for run in reading.snapshot.runs if run.uid == lease.run_uid), None)
    if run is None or reason in NO_TIME_TO_SAVE:
        return None
    return run.checkpoint


# Closes


def _write_closes(entry: Entry, reading: Reading) -> Steps[list[Unfinished]]:
    """6.5: close what the entry closes, after its lease is written; NotFound is no success above `floor`."""
    todo = [close for close in entry.closes if not _shown_closed(close, reading)]
    todo = [close for close in todo if not reading.terminating(close.namespace)]
    outcomes = yield from all_of([_close(close) for close in todo])
    problems: list[Unfinished] = []
    for close, outcome in zip(todo, outcomes, strict=True):
        if isinstance(outcome, Invalid | Conflict | AlreadyExists):
            (look,) = yield (_get_lease(close.namespace, close.lease),)
            outcome = look if not _is_closed(look) else Reply(server_time=0)
        if isinstance(outcome, StoreError) and not _namespace_gone(outcome):
            problems.append((f"close of lease {close.namespace}/{close.lease} is not written", outcome))
        elif isinstance(outcome, Reply) and outcome.object and not _is_closed(outcome):
            problems.append((f"lease {close.namespace}/{close.lease} is still open", None))
    return problems


def _close(close: Closed) -> Request:
    return Patch(
        kind=LEASE,
        name=close.lease,
        namespace=close.namespace,
        patch=encode.lease_closing(close),
        subresource="status",
    )


def _shown_closed(close: Closed, reading: Reading) -> bool:
    lease = reading.object(LEASE, f"{close.namespace}/{close.lease}")
    return lease is not None and (lease.get("status") or {}).get("closed") is True


def _is_closed(look: Outcome) -> bool:
    return isinstance(look, Reply) and (look.object.get("status") or {}).get("closed") is True
