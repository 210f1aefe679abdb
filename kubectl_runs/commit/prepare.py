"""Prepare: the Run and its pods, inert, before anything is held (6.3).

Quota, pod security and webhooks say no here. A preparation that fails deletes what it made; nobody else adopts its
pods, whose names carry its nonce. What goes into a pod is decided in `wire.pods`.
"""

from __future__ import annotations

from collections.abc import Sequence

from kubectl_runs.commit.steps import Steps, all_of, must, try_one
from kubectl_runs.errors import RunsError
from kubectl_runs.store.protocol import (
    AlreadyExists,
    Conflict,
    Create,
    Delete,
    Forbidden,
    Get,
    NotFound,
    Object,
    Patch,
    Reply,
    StoreError,
    Unavailable,
    Unknown,
)
from kubectl_runs.wire import times
from kubectl_runs.wire.kinds import POD, RUN, SERVICE
from kubectl_runs.wire.pods import FINALIZER, GPU_RESOURCE, Rank, pod_object, service_object
from planner.model import Decision, PodRef
from planner.values import dataclass

PODS_MAX_AGE = 10 * 60  # 6.3: an entry names only pods created in the last 10 minutes
PREPARE_MAX = 60  # 6.3: if Prepare took more than a minute, read and plan again
PATIENCE = 4  # how often a write whose reply was lost is looked up and sent again


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedPod:
    rank: Rank
    pod: PodRef
    created_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """The pods of one preparation, and the server's time when the last of them was made."""

    namespace: str
    nonce: str
    pods: tuple[PreparedPod, ...] = ()
    ready_at: int = 0

    def ref(self, rank: int) -> PodRef:
        return next(prepared.pod for prepared in self.pods if prepared.rank.rank == rank)


def ranks(decision: Decision, attempt_number: int, pods_before: int = 0) -> tuple[Rank, ...]:
    """The pods a decision needs, by rank; two seats of one rank are one pod with two payers (C8)."""
    seats = {seat.rank: seat for seat in decision.seats if seat.rank is not None}
    pods = pods_before + len(seats)
    return tuple(
        Rank(rank=rank, group=seats[rank].group, role=seats[rank].role, pods=pods, attempt=attempt_number)
        for rank in sorted(seats)
    )


def create_run(manifest: Object) -> Steps[tuple[Object, bool]]:
    """The Run, with the finalizer that keeps it until its leases are closed (6.7), and whether this command made it.

    Its UID is the idempotency key.
    """
    metadata = {**manifest["metadata"], "finalizers": [FINALIZER]}
    body = {**manifest, "metadata": metadata}
    lost: StoreError | None = None
    for _ in range(PATIENCE):
        outcome = yield from try_one(Create(kind=RUN, object=body))
        if isinstance(outcome, Reply):
            return outcome.object, True
        if not isinstance(outcome, Unknown | AlreadyExists):
            raise outcome
        lost = outcome
        found = yield from try_one(Get(kind=RUN, name=metadata["name"], namespace=metadata["namespace"]))
        if isinstance(found, Reply):
            return found.object, False
        if not isinstance(found, NotFound):
            raise found
    assert lost is not None
    raise lost


def add_finalizer(run: Object) -> Steps[Object]:
    """A Run made with `kubectl apply` gets the finalizer before it holds anything."""
    metadata = run["metadata"]
    if FINALIZER in (metadata.get("finalizers") or ()):
        return run
    patch = {
        "metadata": {
            "finalizers": [*(metadata.get("finalizers") or ()), FINALIZER],
            "resourceVersion": metadata["resourceVersion"],
        }
    }
    reply = yield from must(Patch(kind=RUN, name=metadata["name"], namespace=metadata["namespace"], patch=patch))
    return reply.object


def prepare(
    run: Object,
    wanted: Sequence[Rank],
    before: Prepared,
    *,
    now: int,
    gpu_resource: str = GPU_RESOURCE,
    with_service: bool = True,
) -> Steps[Prepared]:
    """The pods in `wanted`, keeping those of an earlier plan of this command that are still right."""
    keep = {made.rank: made for made in before.pods if now - made.created_at < PODS_MAX_AGE - 3 * PREPARE_MAX}
    unwanted = [made for made in before.pods if made.rank not in wanted or made.rank not in keep]
    missing = [rank for rank in wanted if rank not in keep]
    yield from delete_pods(before.namespace, unwanted)
    bodies = [pod_object(run, rank, before.nonce, gpu_resource) for rank in missing]
    needs_service = with_service and bool(wanted) and wanted[0].pods > 1 and not before.pods
    created, service = yield from _create_pods(bodies, service_object(run) if needs_service else None)
    failed = [outcome for outcome in created if isinstance(outcome, StoreError)]
    made = [
        _prepared(rank, outcome)
        for rank, outcome in zip(missing, created[: len(missing)], strict=True)
        if isinstance(outcome, Reply)
    ]
    kept = [keep[rank] for rank in wanted if rank in keep]
    if failed:
        # 6.3: quota, pod security and webhooks say no here; a command that loses deletes its own.
        yield from delete_pods(before.namespace, (*kept, *made))
        if service is not None:
            name, uid = service["metadata"]["name"], service["metadata"]["uid"]
            yield from try_one(Delete(kind=SERVICE, name=name, namespace=before.namespace, uid=uid))
        raise _refusal(run, failed)
    ready_at = max([now, *(outcome.server_time for outcome in created if isinstance(outcome, Reply))])
    pods = tuple(sorted((*kept, *made), key=lambda each: each.rank.rank))
    return Prepared(namespace=before.namespace, nonce=before.nonce, pods=pods, ready_at=ready_at)


