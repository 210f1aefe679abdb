"""Starts and stops one control plane: etcd, kube-apiserver, and on request KWOK and two controllers.

Every process runs under a guard (see `guard`), so nothing outlives the process that called `ControlPlane.start`.
Ports are free loopback ports, data lies in one temporary folder. TLS and RBAC are on. Users have client certificates:

    admin       system:masters
    researcher  group researchers
    rival       group rivals        (a researcher of another team)
    operator    group operators
    daemon      the service account kubectl-runs/daemon, group daemons
    auditor     group auditors
    stranger    group strangers     (no rights at all)
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.controlplane import binaries, guard
from tests.controlplane.client import Client


@dataclass(frozen=True, slots=True)
class User:
    """How the API server knows somebody."""

    name: str
    groups: tuple[str, ...]


USERS = {
    "admin": User("admin", ("system:masters",)),
    "researcher": User("researcher", ("researchers",)),
    "rival": User("rival", ("rivals",)),
    "operator": User("operator", ("operators",)),
    "daemon": User("system:serviceaccount:kubectl-runs:daemon", ("daemons", "system:serviceaccounts")),
    "auditor": User("auditor", ("auditors",)),
    "stranger": User("stranger", ("strangers",)),
}
_START_ATTEMPTS = 3
_READY_SECONDS = 60
_STAGES = Path(__file__).with_name("stages.yaml")


class DidNotStart(RuntimeError):
    """A process of the control plane ended or never answered; the end of its log is in the message."""


class ControlPlane:
    """One running control plane. Use as a context manager, or call `stop`."""

    def __init__(self, *, kwok: bool = True, controllers: bool = False) -> None:
        self._wanted = {"kwok": kwok, "kube-controller-manager": controllers}
        self.folder = Path(tempfile.mkdtemp(prefix="kubectl-runs-control-plane-"))
        self.port = 0
        self._etcd_url = ""
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._clients: dict[tuple[int, str], Client] = {}

    @classmethod
    def start(cls, *, kwok: bool = True, controllers: bool = False) -> ControlPlane:
        """Start everything and wait until the API server is ready."""
        plane = cls(kwok=kwok, controllers=controllers)
        try:
            plane._start()
        except BaseException:
            plane.stop()
            raise
        return plane

    def __enter__(self) -> ControlPlane:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def server(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def etcd_url(self) -> str:
        """Where the server keeps its objects; benchmarks fill it directly."""
        return self._etcd_url

    def client(self, user: str = "admin") -> Client:
        """A client of our own for this user; one for all, it keeps a connection for each thread."""
        if (self.port, user) not in self._clients:
            self._clients[self.port, user] = Client(port=self.port, folder=self.folder, user=user)
        return self._clients[self.port, user]

    def kubeconfig(
        self, user: str = "admin", *, server: str = "", namespace: str = "default", token: bool = False
    ) -> Path:
        """A kubeconfig file for this user: with its certificate, or with its token; `server` to go through a proxy."""
        server = server or self.server
        kind = "token" if token else "certificate"
        path = self.folder / f"{user}-{namespace}-{kind}-{server.rsplit(':', 1)[-1]}.kubeconfig"
        credentials = {"token": f"token-of-{user}"} if token else self._certificate(user)
        cluster = {"server": server, "certificate-authority-data": self._embedded("ca.crt")}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": user, "user": credentials}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": user, "namespace": namespace}}],
        }
        path.write_text(json.dumps(config, indent=1))
        return path

    def add_user(self, key: str, user: User) -> None:
        """One more user, by certificate (the token file is read at start only)."""
        subprocess.run([binaries.find("pki"), "user", self.folder, key, user.name, *user.groups], check=True)

    def kubectl(self, *arguments: str, user: str = "admin", stdin: str = "") -> subprocess.CompletedProcess[str]:
        """The real kubectl of the same version."""
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig(user))}
        command = [str(binaries.find("kubectl")), *arguments]
        return subprocess.run(command, env=environment, input=stdin, capture_output=True, text=True, timeout=120)

    def process_ids(self) -> list[int]:
        """The guards of what was started; each ends after its child."""
        return [process.pid for process in self._processes.values()]

    def stop(self) -> None:
        """Stop what this object started, in the reverse order, and remove its data."""
        for name in reversed(list(self._processes)):
            self._stop_process(name)
        shutil.rmtree(self.folder, ignore_errors=True)

    def restart_api_server(self) -> None:
        """Stop the API server and start it again on the same port with the same data."""
        self.stop_api_server()
        self.start_api_server()

    def stop_api_server(self) -> None:
        self._stop_process("kube-apiserver")

    def start_api_server(self) -> None:
        self._spawn("kube-apiserver", *self._api_server_flags())
        self._wait_until_ready()

    def _start(self) -> None:
        subprocess.run([binaries.find("pki"), "init", self.folder], check=True)
        for key, user in USERS.items():
            self.add_user(key, user)
        lines = (f'token-of-{key},{user.name},{key},"{",".join(user.groups)}"\n' for key, user in USERS.items())
        (self.folder / "tokens.csv").write_text("".join(lines))
        self._start_servers()
        if self._wanted["kwok"]:
            self._spawn("kwok", *self._kwok_flags())
        if self._wanted["kube-controller-manager"]:
            self._spawn("kube-controller-manager", *self._controller_flags())

    def _start_servers(self) -> None:
        """Somebody else may take a free port between our look and our start: then try again with others."""
        for attempt in range(1, _START_ATTEMPTS + 1):
            client_port, peer_port, self.port = _free_ports(3)
            self._etcd_url = f"http://127.0.0.1:{client_port}"
            try:
                self._spawn("etcd", *self._etcd_flags(peer_port), remove=self.folder / "etcd")
                self.start_api_server()
                return
            except DidNotStart:
                if attempt == _START_ATTEMPTS:
                    raise
                for name in list(self._processes):
                    self._stop_process(name)

    def _spawn(self, name: str, *flags: str, remove: Path | None = None) -> None:
        cleanup = ["--remove", str(remove)] if remove else []
        command = [sys.executable, "-S", "-E", guard.__file__, *cleanup, str(binaries.find(name)), *flags]
        with self._log(name).open("ab") as log:
            self._processes[name] = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True, cwd=self.folder
            )

    def _stop_process(self, name: str) -> None:
        process = self._processes.pop(name, None)
        if process is None:
            return
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.close()  # the guard's sign to end its child
        process.wait(timeout=guard.PATIENCE_SECONDS + 10)

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + _READY_SECONDS
        client = self.client("admin")
        while time.monotonic() < deadline:
            for name, process in self._processes.items():
                if process.poll() is not None:
                    raise DidNotStart(f"{name} ended with {process.returncode}:\n{self._log_tail(name)}")
            if client.is_ready():
                return
            time.sleep(0.05)
        raise DidNotStart(f"kube-apiserver was not ready after {_READY_SECONDS} s:\n{self._log_tail('kube-apiserver')}")

    def _log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def _log_tail(self, name: str) -> str:
        return "\n".join(self._log(name).read_text(errors="replace").splitlines()[-20:])

    def _etcd_flags(self, peer_port: int) -> list[str]:
        peer = f"http://127.0.0.1:{peer_port}"
        return [
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={self._etcd_url}",
            f"--advertise-client-urls={self._etcd_url}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",  # a power cut may lose this data, and nobody would miss it
            "--log-level=warn",
        ]

    def _api_server_flags(self) -> list[str]:
        folder = self.folder
        return [
            f"--etcd-servers={self._etcd_url}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self.port}",
            f"--tls-cert-file={folder / 'server.crt'}",
            f"--tls-private-key-file={folder / 'server.key'}",
            f"--client-ca-file={folder / 'ca.crt'}",
            f"--token-auth-file={folder / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            # Without a kubelet nobody would take the not-ready taint off, and no controller makes service accounts.
            "--disable-admission-plugins=TaintNodesByCondition,ServiceAccount",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={folder / 'service-accounts.key'}",
            f"--service-account-signing-key-file={folder / 'service-accounts.key'}",
            "--max-requests-inflight=1000",
            "--max-mutating-requests-inflight=1000",
        ]

    def _kwok_flags(self) -> list[str]:
        return [
            f"--kubeconfig={self.kubeconfig()}",
            f"--config={_STAGES}",
            "--manage-all-nodes=true",
            "--node-lease-duration-seconds=0",
            "--cidr=10.128.0.0/9",
        ]

    def _controller_flags(self) -> list[str]:
        return [
            f"--kubeconfig={self.kubeconfig()}",
            "--controllers=namespace-controller,garbage-collector-controller",
            "--leader-elect=false",
            "--secure-port=0",
        ]

    def _certificate(self, user: str) -> dict[str, str]:
        return {
            "client-certificate-data": self._embedded(f"{user}.crt"),
            "client-key-data": self._embedded(f"{user}.key"),
        }

    def _embedded(self, file: str) -> str:
        return base64.b64encode((self.folder / file).read_bytes()).decode()


def _free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago, all different."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
