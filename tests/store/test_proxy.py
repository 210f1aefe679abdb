"""Proxies of every kind in front of a real API server, each noting whom it was asked for."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator

import pytest

from kubectl_runs.store.access import Access, ConfigError, Pem
from kubectl_runs.store.cluster import ClusterStore
from kubectl_runs.store.protocol import Get, Unavailable
from kubectl_runs.wire.kinds import NAMESPACE
from tests.controlplane.plane import ControlPlane

ASK = Get(kind=NAMESPACE, name="default")


class Proxy:
    """Opens tunnels the HTTP way or the SOCKS5 way, in TLS if it has a certificate."""

    def __init__(self, *, tls: ssl.SSLContext | None = None, socks: bool = False, login: str = "") -> None:
        self.asked: list[str] = []
        self._tls, self._socks, self._login = tls, socks, login
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError, IndexError):  # whoever is refused hangs up
            near = self._tls.wrap_socket(near, server_side=True) if self._tls else near
            host, port = self._asked_by_socks(near) if self._socks else self._asked_by_http(near)
            self.asked.append(f"{host}:{port}")
            far = socket.create_connection((host, int(port)))
            near.sendall(b"\x05\x00\x00\x01" + bytes(6) if self._socks else b"HTTP/1.1 200 OK\r\n\r\n")
            for source, target in ((near, far), (far, near)):
                threading.Thread(target=_copy, args=(source, target), daemon=True).start()

    def _asked_by_http(self, near: socket.socket) -> tuple[str, str]:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += near.recv(1)
        host, _, port = head.split(b" ")[1].decode().partition(":")
        return host, port

    def _asked_by_socks(self, near: socket.socket) -> tuple[str, str]:
        method = near.recv(3)[2:]
        near.sendall(b"\x05" + method)
        if method == b"\x02":
            near.sendall(b"\x01\x00" if near.recv(64)[1:].decode("latin-1") == self._login else b"\x01\x01")
        asked = near.recv(300)
        length = asked[4]
        return asked[5 : 5 + length].decode(), str(int.from_bytes(asked[5 + length : 7 + length], "big"))


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)


@contextlib.contextmanager
def running(**settings: object) -> Iterator[Proxy]:
    proxy = Proxy(**settings)  # type: ignore[arg-type]
    yield proxy
    proxy.close()


def through(plane: ControlPlane, url: str) -> ClusterStore:
    access = Access(
        server=plane.server, ca=Pem(file=str(plane.folder / "ca.crt")), token="token-of-admin", proxy_url=url
    )
    return ClusterStore(access, request_timeout=10)


@pytest.mark.cluster
@pytest.mark.parametrize("scheme", ["http", "https", "socks5", "socks5h"])
def test_request_reaches_the_server_through_the_proxy(
    own_plane: ControlPlane, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls = None
    if scheme == "https":
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(own_plane.folder / "server.crt", own_plane.folder / "server.key")
        monkeypatch.setenv("SSL_CERT_FILE", str(own_plane.folder / "ca.crt"))
    with running(tls=tls, socks=scheme.startswith("socks5")) as proxy:
        store = through(own_plane, f"{scheme}://127.0.0.1:{proxy.port}")
        names = {store.perform(ASK).object["metadata"]["name"] for _ in range(3)}
        assert names == {"default"}
        assert proxy.asked == [f"127.0.0.1:{own_plane.port}"]  # one connection, kept


@pytest.mark.cluster
def test_login_is_shown_to_a_socks_proxy(own_plane: ControlPlane) -> None:
    with running(socks=True, login="\x02me\x02pw") as proxy:
        assert through(own_plane, f"socks5://me:pw@127.0.0.1:{proxy.port}").perform(ASK).object
        with pytest.raises(Unavailable) as refused:
            through(own_plane, f"socks5://me:no@127.0.0.1:{proxy.port}").perform(ASK)
    assert "refused the login" in refused.value.message


@pytest.mark.cluster
def test_proxy_of_the_environment_is_used_unless_it_is_excepted(
    own_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running() as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.port}")
        through(own_plane, "").perform(ASK)
        assert proxy.asked == []  # loopback never goes through a proxy, as in Go
        named = Access(server=f"https://kubernetes.default.svc:{own_plane.port}", insecure=True)
        with pytest.raises(Unavailable):
            ClusterStore(named, request_timeout=2).perform(ASK)  # asked for, and not to be found by name
        assert proxy.asked == [f"kubernetes.default.svc:{own_plane.port}"]
        monkeypatch.setenv("NO_PROXY", ".svc")
        with pytest.raises(Unavailable):
            ClusterStore(named, request_timeout=2).perform(ASK)
        assert len(proxy.asked) == 1


def test_proxy_of_another_kind_is_refused_by_name() -> None:
    with pytest.raises(ConfigError) as refused:
        ClusterStore(Access(server="https://x", proxy_url="ftp://proxy")).perform(ASK)
    assert "ftp://proxy" in refused.value.message
