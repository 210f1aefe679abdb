"""Who may do what: least-privilege roles (section 7), and the bindings that `install --grant` writes.

A researcher has two roles: one for its namespaces, one for the whole cluster. The verb `resolve` on `ledgerentries` is
ours: admission policies ask for it before one run may cut another.
"""

from __future__ import annotations

from kubectl_runs.wire.kinds import GROUP
from kubectl_runs.wire.schema.rules import Json

RESEARCHER = "kubectl-runs-researcher"
RESEARCHER_CLUSTER = "kubectl-runs-researcher-cluster"
OPERATOR = "kubectl-runs-operator"
DAEMON = "kubectl-runs-daemon"
DAEMON_ELECTION = "kubectl-runs-daemon-election"
AUDITOR = "kubectl-runs-auditor"
RESOLVE = "resolve"

READ = ("get", "list", "watch")
LOOK = ("list", "watch")
EDIT = ("update", "patch")
ALL = (*READ, "create", *EDIT, "delete")
_RBAC = "rbac.authorization.k8s.io"
_STATUSES = ("runs/status", "leases/status", "reservations/status")


def rule(group: str, resources: tuple[str, ...], verbs: tuple[str, ...], names: tuple[str, ...] = ()) -> Json:
    limited = {"resourceNames": list(names)} if names else {}
    return {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)} | limited


def _work() -> list[Json]:
    """What starting, stopping and closing a run takes, in the namespaces where one may."""
    return [
        rule(GROUP, ("runs", "reservations"), ALL),
        rule(GROUP, ("leases",), (*READ, "create")),  # never deleted by those who pay by them
        rule(GROUP, _STATUSES, ("get", *EDIT)),
        rule(GROUP, ("runs/finalizers",), ("update",)),
        rule("", ("pods",), ALL),
        rule("", ("pods/binding",), ("create",)),
        rule("", ("pods/log",), ("get",)),
        rule("", ("services",), ALL),
        rule("", ("events",), (*READ, "create", *EDIT)),
        rule("", ("persistentvolumeclaims",), READ),
    ]


def _fleet() -> list[Json]:
    """What every plan is made from and nobody may change."""
    return [
        rule(GROUP, ("budgets",), READ),
        rule("", ("nodes", "namespaces"), READ),
        rule("storage.k8s.io", ("storageclasses",), READ),
    ]


def _installed() -> list[Json]:
    """For `doctor`: whether CRDs and policies are there and as shipped."""
    admission = ("validatingadmissionpolicies", "validatingadmissionpolicybindings")
    return [
        rule("admissionregistration.k8s.io", admission, READ),
        rule("apiextensions.k8s.io", ("customresourcedefinitions",), READ),
    ]


def _resolver() -> list[Json]:
    """Cutting others, starting winners, moving the floor and deleting what lies under it."""
    return [
        *_work(),
        *_fleet(),
        *_installed(),
        rule(GROUP, ("ledgerentries",), (*READ, "create", "delete", RESOLVE)),
        rule(GROUP, ("ledgers",), (*READ, *EDIT)),
        rule(GROUP, ("leases",), ("delete",)),
        rule(GROUP, ("budgets/status",), ("get", *EDIT)),
    ]


def _role(name: str, rules: list[Json]) -> Json:
    return {"apiVersion": f"{_RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}


def roles() -> list[Json]:
    """Every ClusterRole that is shipped."""
    everything = ("budgets", "runs", "leases", "reservations", "ledgerentries", "ledgers")
    cluster_wide = [
        rule(GROUP, ("ledgerentries",), (*READ, "create")),
        rule(GROUP, ("ledgers",), READ),
        rule(GROUP, ("ledgers",), EDIT, names=("base",)),
        *_fleet(),
        rule(GROUP, ("runs", "leases", "reservations"), READ),
        rule("", ("pods",), LOOK),
    ]
    auditor = [rule(GROUP, everything, READ), *_fleet(), *_installed(), rule("", ("pods", "events"), READ)]
    operator = [
        *_resolver(),
        rule(GROUP, ("budgets",), ALL),
        rule(GROUP, ("ledgers",), ("create",)),
        rule("", ("namespaces",), EDIT),  # its owner is an annotation
        rule("coordination.k8s.io", ("leases",), ("get",)),  # who leads
    ]
    return [
        _role(RESEARCHER, _work()),
        _role(RESEARCHER_CLUSTER, cluster_wide),
        _role(OPERATOR, operator),
        _role(DAEMON, _resolver()),
        _role(DAEMON_ELECTION, [rule("coordination.k8s.io", ("leases",), ("get", "create", *EDIT))]),
        _role(AUDITOR, auditor),
    ]


def group(name: str) -> Json:
    return {"apiGroup": _RBAC, "kind": "Group", "name": name}


def service_account(namespace: str, name: str) -> Json:
    return {"kind": "ServiceAccount", "name": name, "namespace": namespace}


def binding(role: str, subject: Json, namespace: str = "") -> Json:
    """A binding named after its role: in a namespace, or for the cluster."""
    metadata = {"name": role} | ({"namespace": namespace} if namespace else {})
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "RoleBinding" if namespace else "ClusterRoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [subject],
    }
