"""Who may write what: the CRDs' own rules, the admission policies and the roles, as a cluster with them installed.

Decides by the same models that the CRDs are generated from. There is one user, an operator; `--as NAME` makes it
somebody with a researcher's rights, `--as auditor` one who may only read. Which shapes the commit protocol relies on
is said in section 6 of the design, who may do what in section 7.
"""

from __future__ import annotations

import re
from enum import Enum

from kubectl_runs.store.protocol import Forbidden, Invalid, Object
from kubectl_runs.store.sandbox import metadata as meta
from kubectl_runs.store.sandbox.database import Transaction
from kubectl_runs.wire.kinds import (
    EVENT,
    GROUP,
    LEASE,
    LEDGER,
    LEDGER_ENTRY,
    NAMESPACE,
    POD,
    RESERVATION,
    RUN,
    SERVICE,
    Kind,
)
from kubectl_runs.wire.times import instant

OWNER = f"{GROUP}/owner"
FRESH_SECONDS = 120
FLOOR_SECONDS = 600
BASE_STEP = 64
RESOLVE_KINDS = ("Freeze", "Cut", "Swap")
LEASE_NAME = re.compile(r"l-(\d+)-\d+")


class Role(Enum):
    """Whose rights the sandbox goes by."""

    OPERATOR = "operator"
    RESEARCHER = "researcher"
    AUDITOR = "auditor"

    @classmethod
    def of(cls, user: str) -> Role:
        if user in ("", "operator", "daemon", "admin"):
            return cls.OPERATOR
        return cls.AUDITOR if user == "auditor" else cls.RESEARCHER


READS = frozenset(("get", "list", "watch"))
# Section 7, "the researcher's rights", as verbs on a kind or a kind and its subresource.
RESEARCHER_WRITES: dict[str, frozenset[str]] = {
    RUN.plural: frozenset(("create", "update", "patch", "delete")),
    f"{RUN.plural}/status": frozenset(("update", "patch")),
    LEASE.plural: frozenset(("create", "update", "patch")),
    f"{LEASE.plural}/status": frozenset(("update", "patch")),
    RESERVATION.plural: frozenset(("create", "update", "patch", "delete")),
    f"{RESERVATION.plural}/status": frozenset(("update", "patch")),
    POD.plural: frozenset(("create", "update", "patch", "delete")),
    f"{POD.plural}/binding": frozenset(("create",)),
    SERVICE.plural: frozenset(("create", "update", "patch", "delete")),
    EVENT.plural: frozenset(("create", "update", "patch")),
    LEDGER_ENTRY.plural: frozenset(("create",)),
    LEDGER.plural: frozenset(("update", "patch")),
}


def may(role: Role, verb: str, kind: Kind, subresource: str = "") -> bool:
    """Whether the role has this right."""
    if role is Role.OPERATOR or verb in READS:
        return True
    name = f"{kind.plural}/{subresource}" if subresource else kind.plural
    return role is Role.RESEARCHER and verb in RESEARCHER_WRITES.get(name, ())


def check_right(role: Role, verb: str, kind: Kind, subresource: str = "") -> None:
    if not may(role, verb, kind, subresource):
        name = f"{meta.resource(kind)}/{subresource}" if subresource else meta.resource(kind)
        raise Forbidden(f"{name} is forbidden: a sandbox user with the role {role.value} cannot {verb} it")


def check_create(tx: Transaction, role: Role, value: Object) -> None:
    """The policies on new objects."""
    match value["kind"]:
        case LEDGER_ENTRY.name:
            _check_entry(tx, role, value)
        case LEASE.name:
            _check_above_floor(tx, value, _lease_number(value))
        case RUN.name:
            _check_owner(tx, value)
        case LEDGER.name:
            _check_base(role, None, value)
        case _:
            pass


def check_update(tx: Transaction, role: Role, old: Object, value: Object) -> None:
    """The policies on changes."""
    match value["kind"]:
        case RUN.name:
            _check_owner(tx, value)
        case LEDGER.name:
            _check_base(role, old, value)
        case _:
            pass


def check_delete(tx: Transaction, value: Object) -> None:
    """The policies on deletions: history below the floor may go, everything else stays (6.8)."""
    kind, name = value["kind"], value["metadata"]["name"]
    if kind == LEDGER.name:
        raise _denied("ledger", "the ledger's base cannot be deleted")
    if kind == LEASE.name and not _terminating(tx, value["metadata"]["namespace"]):
        if (value.get("status") or {}).get("closed") is not True:
            raise _denied("lease", f"lease {name} is open: only its namespace's end deletes an open lease")
        _check_below_floor(tx, value, _lease_number(value))
    if kind == LEDGER_ENTRY.name:
        _check_below_floor(tx, value, int(value["spec"]["seq"]))


