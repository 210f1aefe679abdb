"""Taking back the Run of a submit that was refused: quota, pod security or a webhook leaves nothing behind (6.3).

Only by the command that made it, and only while nobody else has begun to work on it: another submit of the same run
may have come in between, and must not lose its Run.
"""

from __future__ import annotations

from kubectl_runs.commit.life import life
from kubectl_runs.commit.steps import Steps, try_one
from kubectl_runs.read import read
from kubectl_runs.store.protocol import Delete, List, Object, Patch, Reply, StoreError
from kubectl_runs.wire import decode
from kubectl_runs.wire.kinds import POD, RUN
from kubectl_runs.wire.pods import NONCE_DIGITS


def withdraw_run(run: Object, nonce: str) -> Steps[None]:
    """Deletes the Run; `nonce` tells the pods of this command from those of others."""
    metadata = run["metadata"]
    name, namespace = metadata["name"], metadata["namespace"]
    if (yield from _begun_by_others(run, nonce)):
        return
    # Compare-and-swap: whoever wrote to the Run since it was made keeps it.
    bare = {"metadata": {"finalizers": None, "resourceVersion": metadata["resourceVersion"]}}
    freed = yield from try_one(Patch(kind=RUN, name=name, namespace=namespace, patch=bare))
    if isinstance(freed, Reply):
        yield from try_one(Delete(kind=RUN, name=name, namespace=namespace, uid=metadata["uid"]))


def _begun_by_others(run: Object, nonce: str) -> Steps[bool]:
    """Whether an entry, a lease, a promise or somebody's pods are there for it; unknown counts as yes."""
    metadata = run["metadata"]
    key = f"{metadata['namespace']}/{metadata['name']}"
    try:
        reading = yield from read(runs=(key,))
    except StoreError:
        return True
    decoded = decode.run(run, reading.snapshot.namespace_owners)
    if not life(reading.snapshot, decoded).may_start:
        return True
    if any(entry.run is not None and entry.run.uid == decoded.uid for entry in reading.snapshot.entries):
        return True
    listed = yield from try_one(List(kind=POD, namespace=metadata["namespace"]))
    pods = listed.items if isinstance(listed, Reply) else ()
    others = [pod for pod in pods if f"-{nonce[:NONCE_DIGITS]}-" not in pod["metadata"]["name"]]
    owners = [owner for pod in others for owner in pod["metadata"].get("ownerReferences") or ()]
    return isinstance(listed, StoreError) or any(owner["uid"] == metadata["uid"] for owner in owners)
