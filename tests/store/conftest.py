"""Both rooms behind the one door, for the conformance suite."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kubectl_runs.store import open_cluster, open_sandbox
from kubectl_runs.store.protocol import Store
from kubectl_runs.store.sandbox import SandboxStore
from tests.controlplane.plane import ControlPlane
from tests.store.doors import Door, Relay


@pytest.fixture(scope="session")
def own_plane(fresh_control_plane: Callable[..., ControlPlane]) -> ControlPlane:
    """A control plane for the stores alone: nothing runs in it but what a test writes."""
    return fresh_control_plane(kwok=False)


@pytest.fixture(params=[pytest.param("cluster", marks=pytest.mark.cluster), "sandbox"])
def door(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Door]:
    """The store under test, with a namespace of its own."""
    if request.param == "cluster":
        yield from _cluster_door(request.getfixturevalue("own_plane"))
    else:
        yield from _sandbox_door(tmp_path / "sandbox.db")


def _cluster_door(plane: ControlPlane) -> Iterator[Door]:
    relay = Relay(plane.port)

    def another(user: str) -> Store:
        server = f"https://127.0.0.1:{relay.port}"
        return open_cluster(kubeconfig=str(plane.kubeconfig(user or "admin", server=server)))

    door = Door(store=open_cluster(kubeconfig=str(plane.kubeconfig())), another=another, cut=relay.cut)
    door.make_namespace()
    yield door
    relay.close()


def _sandbox_door(path: Path) -> Iterator[Door]:
    store = SandboxStore.empty(str(path))

    def forget() -> None:
        with store.database.writing() as tx:
            tx.compact(tx.version)

    door = Door(store=store, another=lambda user: open_sandbox(str(path), user=user), forget=forget)
    door.make_namespace()
    yield door
    store.close()