def _prepared(rank: Rank, reply: Reply) -> PreparedPod:
    metadata = reply.object["metadata"]
    pod = PodRef(name=metadata["name"], uid=metadata["uid"])
    return PreparedPod(rank=rank, pod=pod, created_at=times.instant(metadata["creationTimestamp"]))


def _create_pods(
    bodies: Sequence[Object], service: Object | None
) -> Steps[tuple[list[Reply | StoreError], Object | None]]:
    """All pods at once; one whose reply was lost is looked up by its name, which nobody else uses.

    Also the service, if it was made here and not by an earlier command.
    """
    creates = [Create(kind=POD, object=body) for body in bodies]
    first = [Create(kind=SERVICE, object=service)] if service else []
    answers = yield from all_of([*first, *creates])
    outcomes = list(answers[len(first) :])
    for _ in range(PATIENCE):
        lost = [index for index, outcome in enumerate(outcomes) if isinstance(outcome, Unknown | AlreadyExists)]
        found = yield from all_of([_get_pod(bodies[index]) for index in lost])
        for index, outcome in zip(lost, found, strict=True):
            outcomes[index] = outcome
        again = [index for index in lost if isinstance(outcomes[index], NotFound)]
        sent = yield from all_of([Create(kind=POD, object=bodies[index]) for index in again])
        for index, outcome in zip(again, sent, strict=True):
            outcomes[index] = outcome
        if not again:
            break
    if service is not None and isinstance(answers[0], StoreError):
        refused = yield from _check_service(service, answers[0])
        outcomes += [refused] if refused else []
    made = answers[0].object if service is not None and isinstance(answers[0], Reply) else None
    return outcomes, made


def _get_pod(body: Object) -> Get:
    return Get(kind=POD, name=body["metadata"]["name"], namespace=body["metadata"]["namespace"])


def _check_service(body: Object, outcome: Reply | StoreError) -> Steps[StoreError | None]:
    """The headless service; one that is there already has to be this run's, or an earlier one's of its name."""
    name, namespace = body["metadata"]["name"], body["metadata"]["namespace"]
    uid = body["metadata"]["ownerReferences"][0]["uid"]
    for _ in range(PATIENCE):
        if not isinstance(outcome, Unknown | AlreadyExists):
            break
        outcome = yield from try_one(Get(kind=SERVICE, name=name, namespace=namespace))
        if isinstance(outcome, Reply) and not _owned(outcome.object, uid):
            if not _owned(outcome.object):
                return AlreadyExists(f"service {name} exists and is no run's; the run needs that name")
            # The garbage collector is about to delete it: it must not do so later, under this run.
            old = outcome.object["metadata"]["uid"]
            yield from try_one(Delete(kind=SERVICE, name=name, namespace=namespace, uid=old))
            outcome = yield from try_one(Create(kind=SERVICE, object=body))
        elif isinstance(outcome, NotFound):
            outcome = yield from try_one(Create(kind=SERVICE, object=body))
    return outcome if isinstance(outcome, StoreError) else None


def _owned(value: Object, uid: str = "") -> bool:
    """Whether a run owns it: this one, or any."""
    owners = [owner for owner in value["metadata"].get("ownerReferences") or () if owner.get("kind") == "Run"]
    return any(not uid or owner.get("uid") == uid for owner in owners)


def delete_pods(namespace: str, pods: Sequence[PreparedPod]) -> Steps[None]:
    """Own prepared pods that will not be used. What cannot be deleted now is inert, and anybody's after 15 minutes."""
    deletes = [Delete(kind=POD, name=made.pod.name, namespace=namespace, uid=made.pod.uid) for made in pods]
    for outcome in (yield from all_of(deletes)):
        if isinstance(outcome, StoreError) and not isinstance(
            outcome, NotFound | Conflict | Unknown | Unavailable | Forbidden
        ):
            raise outcome


def _refusal(run: Object, failed: Sequence[StoreError]) -> RunsError:
    key = f"{run['metadata']['namespace']}/{run['metadata']['name']}"
    first = failed[0]
    more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
    return RunsError(f"run {key}: the server refuses its pods, nothing is held: {first.message}{more}")
