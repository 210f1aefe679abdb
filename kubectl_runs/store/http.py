"""Keep-alive HTTP/1.1 connections to one API server, and what each failure proves about a request.

Decides when a connection may be used again and whether a request that failed can have reached the server: `NotSent`
means certainly not, `NoAnswer` means perhaps. It knows nothing of Kubernetes. Requests are written by hand, so that
"was a byte sent" is known and not guessed.
"""

from __future__ import annotations

import select
import socket
import ssl
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping

from kubectl_runs.store.proxy import Proxy, secure
from kubectl_runs.store.response import Broken, Response, unix_time
from planner.values import dataclass, field

CONNECT_SECONDS = 10.0
# Firewalls between forget quiet connections without a word, some after a minute.
IDLE_SECONDS_MAX = 50.0

Headers = Iterable[tuple[str, str]]  # pairs: a name may stand twice


class NotSent(Exception):
    """No connection came about: the server cannot have seen the request."""


class NoAnswer(Exception):
    """The request left, and no whole answer came back: the server may have acted on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where the server is and how to reach it: TLS, the name its certificate must carry, a proxy."""

    host: str
    port: int
    prefix: str = ""  # a path before /api, as Rancher and other front ends have
    tls: ssl.SSLContext | None = None
    server_name: str = ""
    proxy: Proxy | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One whole reply. `server_time` is its Date header, in Unix seconds (0 when it has none)."""

    status: int
    headers: Mapping[str, str] = field(repr=False)  # names in lower case
    body: bytes = field(repr=False)

    @property
    def server_time(self) -> int:
        return unix_time(self.headers.get("date", ""))


class Connections:
    """A stack of idle connections, shared by threads: the one used last is the least likely to have gone stale."""

    def __init__(self, endpoint: Endpoint, seconds: float) -> None:
        self.endpoint = endpoint
        self._seconds = seconds
        self._idle: list[tuple[socket.socket, float]] = []  # with the time of their last answer

    def exchange(self, method: str, target: str, headers: Headers, body: bytes = b"") -> Answer:
        """One request, one whole answer. Raises `NotSent` or `NoAnswer`; never repeats anything."""
        sock = self._take()
        try:
            response = self._send(sock, method, target, headers, body)
            data = response.read()
            if response.will_close:
                sock.close()
            else:
                self._idle.append((sock, time.monotonic()))
        except (OSError, Broken) as error:
            sock.close()
            raise NoAnswer(describe(error)) from error
        except BaseException:
            sock.close()  # interrupted between request and answer: never hand a half-read connection on
            raise
        if response.headers.get("content-encoding") == "gzip":
            data = _unzip(data)
        return Answer(status=response.status, headers=response.headers, body=data)

    def stream(
        self, method: str, target: str, headers: Headers, silence_seconds: float
    ) -> tuple[Answer, Iterator[bytes]]:
        """A request whose answer is read line by line, on a connection of its own."""
        sock = self._dial()
        sock.settimeout(silence_seconds)
        try:
            response = self._send(sock, method, target, headers, b"")
            body = response.read() if response.status >= 300 else b""
        except (OSError, Broken) as error:
            sock.close()
            raise NoAnswer(describe(error)) from error
        answer = Answer(status=response.status, headers=response.headers, body=body)
        return answer, _lines(sock, response)

    def close(self) -> None:
        while self._idle:
            self._idle.pop()[0].close()

    def _take(self) -> socket.socket:
        """An idle connection that is young enough and that the server has not hung up on, else a new one.

        A server's close makes the socket readable before we write; asking first is what keeps a write from being
        sent into a dead connection, where its fate would be unknown.
        """
        while self._idle:
            try:
                sock, since = self._idle.pop()
            except IndexError:  # another thread was faster
                break
            if time.monotonic() - since < IDLE_SECONDS_MAX and not _readable(sock):
                return sock
            sock.close()
        return self._dial()

    def _dial(self) -> socket.socket:
        end = self.endpoint
        host, port = (end.proxy.host, end.proxy.port) if end.proxy else (end.host, end.port)
        try:
            sock = socket.create_connection((host, port), timeout=min(CONNECT_SECONDS, self._seconds))
        except OSError as error:
            raise NotSent(f"{host}:{port}: {describe(error)}") from error
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if end.proxy:
                sock = end.proxy.open(sock, end.host, end.port)
            if end.tls:
                sock = secure(sock, end.tls, end.server_name or end.host)
            sock.settimeout(self._seconds)
        except (OSError, Broken) as error:
            sock.close()
            raise NotSent(f"{end.host}:{end.port}: {describe(error)}") from error
        return sock

    def _send(self, sock: socket.socket, method: str, target: str, headers: Headers, body: bytes) -> Response:
        end = self.endpoint
        host = f"[{end.host}]" if ":" in end.host else end.host
        lines = [f"{method} {end.prefix}{target} HTTP/1.1", f"Host: {host}:{end.port}"]
        lines += [f"{name}: {value}" for name, value in headers]
        if body or method not in ("GET", "HEAD"):
            lines.append(f"Content-Length: {len(body)}")
        sock.sendall("\r\n".join([*lines, "", ""]).encode() + body)
        return Response(sock, method=method)


def describe(error: BaseException) -> str:
    """What to tell people: `connection refused`, not `[Errno 111] Connection refused`."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the server's certificate is not trusted: {error.verify_message}"
    if isinstance(error, TimeoutError):
        return "timed out"
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    text = text or type(error).__name__
    return text[:1].lower() + text[1:]


def _readable(sock: socket.socket) -> bool:
    try:
        if hasattr(select, "poll"):
            poll = select.poll()
            poll.register(sock, select.POLLIN)
            return bool(poll.poll(0))
        return bool(select.select([sock], [], [], 0)[0])
    except (OSError, ValueError):
        return True


def _unzip(data: bytes) -> bytes:
    try:
        return zlib.decompress(data, wbits=31)
    except zlib.error as error:
        raise NoAnswer(f"broken gzip: {error}") from error


def _lines(sock: socket.socket, response: Response) -> Iterator[bytes]:
    """The lines of a streamed answer; ends quietly at its end, with `NoAnswer` when it is cut short."""
    try:
        yield from response.lines()
    except (OSError, Broken, ValueError) as error:
        raise NoAnswer(describe(error)) from error
    finally:
        response.close()
        sock.close()