def check_schema(kind: Kind, value: Object, old: Object | None) -> Object:
    """The CRD's schema and rules, from the models it is generated from; core kinds are taken nearly as they are."""
    if not meta.ours(kind):
        _check_core(kind, value)
        return value
    from kubectl_runs.wire.schema.catalog import BY_KIND
    from kubectl_runs.wire.schema.rules import Rule, pieces

    resource = BY_KIND[kind.name]
    problems = []
    try:
        resource.spec.model_validate(value.get("spec"))
    except ValueError as error:
        problems.append(("spec", str(error)))
    for rule in resource.rules if not problems else ():
        if isinstance(rule, Rule):
            problems += [(path, rule.message) for path, piece in pieces(value, rule.at) if not rule.holds(piece)]
        elif old is not None:
            both = zip(pieces(value, rule.at), pieces(old, rule.at), strict=False)
            problems += [(path, rule.message) for (path, new), (_, was) in both if not rule.holds(new, was)]
    if problems:
        causes = [{"field": path, "message": message} for path, message in problems]
        told = "; ".join(f"{path}: {message}" for path, message in problems)
        name = value["metadata"]["name"]
        raise Invalid(f'{kind.name} "{name}" is invalid: {told}', details={"name": name, "causes": causes})
    return value


def _check_core(kind: Kind, value: Object) -> None:
    if kind != POD:
        return
    containers = (value.get("spec") or {}).get("containers") or ()
    if not containers or any(not item.get("name") or not item.get("image") for item in containers):
        name = value["metadata"]["name"]
        raise meta.invalid(kind, name, "spec.containers", "at least one is needed, each with a name and an image")


def _check_entry(tx: Transaction, role: Role, value: Object) -> None:
    spec = value["spec"]
    # 6.4: fresh, so that nothing planned before a laptop slept is ever appended.
    age = tx.now - instant(spec["readAt"])
    if not 0 <= age <= FRESH_SECONDS:
        raise _denied("entry", f"readAt {spec['readAt']} is {age}s old, at most {FRESH_SECONDS}s are allowed")
    _check_above_floor(tx, value, int(spec["seq"]))
    if spec["kind"] in RESOLVE_KINDS and role is not Role.OPERATOR:
        raise _denied("entry", f"kind {spec['kind']} needs the verb resolve on ledgerentries", forbidden=True)
    if spec["kind"] in ("Cut", "Swap"):
        return
    # Section 7: leases only in the namespace of the entry's own run.
    home = (spec.get("run") or {}).get("namespace")
    strangers = [item for part in ("ends", "closes") for item in spec.get(part) or () if item["namespace"] != home]
    if strangers:
        told = f"{strangers[0]['namespace']}/{strangers[0]['lease']}"
        raise _denied("entry", f"lease {told} is not in the namespace {home} of the entry's run")


def _check_base(role: Role, old: Object | None, value: Object) -> None:
    """6.8: base moves forward by at most 64 a write; floor, and anything downward, only with `resolve`."""
    if role is Role.OPERATOR and old is None:
        return
    before, after = (old or {"spec": {}})["spec"], value["spec"]
    step = int(after["seq"]) - int(before.get("seq", 0))
    if step > BASE_STEP:
        raise _denied("base", f"base moves by {step}, at most {BASE_STEP} a write are allowed")
    moved = int(after.get("floor", 0)) != int(before.get("floor", 0)) or after.get("floorAt") != before.get("floorAt")
    if role is not Role.OPERATOR and (step < 0 or moved or after.get("topology") != before.get("topology")):
        raise _denied("base", "moving floor, topology or base backwards needs the verb resolve", forbidden=True)


def _check_owner(tx: Transaction, value: Object) -> None:
    """Section 7: a run's owner is the namespace's, where that has one."""
    namespace = tx.get(NAMESPACE.name, "", value["metadata"]["namespace"]) or {"metadata": {}}
    owner = (namespace["metadata"].get("annotations") or {}).get(OWNER)
    given = (value.get("spec") or {}).get("owner")
    if owner and given and given != owner:
        raise _denied(
            "owner", f"spec.owner {given} is not {owner}, the owner of namespace {value['metadata']['namespace']}"
        )


def _base(tx: Transaction) -> Object:
    base = tx.get(LEDGER.name, "", "base")
    return base["spec"] if base else {}


def _lease_number(value: Object) -> int | None:
    match = LEASE_NAME.fullmatch(value["metadata"]["name"])
    return int(match[1]) if match else None


def _check_above_floor(tx: Transaction, value: Object, number: int | None) -> None:
    floor = int(_base(tx).get("floor") or 0)
    if number is not None and number <= floor:
        raise _denied("floor", f"{value['kind']} {value['metadata']['name']} is at or below the floor {floor}")


def _check_below_floor(tx: Transaction, value: Object, number: int | None) -> None:
    base = _base(tx)
    floor = int(base.get("floor") or 0)
    name = value["metadata"]["name"]
    if number is not None and number > floor:
        raise _denied("floor", f"{value['kind']} {name} is above the floor {floor} and is kept")
    if base.get("floorAt") and tx.now - instant(base["floorAt"]) < FLOOR_SECONDS:
        raise _denied("floor", f"{value['kind']} {name}: the floor moved less than {FLOOR_SECONDS // 60} minutes ago")


def _terminating(tx: Transaction, namespace: str) -> bool:
    found = tx.get(NAMESPACE.name, "", namespace)
    return found is None or "deletionTimestamp" in found["metadata"]


def _denied(policy: str, why: str, *, forbidden: bool = False) -> Invalid | Forbidden:
    message = f"ValidatingAdmissionPolicy 'kubectl-runs-{policy}' denied request: {why}"
    return Forbidden(message) if forbidden else Invalid(message)
