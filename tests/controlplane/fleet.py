"""What tests put into a control plane: nodes that KWOK plays, namespaces with owners, our CRDs, and the CLI itself.

CRDs and roles get in the way a user installs them, with `kubectl-runs install`, and the CLI runs as a process of its
own, as a given user, exactly as shipped.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.controlplane import binaries
from tests.controlplane.client import Object, wait_for
from tests.controlplane.plane import ControlPlane

OWNER = "rq.davidlangworthy.io/owner"
DAEMON_NAMESPACE = "kubectl-runs"
GRANTS = ("operator=operators", "auditor=auditors", f"daemon={DAEMON_NAMESPACE}:daemon")
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """How a command ended."""

    exit_code: int
    stdout: str
    stderr: str

    def ok(self) -> Finished:
        """Itself, or an assertion that shows both streams."""
        assert self.exit_code == 0, f"exit {self.exit_code}\n--- stdout\n{self.stdout}\n--- stderr\n{self.stderr}"
        return self


def node(
    name: str,
    *,
    gpus: int = 8,
    flavor: str = "h100",
    region: str = "us-west",
    cluster: str = "a",
    fabric: str = "d1",
    labels: Mapping[str, str] | None = None,
    cpu: str = "128",
    memory: str = "1Ti",
) -> Object:
    """A node as a GPU fleet has it: the labels of a domain and a flavor, and allocatable GPUs."""
    where = {"region": region, "cluster": cluster, "fabric.domain": fabric, "gpu.flavor": flavor}
    resources = {"nvidia.com/gpu": str(gpus), "cpu": cpu, "memory": memory, "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**where, "kubernetes.io/hostname": name, **(labels or {})}},
        "status": {"allocatable": resources, "capacity": resources},
    }


def add_nodes(plane: ControlPlane, count: int, *, prefix: str = "n", **fields: object) -> list[str]:
    """Add nodes `<prefix>-00`, … and wait until KWOK has made them ready."""
    names = [f"{prefix}-{index:02}" for index in range(count)]
    create_nodes(plane, [node(name, **fields) for name in names])  # type: ignore[arg-type]
    return names


def create_nodes(plane: ControlPlane, nodes: Iterable[Object]) -> None:
    """Add these nodes, in parallel, and wait until they are Ready."""
    client = plane.client()
    nodes = list(nodes)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda each: client.create("nodes", each), nodes))
    names = {each["metadata"]["name"] for each in nodes}
    wait_for("nodes to be ready", lambda: names <= {n["metadata"]["name"] for n in client.list("nodes") if _ready(n)})


def _ready(node: Object) -> bool:
    conditions = node.get("status", {}).get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def add_namespace(plane: ControlPlane, name: str, *, owner: str = "") -> str:
    """A namespace, with its owner as operators set it."""
    annotations = {OWNER: owner} if owner else {}
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "annotations": annotations}}
    plane.client().create("namespaces", body)
    return name


def install(plane: ControlPlane, *, grants: Iterable[str] = ()) -> Finished:
    """Install CRDs, policies and roles as an administrator does, with rights for every role but the researchers."""
    if plane.client().find("namespaces", DAEMON_NAMESPACE) is None:
        add_namespace(plane, DAEMON_NAMESPACE)
    flags = [part for grant in (*GRANTS, *grants) for part in ("--grant", grant)]
    return run_cli(plane, "install", *flags, user="admin").ok()


def kubectl() -> Path:
    """The real kubectl of the control plane's version."""
    return binaries.find("kubectl")


def cli_command() -> list[str]:
    """How the CLI is started: the shipped entry point, by this interpreter."""
    return [sys.executable, "-m", "kubectl_runs"]


def cli_environment(kubeconfig: Path | str) -> dict[str, str]:
    """A quiet, equal environment for every run of the CLI; it may keep its compiled modules, as an installed one does."""
    own = ("KUBECTL_RUNS_", "KUBECONFIG", "PYTHONDONTWRITEBYTECODE")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(own)}
    return {**kept, "KUBECONFIG": str(kubeconfig), "NO_COLOR": "1", "COLUMNS": "120", "PYTHONPATH": str(ROOT)}


def run_cli(
    plane: ControlPlane,
    *arguments: str,
    user: str = "researcher",
    namespace: str = "default",
    stdin: str = "",
    server: str = "",
    seconds: float = 120,
) -> Finished:
    """Run the real CLI as a user and wait for its end."""
    done = subprocess.run(
        [*cli_command(), *arguments],
        env=cli_environment(plane.kubeconfig(user, namespace=namespace, server=server)),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=seconds,
    )
    return Finished(exit_code=done.returncode, stdout=done.stdout, stderr=done.stderr)


def start_cli(
    plane: ControlPlane, *arguments: str, user: str = "researcher", namespace: str = "default", server: str = ""
) -> subprocess.Popen[str]:
    """Start the real CLI as a user and do not wait: for races and kills."""
    return subprocess.Popen(
        [*cli_command(), *arguments],
        env=cli_environment(plane.kubeconfig(user, namespace=namespace, server=server)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
