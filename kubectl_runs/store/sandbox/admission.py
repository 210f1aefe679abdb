"""What is refused whoever asks: the CRDs' rules and the admission policies, as on a cluster where both are installed.

Schema, rules and defaults come from the models that the CRDs are generated from. The policies of section 7 are CEL on
a cluster; here each stands as a function under the policy's name, with the same message.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from kubectl_runs.store.protocol import Forbidden, Invalid, Object
from kubectl_runs.store.sandbox import metadata as meta
from kubectl_runs.store.sandbox.database import Transaction
from kubectl_runs.store.sandbox.rights import Rights
from kubectl_runs.wire.kinds import GROUP, LEASE, LEDGER, LEDGER_ENTRY, NAMESPACE, POD, RUN, Kind
from kubectl_runs.wire.times import instant

OWNER = f"{GROUP}/owner"
FRESH_SECONDS = 120
BASE_STEP_MAX = 64
LEASE_NAME = re.compile(r"l-([0-9]{1,12})-[0-9]{1,6}")

Refusals = Iterator[str]


def check_schema(kind: Kind, value: Object, old: Object | None) -> Object:
    """The object with its defaults, if its schema and rules hold; core kinds are taken nearly as they are."""
    if not meta.ours(kind):
        _check_core(kind, value)
        return value
    from kubectl_runs.wire import schema  # pydantic: 90 ms, and only writes need it

    problems = schema.validate(kind.name, value, old)
    if problems:
        causes = [{"field": problem.path, "message": problem.message} for problem in problems]
        told = "; ".join(map(str, problems))
        name = value["metadata"]["name"]
        raise Invalid(f'{kind.name} "{name}" is invalid: {told}', details={"name": name, "causes": causes})
    return schema.with_defaults(kind.name, value)


def check_create(tx: Transaction, rights: Rights, value: Object) -> None:
    """The policies on new objects."""
    for policy in CREATE.get(meta.kind_of(value), ()):
        _refuse(policy, value, policy(tx, rights, None, value))


def check_update(tx: Transaction, rights: Rights, old: Object, value: Object) -> None:
    """The policies on changes."""
    for policy in UPDATE.get(meta.kind_of(value), ()):
        _refuse(policy, value, policy(tx, rights, old, value))


def check_delete(tx: Transaction, rights: Rights, old: Object) -> None:
    """The policies on deletions."""
    for policy in DELETE.get(meta.kind_of(old), ()):
        _refuse(policy, old, policy(tx, rights, old, None))


def entry_append(tx: Transaction, rights: Rights, _old: Object | None, value: Object | None) -> Refusals:
    """6.4: above the floor, fresh, and about leases of its own namespace; cutting others needs `resolve`."""
    assert value is not None
    spec = value["spec"]
    kind, home = spec["kind"], (spec.get("run") or {}).get("namespace", "")
    if tx.get(LEDGER, "", "base") is None:
        yield "there is no ledger: kubectl runs install makes it"
    if spec["seq"] <= _floor(tx):
        yield "an entry at or below the ledger's floor cannot be created: plan again"
    if not 0 <= tx.now - instant(spec["readAt"]) <= FRESH_SECONDS:
        yield "readAt must be at most 2 minutes before the entry is created, and not after: plan again"
    resolves = kind in ("Freeze", "Cut", "Swap")
    if resolves and not rights.resolve:
        yield "entries of kind Freeze, Cut and Swap need the verb resolve on ledgerentries"
    others = [item for part in ("ends", "closes") for item in spec.get(part) or () if item["namespace"] != home]
    if others and kind not in ("Cut", "Swap"):
        yield "an entry may end and close leases only in its run's namespace"
    if home and not resolves and not rights.allow("create", POD):
        yield "an entry needs the right to create pods in its run's namespace"
    if (spec.get("reservation") or {}).get("namespace", home) != home and not resolves:
        yield "an entry's reservation must be in its run's namespace"
    if value["metadata"].get("ownerReferences") or value["metadata"].get("finalizers"):
        yield "an entry has no owner and no finalizer: nothing but the floor decides when it goes"
    if value["metadata"].get("ownerReferences") or value["metadata"].get("finalizers"):
        yield "an entry has no owner and no finalizer: nothing but the floor decides when it goes"


def entry_keep(_tx: Transaction, _rights: Rights, _old: Object | None, _value: Object | None) -> Refusals:
    """Whoever could change an entry could change history."""
    yield "ledger entries are create-only"


def entry_archive(tx: Transaction, _rights: Rights, old: Object | None, _value: Object | None) -> Refusals:
    """6.8: only what the floor has passed may go."""
    assert old is not None
    if old["spec"]["seq"] > _floor(tx):
        yield "an entry above the ledger's floor cannot be deleted"


def owner(tx: Transaction, _rights: Rights, old: Object | None, value: Object | None) -> Refusals:
    """Section 7: the owner comes from the namespace."""
    assert value is not None
    namespace = tx.get(NAMESPACE, "", value["metadata"]["namespace"]) or {"metadata": {}}
    wanted = (namespace["metadata"].get("annotations") or {}).get(OWNER)
    given = value["spec"].get("owner")
    kept = old is not None and old["spec"].get("owner") == given
    if wanted and given and given != wanted and not kept:
        yield "spec.owner must be the namespace's owner"


def lease_keep(tx: Transaction, _rights: Rights, old: Object | None, value: Object | None) -> Refusals:
    """History: a closed lease is frozen, an open one goes only with its namespace."""
    assert old is not None
    closed = (old.get("status") or {}).get("closed") is True
    if value is None:
        if not closed and not _leaving(tx, old):
            yield "an open lease cannot be deleted: close it first"
        return
    if closed and "deletionTimestamp" not in value["metadata"] and _frozen(value) != _frozen(old):
        yield "a closed lease is frozen"
    if value["metadata"].get("ownerReferences"):
        yield "a lease has no owner: history survives its run"


def lease_floor(tx: Transaction, rights: Rights, old: Object | None, value: Object | None) -> Refusals:
    """6.8: what was closed, archived and deleted never comes back (race 3)."""
    lease = value or old
    assert lease is not None
    match = LEASE_NAME.fullmatch(lease["metadata"]["name"])
    below = match is not None and int(match[1]) <= _floor(tx)
    if value is not None:
        if below:
            yield "a lease numbered at or below the ledger's floor cannot be created: it was closed and archived"
        if lease["metadata"].get("ownerReferences"):
            yield "a lease has no owner: history survives its run"
    elif not (_leaving(tx, lease) or below or (match is None and rights.resolve)):
        yield "a lease numbered above the ledger's floor cannot be deleted"


def base(_tx: Transaction, rights: Rights, old: Object | None, value: Object | None) -> Refusals:
    """6.8: base moves forward in small steps; floor, and anything downward, only with `resolve`."""
    assert old is not None
    assert value is not None
    was, now = old["spec"], value["spec"]
    step = now["seq"] - was["seq"]
    if step > BASE_STEP_MAX:
        yield f"base moves by at most {BASE_STEP_MAX} entries a write"
    if rights.resolve:
        return
    if step < 0:
        yield "moving base downward needs the verb resolve on ledgerentries"
    if _parts(now, "floor", "floorAt") != _parts(was, "floor", "floorAt"):
        yield "moving the floor needs the verb resolve on ledgerentries"
    if now.get("topology") != was.get("topology"):
        yield "changing the topology needs the verb resolve on ledgerentries"
    if step == 0 and _parts(now, "digest", "time", "settled") != _parts(was, "digest", "time", "settled"):
        yield "digest, time and settled change only with seq"
    after = _settled(now)
    if any(after.get(payer, -1) < seconds for payer, seconds in _settled(was).items()):
        yield "lowering what is settled needs the verb resolve on ledgerentries"
    passed = range(was["seq"] + 1, now["seq"] + 1)
    if any(number not in passed and number not in (was.get("pending") or ()) for number in now.get("pending") or ()):
        yield "pending takes on only entries that base passes"


Policy = Callable[[Transaction, Rights, Object | None, Object | None], Refusals]
CREATE: dict[Kind, tuple[Policy, ...]] = {
    LEDGER_ENTRY: (entry_append,),
    RUN: (owner,),
    LEASE: (owner, lease_floor),
}
UPDATE: dict[Kind, tuple[Policy, ...]] = {
    LEDGER_ENTRY: (entry_keep,),
    RUN: (owner,),
    LEASE: (owner, lease_keep),
    LEDGER: (base,),
}
DELETE: dict[Kind, tuple[Policy, ...]] = {
    LEDGER_ENTRY: (entry_archive,),
    LEASE: (lease_keep, lease_floor),
}


def _refuse(policy: Policy, value: Object, refusals: Refusals) -> None:
    why = next(refusals, "")
    if why:
        name = f"kubectl-runs-{policy.__name__.replace('_', '-')}"
        what = f'{meta.resource(meta.kind_of(value))} "{value["metadata"]["name"]}" is forbidden'
        raise Forbidden(f"{what}: ValidatingAdmissionPolicy '{name}' with binding '{name}' denied request: {why}")


def _check_core(kind: Kind, value: Object) -> None:
    if kind != POD:
        return
    containers = (value.get("spec") or {}).get("containers") or ()
    if not containers or any(not item.get("name") or not item.get("image") for item in containers):
        name = value["metadata"]["name"]
        raise meta.invalid(kind, name, "spec.containers", "at least one is needed, each with a name and an image")


def _floor(tx: Transaction) -> int:
    ledger = tx.get(LEDGER, "", "base")
    return int(ledger["spec"].get("floor", 0)) if ledger else 0


def _leaving(tx: Transaction, value: Object) -> bool:
    found = tx.get(NAMESPACE, "", value["metadata"]["namespace"])
    return found is None or "deletionTimestamp" in found["metadata"]


def _frozen(lease: Object) -> list[object]:
    metadata = lease["metadata"]
    return [lease["spec"], lease.get("status"), *_parts(metadata, "labels", "finalizers", "ownerReferences")]


def _parts(value: Object, *names: str) -> list[object]:
    return [value.get(name) for name in names]


def _settled(spec: Object) -> dict[tuple[str, str, str], int]:
    return {(item["budget"], item["envelope"], item["class"]): item["gpuSeconds"] for item in spec.get("settled") or ()}
