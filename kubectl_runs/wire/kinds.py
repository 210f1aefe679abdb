"""The kinds we read and write, and where each lives on a Kubernetes API server."""

from __future__ import annotations

from dataclasses import dataclass

GROUP = "rq.davidlangworthy.io"
API_VERSION = f"{GROUP}/v1"


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of object: its name, its plural in URLs, its group and version, and whether it has a namespace."""

    name: str
    plural: str
    api_version: str
    namespaced: bool
    has_status: bool = True

    @property
    def path(self) -> str:
        """The API prefix: `/api/v1` for the core group, `/apis/<group>/<version>` for the rest."""
        return f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"


BUDGET = Kind("Budget", "budgets", API_VERSION, namespaced=False)
RUN = Kind("Run", "runs", API_VERSION, namespaced=True)
LEASE = Kind("Lease", "leases", API_VERSION, namespaced=True)
RESERVATION = Kind("Reservation", "reservations", API_VERSION, namespaced=True)
LEDGER_ENTRY = Kind("LedgerEntry", "ledgerentries", API_VERSION, namespaced=False, has_status=False)
LEDGER = Kind("Ledger", "ledgers", API_VERSION, namespaced=False, has_status=False)
OURS = (BUDGET, RUN, LEASE, RESERVATION, LEDGER_ENTRY, LEDGER)

NODE = Kind("Node", "nodes", "v1", namespaced=False)
POD = Kind("Pod", "pods", "v1", namespaced=True)
NAMESPACE = Kind("Namespace", "namespaces", "v1", namespaced=False)
SERVICE = Kind("Service", "services", "v1", namespaced=True)
EVENT = Kind("Event", "events", "v1", namespaced=True, has_status=False)
# Looked at before a run's pods are made (P1); no snapshot holds these.
VOLUME_CLAIM = Kind("PersistentVolumeClaim", "persistentvolumeclaims", "v1", namespaced=True)
STORAGE_CLASS = Kind("StorageClass", "storageclasses", "storage.k8s.io/v1", namespaced=False, has_status=False)

CUSTOM_RESOURCE_DEFINITION = Kind(
    "CustomResourceDefinition", "customresourcedefinitions", "apiextensions.k8s.io/v1", namespaced=False
)
ADMISSION_POLICY = Kind(
    "ValidatingAdmissionPolicy", "validatingadmissionpolicies", "admissionregistration.k8s.io/v1", namespaced=False
)
ADMISSION_POLICY_BINDING = Kind(
    "ValidatingAdmissionPolicyBinding",
    "validatingadmissionpolicybindings",
    "admissionregistration.k8s.io/v1",
    namespaced=False,
    has_status=False,
)
CLUSTER_ROLE = Kind("ClusterRole", "clusterroles", "rbac.authorization.k8s.io/v1", namespaced=False, has_status=False)
CLUSTER_ROLE_BINDING = Kind(
    "ClusterRoleBinding", "clusterrolebindings", "rbac.authorization.k8s.io/v1", namespaced=False, has_status=False
)
ROLE_BINDING = Kind("RoleBinding", "rolebindings", "rbac.authorization.k8s.io/v1", namespaced=True, has_status=False)
# What `install` writes besides objects of ours; no snapshot holds these.
INSTALLED = (
    CUSTOM_RESOURCE_DEFINITION,
    ADMISSION_POLICY,
    ADMISSION_POLICY_BINDING,
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    ROLE_BINDING,
)

BY_NAME = {kind.name: kind for kind in (*OURS, NODE, POD, NAMESPACE, SERVICE, EVENT)}
