"""The stores behind one door (`protocol`): how a command gets hold of one. Imports happen on opening."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kubectl_runs.store.cluster import ClusterStore
    from kubectl_runs.store.sandbox import SandboxStore


def open_cluster(
    *,
    kubeconfig: str = "",
    context: str = "",
    cluster: str = "",
    user: str = "",
    as_user: str = "",
    as_uid: str = "",
    as_groups: Sequence[str] = (),
    request_timeout: float = 0,
) -> ClusterStore:
    """The cluster that kubectl would talk to with these flags; `.namespace` is the context's. Connects when used."""
    from kubectl_runs.store.cluster import ClusterStore
    from kubectl_runs.store.kubeconfig import Choice, resolve

    choice = Choice(
        kubeconfig=kubeconfig,
        context=context,
        cluster=cluster,
        user=user,
        as_user=as_user,
        as_uid=as_uid,
        as_groups=as_groups,
    )
    return ClusterStore(resolve(choice), request_timeout=request_timeout)


def open_sandbox(path: str, *, user: str = "") -> SandboxStore:
    """The embedded cluster in this file (made if it is not there), as an operator or with the rights of `user`."""
    from kubectl_runs.store.sandbox import SandboxStore

    return SandboxStore.open(path, user=user)
