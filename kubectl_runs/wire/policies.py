"""Admission policies (section 7): what an API server refuses whoever asks, without a webhook.

A policy holds what one object and the asker's rights show. Caps are sums over many objects, so no policy can hold
them: `verify` and the daemon replay each entry and name any that the planner would not have allowed.
"""

from __future__ import annotations

from dataclasses import dataclass

from kubectl_runs.wire.kinds import API_VERSION, GROUP
from kubectl_runs.wire.schema.rules import Json

BASE_STEP_MAX = 64
_OWNER = f"{GROUP}/owner"
_MAY_RESOLVE = f"authorizer.group('{GROUP}').resource('ledgerentries').check('resolve').allowed()"
_LEASE_NAME = "^l-[0-9]{1,12}-[0-9]{1,6}$"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One sentence that must hold, in CEL, and what the asker hears otherwise."""

    cel: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """`floor`: the Ledger `base` is its parameter, and it does not apply where there is none."""

    name: str
    resources: tuple[str, ...]
    operations: tuple[str, ...]
    checks: tuple[Check, ...]
    variables: tuple[tuple[str, str], ...] = ()
    floor: bool = False
    without_ledger: str = "Deny"


APPEND = Policy(
    name="kubectl-runs-entry-append",
    resources=("ledgerentries",),
    operations=("CREATE",),
    floor=True,
    variables=(
        ("spec", "object.spec"),
        ("age", "timestamp(object.metadata.creationTimestamp) - timestamp(object.spec.readAt)"),
        ("resolves", "object.spec.kind in ['Freeze', 'Cut', 'Swap']"),
        ("crosses", "object.spec.kind in ['Cut', 'Swap']"),
        ("home", "has(object.spec.run) ? object.spec.run.namespace : ''"),
    ),
    checks=(
        Check(
            cel="variables.spec.seq > params.spec.floor",
            message="an entry at or below the ledger's floor cannot be created: plan again",
        ),
        Check(
            cel="variables.age >= duration('0s') && variables.age <= duration('2m')",
            message="readAt must be at most 2 minutes before the entry is created, and not after: plan again",
        ),
        Check(
            cel=f"!variables.resolves || {_MAY_RESOLVE}",
            message="entries of kind Freeze, Cut and Swap need the verb resolve on ledgerentries",
        ),
        Check(
            cel=(
                "variables.crosses || (variables.spec.?ends.orValue([]).all(e, e.namespace == variables.home)"
                " && variables.spec.?closes.orValue([]).all(c, c.namespace == variables.home))"
            ),
            message="an entry may end and close leases only in its run's namespace",
        ),
        Check(
            cel=(
                "variables.home == '' || variables.resolves"
                " || authorizer.group('').resource('pods').namespace(variables.home).check('create').allowed()"
            ),
            message="an entry needs the right to create pods in its run's namespace",
        ),
        Check(
            cel=(
                "!has(variables.spec.reservation) || variables.resolves"
                " || variables.spec.reservation.namespace == variables.home"
            ),
            message="an entry's reservation must be in its run's namespace",
        ),
        Check(
            cel="!has(object.metadata.ownerReferences) && !has(object.metadata.finalizers)",
            message="an entry has no owner and no finalizer: nothing but the floor decides when it goes",
        ),
    ),
)
KEEP = Policy(
    name="kubectl-runs-entry-keep",
    resources=("ledgerentries",),
    operations=("UPDATE",),
    checks=(Check(cel="false", message="ledger entries are create-only"),),
)
ARCHIVE = Policy(
    name="kubectl-runs-entry-archive",
    resources=("ledgerentries",),
    operations=("DELETE",),
    floor=True,
    checks=(
        Check(
            cel="oldObject.spec.seq <= params.spec.floor",
            message="an entry above the ledger's floor cannot be deleted",
        ),
    ),
)
RUN_OWNER = Policy(
    name="kubectl-runs-owner",
    resources=("runs", "leases"),
    operations=("CREATE", "UPDATE"),
    variables=(
        ("owner", f"namespaceObject.metadata.?annotations[?'{_OWNER}'].orValue('')"),
        ("kept", "request.operation == 'UPDATE' && object.spec.?owner == oldObject.spec.?owner"),
    ),
    checks=(
        Check(
            cel=(
                "variables.owner == '' || variables.kept"
                " || !has(object.spec.owner) || object.spec.owner == variables.owner"
            ),
            message="spec.owner must be the namespace's owner",
        ),
    ),
)
LEASE_KEEP = Policy(
    name="kubectl-runs-lease-keep",
    resources=("leases", "leases/status"),
    operations=("UPDATE", "DELETE"),
    variables=(
        ("closed", "oldObject.?status.?closed.orValue(false)"),
        ("leaving", "namespaceObject.metadata.?deletionTimestamp.hasValue()"),
    ),
    checks=(
        Check(
            cel=(
                "request.operation != 'UPDATE' || !variables.closed || object.metadata.?deletionTimestamp.hasValue()"
                " || (object.spec == oldObject.spec && object.?status == oldObject.?status"
                " && object.metadata.?labels == oldObject.metadata.?labels"
                " && object.metadata.?finalizers == oldObject.metadata.?finalizers"
                " && object.metadata.?ownerReferences == oldObject.metadata.?ownerReferences)"
            ),
            message="a closed lease is frozen",
        ),
        Check(
            cel="request.operation != 'DELETE' || variables.closed || variables.leaving",
            message="an open lease cannot be deleted: close it first",
        ),
        Check(
            cel="request.operation != 'UPDATE' || object.metadata.?ownerReferences.orValue([]).size() == 0",
            message="a lease has no owner: history survives its run",
        ),
    ),
)
LEASE_FLOOR = Policy(
    name="kubectl-runs-lease-floor",
    resources=("leases",),
    operations=("CREATE", "DELETE"),
    floor=True,
    without_ledger="Allow",
    variables=(
        ("name", "request.operation == 'DELETE' ? oldObject.metadata.name : object.metadata.name"),
        ("numbered", f"variables.name.matches('{_LEASE_NAME}')"),
        ("number", "variables.numbered ? int(variables.name.split('-')[1]) : 0"),
        ("leaving", "namespaceObject.metadata.?deletionTimestamp.hasValue()"),
    ),
    checks=(
        Check(
            cel="request.operation != 'CREATE' || !variables.numbered || variables.number > params.spec.floor",
            message="a lease numbered at or below the ledger's floor cannot be created: it was closed and archived",
        ),
        Check(
            cel="request.operation != 'CREATE' || object.metadata.?ownerReferences.orValue([]).size() == 0",
            message="a lease has no owner: history survives its run",
        ),
        Check(
            cel=(
                "request.operation != 'DELETE' || variables.leaving"
                " || (variables.numbered && variables.number <= params.spec.floor)"
                f" || (!variables.numbered && {_MAY_RESOLVE})"
            ),
            message="a lease numbered above the ledger's floor cannot be deleted",
        ),
    ),
)
_SETTLED_KEY = "s.budget + '/' + s.envelope + '/' + s.class"
BASE = Policy(
    name="kubectl-runs-base",
    resources=("ledgers",),
    operations=("UPDATE",),
    variables=(
        ("now", "object.spec"),
        ("was", "oldObject.spec"),
        ("step", "object.spec.seq - oldObject.spec.seq"),
        (
            "settled",
            f"object.spec.?settled.orValue([]).transformMapEntry(i, s, {{{_SETTLED_KEY}: s.gpuSeconds}})",
        ),
    ),
    checks=(
        Check(
            cel=f"variables.step <= {BASE_STEP_MAX}",
            message=f"base moves by at most {BASE_STEP_MAX} entries a write",
        ),
        Check(
            cel=f"variables.step >= 0 || {_MAY_RESOLVE}",
            message="moving base downward needs the verb resolve on ledgerentries",
        ),
        Check(
            cel=(
                "(variables.now.?floor == variables.was.?floor && variables.now.?floorAt == variables.was.?floorAt)"
                f" || {_MAY_RESOLVE}"
            ),
            message="moving the floor needs the verb resolve on ledgerentries",
        ),
        Check(
            cel=f"variables.now.?topology == variables.was.?topology || {_MAY_RESOLVE}",
            message="changing the topology needs the verb resolve on ledgerentries",
        ),
        Check(
            cel=(
                "variables.step != 0 || (variables.now.digest == variables.was.digest"
                " && variables.now.?time == variables.was.?time && variables.now.?settled == variables.was.?settled)"
                f" || {_MAY_RESOLVE}"
            ),
            message="digest, time and settled change only with seq",
        ),
        Check(
            cel=(
                "!has(variables.was.settled) || variables.was.settled.all(s,"
                f" ({_SETTLED_KEY}) in variables.settled && variables.settled[{_SETTLED_KEY}] >= s.gpuSeconds)"
                f" || {_MAY_RESOLVE}"
            ),
            message="lowering what is settled needs the verb resolve on ledgerentries",
        ),
        Check(
            cel=(
                "!has(variables.now.pending) || variables.now.pending.all(n,"
                " (n > variables.was.seq && n <= variables.now.seq) || n in variables.was.?pending.orValue([]))"
                f" || {_MAY_RESOLVE}"
            ),
            message="pending takes on only entries that base passes",
        ),
    ),
)
POLICIES = (APPEND, KEEP, ARCHIVE, RUN_OWNER, LEASE_KEEP, LEASE_FLOOR, BASE)


def policies() -> list[Json]:
    """Every policy with its binding."""
    return [made for policy in POLICIES for made in (_policy(policy), _binding(policy))]


def _policy(policy: Policy) -> Json:
    rules = {
        "apiGroups": [GROUP],
        "apiVersions": ["*"],
        "operations": list(policy.operations),
        "resources": list(policy.resources),
    }
    spec: Json = {"failurePolicy": "Fail", "matchConstraints": {"resourceRules": [rules]}}
    if policy.floor:
        spec["paramKind"] = {"apiVersion": API_VERSION, "kind": "Ledger"}
    if policy.variables:
        spec["variables"] = [{"name": name, "expression": cel} for name, cel in policy.variables]
    spec["validations"] = [
        {"expression": check.cel, "message": check.message, "reason": "Forbidden"} for check in policy.checks
    ]
    return _object("ValidatingAdmissionPolicy", policy.name, spec)


def _binding(policy: Policy) -> Json:
    spec: Json = {"policyName": policy.name, "validationActions": ["Deny"]}
    if policy.floor:
        spec["paramRef"] = {"name": "base", "parameterNotFoundAction": policy.without_ledger}
    return _object("ValidatingAdmissionPolicyBinding", policy.name, spec)


def _object(kind: str, name: str, spec: Json) -> Json:
    return {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}
