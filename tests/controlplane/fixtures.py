"""Pytest fixtures around a real control plane.

One control plane serves the whole suite (`control_plane`). The ledger and `base` are cluster-wide and shared, so tests
isolate by what a plan can touch: `island` gives each test its own namespace, owner, flavor, region and nodes, and
entries of other tests never touch its plans. A test that counts entries, moves `base` or the floor, restarts the
server or lets an operator settle everything asks for `fresh_control_plane()`: starting one takes three seconds.
"""

from __future__ import annotations

import itertools
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import pytest

from tests.controlplane import fleet
from tests.controlplane.binaries import Missing
from tests.controlplane.client import Client, Object, wait_for
from tests.controlplane.fleet import Finished
from tests.controlplane.plane import ControlPlane

_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Island:
    """One test's own corner of a shared control plane."""

    plane: ControlPlane
    name: str
    team: str = "researchers"

    @property
    def namespace(self) -> str:
        return self.name

    @property
    def owner(self) -> str:
        return f"org:{self.name}"

    @property
    def flavor(self) -> str:
        return f"h100-{self.name}"

    @property
    def admin(self) -> Client:
        return self.plane.client("admin")

    def add_nodes(self, count: int, *, fabric: str = "d1", gpus: int = 8, **fields: object) -> list[str]:
        """Nodes of this island's flavor and region."""
        where = {"flavor": self.flavor, "region": self.name, "fabric": fabric, "gpus": gpus, **fields}
        return fleet.add_nodes(self.plane, count, prefix=f"{self.name}-{fabric}", **where)

    def add_budget(self, *, concurrency: int, name: str = "", owner: str = "", **envelope: object) -> Object:
        """A budget with one envelope `main` of this island's flavor; `envelope` overrides its fields."""
        purse = {"name": "main", "flavor": self.flavor, "concurrency": concurrency, **envelope}
        spec = {"owner": owner or self.owner, "envelopes": [purse]}
        body = {"apiVersion": "rq.davidlangworthy.io/v1", "kind": "Budget"}
        return self.admin.create("budgets", {**body, "metadata": {"name": name or self.name}, "spec": spec})

    def run(
        self, name: str, gpus: int, *, after: str = "", phase: str = "", grace_seconds: int = 1, **spec: object
    ) -> Object:
        """A run's manifest. `after` and `phase` say how its pods end on simulated nodes."""
        simulated = {"after": after, "phase": phase}
        annotations = {f"sim.rq.davidlangworthy.io/{key}": value for key, value in simulated.items() if value}
        container = {"name": "main", "image": "example/train:1"}
        pod = {"terminationGracePeriodSeconds": grace_seconds, "restartPolicy": "Never", "containers": [container]}
        resources = {"gpuType": self.flavor, "totalGPUs": gpus, **_mapping(spec.pop("resources", {}))}
        return {
            "apiVersion": "rq.davidlangworthy.io/v1",
            "kind": "Run",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {
                "resources": resources,
                "template": {"metadata": {"annotations": annotations}, "spec": pod},
                **spec,
            },
        }

    def cli(self, *arguments: str, user: str = "researcher", stdin: str = "", server: str = "") -> Finished:
        """The real CLI as a user, in this island's namespace."""
        return fleet.run_cli(self.plane, *arguments, user=user, namespace=self.namespace, stdin=stdin, server=server)

    def start_cli(self, *arguments: str, user: str = "researcher", server: str = "") -> subprocess.Popen[str]:
        """The same, without waiting."""
        return fleet.start_cli(self.plane, *arguments, user=user, namespace=self.namespace, server=server)

    def leases(self, *, open_only: bool = False) -> list[Object]:
        return self.admin.list("leases", self.namespace, fields="status.closed!=true" if open_only else "")

    def pods(self) -> list[Object]:
        return self.admin.list("pods", self.namespace)

    def wait_for_phase(self, run: str, phase: str, seconds: float = 60) -> Object:
        """Wait until the Run object says this phase."""

        def look() -> Object | None:
            found = self.admin.find("runs", run, self.namespace)
            return found if found and found.get("status", {}).get("phase") == phase else None

        return wait_for(f"run {self.namespace}/{run} to be {phase}", look, seconds)


def _mapping(value: object) -> Mapping[str, object]:
    assert isinstance(value, Mapping)
    return value


def make_island(plane: ControlPlane, *, team: str = "researchers") -> Island:
    """A namespace with an owner, and a researcher's rights in it for `team`."""
    island = Island(plane=plane, name=f"i{next(_numbers)}", team=team)
    fleet.add_namespace(plane, island.namespace, owner=island.owner)
    fleet.install(plane, grants=(f"researcher={team}:{island.namespace}",))
    return island


@pytest.fixture(scope="session")
def fresh_control_plane() -> Iterator[Callable[..., ControlPlane]]:
    """Start another control plane, stopped with the session or by the test itself (`with fresh_control_plane() as …`)."""
    started: list[ControlPlane] = []

    def start(*, kwok: bool = True, controllers: bool = False, install: bool = True) -> ControlPlane:
        try:
            plane = ControlPlane.start(kwok=kwok, controllers=controllers)
        except Missing as missing:
            pytest.fail(f"no control plane: {missing}", pytrace=False)
        started.append(plane)
        if install:
            fleet.install(plane)
        return plane

    yield start
    for plane in started:
        plane.stop()


@pytest.fixture(scope="session")
def bare_control_plane(fresh_control_plane: Callable[..., ControlPlane]) -> ControlPlane:
    """The suite's one control plane, without our CRDs unless another test installed them."""
    return fresh_control_plane(controllers=True, install=False)


@pytest.fixture(scope="session")
def control_plane(bare_control_plane: ControlPlane) -> ControlPlane:
    """The suite's one control plane, with CRDs, policies and roles installed by `kubectl-runs install`."""
    fleet.install(bare_control_plane)
    return bare_control_plane


@pytest.fixture
def island(control_plane: ControlPlane) -> Island:
    """A corner of the shared control plane for this test alone."""
    return make_island(control_plane)


@pytest.fixture(autouse=True, scope="session")
def _clean_environment() -> None:
    """A developer's own kubeconfig or sandbox must not leak into a test."""
    for name in ("KUBECONFIG", "KUBECTL_RUNS_SANDBOX"):
        os.environ.pop(name, None)
