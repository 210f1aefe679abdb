"""Volume claims that no pod of a run could ever mount (P1): refused before anything is made for the run.

A claim that waits for its first consumer gets its volume only after the stock scheduler chose a node for some pod. Our
pods are bound without it, so the claim would stay unbound and the GPUs would be held for nothing. What may not be read
is not judged.
"""

from __future__ import annotations

from collections.abc import Sequence

from kubectl_runs.commit.steps import Steps, all_of
from kubectl_runs.errors import RunsError
from kubectl_runs.store.protocol import Get, List, Object, Reply
from kubectl_runs.wire.kinds import STORAGE_CLASS, VOLUME_CLAIM

WAITS = "WaitForFirstConsumer"
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


def check_claims(run: Object) -> Steps[None]:
    """Raises for the first claim of the template that waits for its first consumer."""
    volumes = ((run["spec"].get("template") or {}).get("spec") or {}).get("volumes") or ()
    claims = yield from _unbound(run["metadata"]["namespace"], volumes)
    if not claims:
        return
    (outcome,) = yield from all_of([List(kind=STORAGE_CLASS)])
    classes = outcome.items if isinstance(outcome, Reply) else ()
    waiting = {item["metadata"]["name"] for item in classes if item.get("volumeBindingMode") == WAITS}
    default = next((item["metadata"]["name"] for item in classes if _is_default(item)), "")
    for name, wanted in claims:
        named = default if wanted is None else wanted
        if named in waiting:
            raise _refusal(run, name, named)


def _unbound(namespace: str, volumes: Sequence[Object]) -> Steps[list[tuple[str, str | None]]]:
    """Claims without a volume, with their storage class (None: the default one); ephemeral ones never have one yet."""
    names = [each["persistentVolumeClaim"]["claimName"] for each in volumes if each.get("persistentVolumeClaim")]
    found = yield from all_of([Get(kind=VOLUME_CLAIM, name=name, namespace=namespace) for name in names])
    unbound: list[tuple[str, str | None]] = []
    for name, outcome in zip(names, found, strict=True):
        spec = (outcome.object.get("spec") or {}) if isinstance(outcome, Reply) else {}
        if spec and not spec.get("volumeName"):
            unbound.append((name, spec.get("storageClassName")))
    for volume in volumes:
        template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
        if template:
            unbound.append((volume["name"], (template.get("spec") or {}).get("storageClassName")))
    return unbound


def _is_default(item: Object) -> bool:
    return (item["metadata"].get("annotations") or {}).get(DEFAULT_CLASS) == "true"


def _refusal(run: Object, claim: str, storage_class: str) -> RunsError:
    metadata = run["metadata"]
    return RunsError(
        f"run {metadata['namespace']}/{metadata['name']}: volume claim {claim} waits for its first consumer "
        f"(storage class {storage_class}) and would never be bound, since pods of a run skip the scheduler; "
        "use a claim that is bound, or a class that binds at once",
        hint=f"kubectl get pvc -n {metadata['namespace']}",
    )
