"""Ways around a firewall: HTTP(S) proxies that open a tunnel, and SOCKS5.

Decides how a proxy is asked for a connection to the API server; which proxy is used was decided by the kubeconfig or
the environment. TLS to the server runs through the tunnel, so the proxy sees nothing.
"""

from __future__ import annotations

import base64
import socket
import ssl
from urllib.parse import unquote, urlsplit

from kubectl_runs.store.response import Response
from planner.values import dataclass, field

SCHEMES = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}


class Refused(OSError):
    """The proxy did not open the connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    """One proxy; `host` and `port` are its own."""

    scheme: str
    host: str
    port: int
    username: str = ""
    password: str = field(default="", repr=False)

    @classmethod
    def of(cls, url: str) -> Proxy:
        """A proxy from its URL; `ValueError` for a scheme that is not supported."""
        parts = urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme not in SCHEMES or not parts.hostname:
            raise ValueError(f"{parts.scheme}://{parts.hostname or ''} is no proxy, known are {', '.join(SCHEMES)}")
        return cls(
            scheme=parts.scheme,
            host=parts.hostname,
            port=parts.port or SCHEMES[parts.scheme],
            username=unquote(parts.username or ""),
            password=unquote(parts.password or ""),
        )

    def open(self, sock: socket.socket, host: str, port: int) -> socket.socket:
        """A connection to the proxy becomes one to `host`."""
        if self.scheme.startswith("socks5"):
            self._socks(sock, host, port)
            return sock
        if self.scheme == "https":
            sock = ssl.create_default_context().wrap_socket(sock, server_hostname=self.host)
        self._tunnel(sock, host, port)
        return sock

    def _tunnel(self, sock: socket.socket, host: str, port: int) -> None:
        lines = [f"CONNECT {host}:{port} HTTP/1.1", f"Host: {host}:{port}"]
        if self.username:
            login = base64.b64encode(f"{self.username}:{self.password}".encode()).decode()
            lines.append(f"Proxy-Authorization: Basic {login}")
        sock.sendall("\r\n".join([*lines, "", ""]).encode())
        status = Response(sock, method="CONNECT").status
        if status != 200:
            raise Refused(f"proxy {self.host}:{self.port} answered {status}")

    def _socks(self, sock: socket.socket, host: str, port: int) -> None:
        """RFC 1928, with a login (RFC 1929) if there is one. The proxy resolves the name."""
        method = b"\x02" if self.username else b"\x00"
        sock.sendall(b"\x05\x01" + method)
        if _exactly(sock, 2) != b"\x05" + method:
            raise Refused(f"proxy {self.host}:{self.port} does not take our way of logging in")
        if self.username:
            sock.sendall(b"\x01" + _counted(self.username) + _counted(self.password))
            if _exactly(sock, 2)[1]:
                raise Refused(f"proxy {self.host}:{self.port} refused the login")
        sock.sendall(b"\x05\x01\x00\x03" + _counted(host) + port.to_bytes(2, "big"))
        _, code, _, kind = _exactly(sock, 4)
        if code:
            raise Refused(f"proxy {self.host}:{self.port} could not connect to {host}:{port} (SOCKS error {code})")
        length = {1: 4, 4: 16}.get(kind) or _exactly(sock, 1)[0]
        _exactly(sock, length + 2)


def secure(sock: socket.socket, context: ssl.SSLContext, server_name: str) -> socket.socket:
    """TLS over a connection, which may itself be TLS to a proxy; the standard library cannot do that."""
    if not isinstance(sock, ssl.SSLSocket):
        return context.wrap_socket(sock, server_hostname=server_name)
    from urllib3.util.ssltransport import SSLTransport  # comes with the official client, and only this needs it

    inner: socket.socket = SSLTransport(sock, context, server_hostname=server_name)  # type: ignore[assignment]
    return inner


def _counted(text: str) -> bytes:
    data = text.encode()
    return bytes([len(data)]) + data


def _exactly(sock: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = sock.recv(count - len(data))
        if not part:
            raise Refused("the proxy hung up")
        data += part
    return data
