"""`python -m tests.controlplane.dev`: a control plane for hand use, until Ctrl-C.

Prints the kubeconfig of each user. `--nodes 18` adds nodes of 8 H100 in two islands; `--controllers` adds the
namespace and garbage collector controllers; `--no-install` leaves our CRDs out.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading

from tests.controlplane import fleet
from tests.controlplane.binaries import Missing
from tests.controlplane.plane import USERS, ControlPlane


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.controlplane.dev", description=__doc__)
    parser.add_argument("--nodes", type=int, default=18, help="nodes of 8 H100, in two islands (default 18)")
    parser.add_argument("--controllers", action="store_true", help="delete namespaces and collect orphans")
    parser.add_argument("--no-install", action="store_true", help="do not run `kubectl-runs install`")
    options = parser.parse_args()
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    try:
        with ControlPlane.start(controllers=options.controllers) as plane:
            _furnish(plane, nodes=options.nodes, install=not options.no_install)
            _say_how_to_use(plane)
            stopped.wait()
    except Missing as missing:
        print(f"error: {missing}", file=sys.stderr)
        return 1
    return 0


def _furnish(plane: ControlPlane, *, nodes: int, install: bool) -> None:
    half = (nodes + 1) // 2
    fleet.add_nodes(plane, half, prefix="west", fabric="west")
    fleet.add_nodes(plane, nodes - half, prefix="east", fabric="east")
    fleet.add_namespace(plane, "team-a", owner="org:ai:team-a")
    if install:
        fleet.install(plane, grants=("researcher=researchers:team-a",))


def _say_how_to_use(plane: ControlPlane) -> None:
    for user in USERS:
        print(f"{user:12} {plane.kubeconfig(user, namespace='team-a')}")
    print(f"\nexport KUBECONFIG={plane.kubeconfig('admin', namespace='team-a')}\n\nCtrl-C stops it", flush=True)


if __name__ == "__main__":
    sys.exit(main())
