"""A proxy between the unmodified CLI and the API server that counts calls and makes chosen ones go wrong.

It ends TLS with the control plane's own certificate, so a kubeconfig that names the proxy as its server is all the CLI
needs (with a token: a client certificate would end here). Every call gets the next number. A rule says which call, by
number or by a look at it, meets which fault:

    with FaultProxy(plane) as proxy:
        proxy.on(3, Fault.KILL_AFTER)                       # the third call is applied, then the client dies
        proxy.on(writes("ledgerentries"), Fault.DROP_REPLY) # applied, but nobody hears of it
        proxy.on(reads("pods"), Answer(403))                # refused without asking the server
        outcome = proxy.run("submit", "-f", "run.yaml", namespace="team-a")
        proxy.calls                                         # what was asked, in order

Only the process that `run` or `start` began is ever killed.
"""

from __future__ import annotations

import http.client
import json
import ssl
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.controlplane import fleet
from tests.controlplane.fleet import Finished
from tests.controlplane.plane import ControlPlane

READING = ("GET", "HEAD", "OPTIONS")
_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "host", "te", "upgrade", "proxy-connection"}


class Fault(Enum):
    """What may befall a call."""

    KILL_BEFORE = auto()  # the client dies; the server never hears of the call
    KILL_AFTER = auto()  # the server has applied the call; the client dies before it hears so
    DROP_REQUEST = auto()  # the connection breaks; the server never hears of the call
    DROP_REPLY = auto()  # the server has applied the call; the connection breaks


@dataclass(frozen=True, slots=True)
class Answer:
    """Answered in the server's place, as the API server words it."""

    status: int
    retry_after_seconds: int | None = None
    message: str = "refused by the fault proxy"


@dataclass(frozen=True, slots=True)
class Hold:
    """The call waits here until the test sets `release`; `reached` says that it has come. For clients that sleep."""

    reached: threading.Event = field(default_factory=threading.Event)
    release: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True, slots=True)
class Delay:
    """The call is passed on after a while."""

    seconds: float


Effect = Fault | Answer | Hold | Delay


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of the client, numbered from 1 in the order of arrival."""

    number: int
    method: str
    path: str
    body: bytes = b""

    @property
    def writes(self) -> bool:
        return self.method not in READING

    @property
    def parts(self) -> list[str]:
        return self.path.partition("?")[0].split("/")

    def __str__(self) -> str:
        return f"{self.number} {self.method} {self.path}"


def writes(plural: str) -> Callable[[Call], bool]:
    """Calls that write this resource (`pods`, `ledgerentries`, `binding`, …)."""
    return lambda call: call.writes and plural in call.parts


def reads(plural: str) -> Callable[[Call], bool]:
    """Calls that read this resource."""
    return lambda call: not call.writes and plural in call.parts


@dataclass(slots=True)
class _Rule:
    matches: Callable[[Call], bool]
    effect: Effect
    left: int


class FaultProxy:
    """The proxy of one control plane."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._rules: list[_Rule] = []
        self._lock = threading.Lock()
        self._victim: subprocess.Popen[str] | None = None
        self._killed = False
        self.calls: list[Call] = []
        self.upstream_context = ssl.create_default_context(cafile=str(plane.folder / "ca.crt"))
        self._server = _Server(self, plane)
        self.url = f"https://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> FaultProxy:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for rule in self._rules:
            if isinstance(rule.effect, Hold):
                rule.effect.release.set()
        self._server.shutdown()
        self._server.server_close()

    @property
    def upstream_port(self) -> int:
        return self._plane.port

    def on(self, which: int | Callable[[Call], bool], effect: Effect, *, times: int = 1) -> None:
        """Let a call, by its number or by a look at it, meet a fault; `times` limits how many calls do."""
        matches = (lambda call: call.number == which) if isinstance(which, int) else which
        self._rules.append(_Rule(matches, effect, times))

    def reset(self) -> None:
        """Forget calls and rules, for the next command through the same proxy."""
        with self._lock:
            self.calls.clear()
            self._rules.clear()
            self._killed = False

    def start(self, *arguments: str, user: str = "researcher", namespace: str = "default") -> subprocess.Popen[str]:
        """Start the real CLI through this proxy; it is the one that a fault may kill."""
        config = self._plane.kubeconfig(user, namespace=namespace, server=self.url, token=True)
        self._victim = subprocess.Popen(
            [*fleet.cli_command(), *arguments],
            env=fleet.cli_environment(config),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        return self._victim

    def run(
        self, *arguments: str, user: str = "researcher", namespace: str = "default", seconds: float = 120
    ) -> Finished:
        """The same, and wait for its end. A killed process has the exit code -9."""
        process = self.start(*arguments, user=user, namespace=namespace)
        try:
            stdout, stderr = process.communicate(timeout=seconds)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        return Finished(exit_code=process.returncode, stdout=stdout, stderr=stderr)

    def arrived(self, method: str, path: str, body: bytes) -> tuple[Call, Effect | None]:
        """Number a call and find what befalls it. Nothing passes once the client was killed."""
        with self._lock:
            call = Call(number=len(self.calls) + 1, method=method, path=path, body=body)
            self.calls.append(call)
            if self._killed:
                return call, Fault.DROP_REQUEST
            for rule in self._rules:
                if rule.left and rule.matches(call):
                    rule.left -= 1
                    self._killed |= rule.effect is Fault.KILL_BEFORE
                    return call, rule.effect
            return call, None

    def kill(self) -> None:
        """`kill -9` of the client that this proxy started, and of nothing else."""
        self._killed = True
        if self._victim is not None:
            self._victim.kill()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, proxy: FaultProxy, plane: ControlPlane) -> None:
        self.proxy = proxy
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(plane.folder / "server.crt", plane.folder / "server.key")
        super().__init__(("127.0.0.1", 0), _Handler)

    def get_request(self) -> tuple[Any, Any]:
        # The handshake happens at the first read, in the connection's own thread.
        connection, address = super().get_request()
        return self._context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False), address

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that was killed leaves broken connections: that is what we are here for."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server
    _upstream: http.client.HTTPSConnection | None = None

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Quiet: `calls` is the log."""

    def handle_call(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        proxy = self.server.proxy
        call, effect = proxy.arrived(self.command, self.path, body)
        if isinstance(effect, Answer):
            self._answer(effect)
            return
        if isinstance(effect, Hold):
            effect.reached.set()
            effect.release.wait()
        if isinstance(effect, Delay):
            threading.Event().wait(effect.seconds)
        if effect in (Fault.KILL_BEFORE, Fault.DROP_REQUEST):
            if effect is Fault.KILL_BEFORE:
                proxy.kill()
            self.close_connection = True
            return
        self._pass_on(call, effect)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = handle_call  # noqa: N815

    def _pass_on(self, call: Call, effect: Effect | None) -> None:
        response = self._forward(call)
        if effect in (Fault.KILL_AFTER, Fault.DROP_REPLY):
            response.read()  # the server has applied it
            if effect is Fault.KILL_AFTER:
                self.server.proxy.kill()
            self.close_connection = True
            return
        self.send_response_only(response.status, response.reason)
        for key, value in response.getheaders():
            if key.lower() not in _HOP_BY_HOP:
                self.send_header(key, value)
        if response.headers.get("Content-Length") is not None or self.command == "HEAD":
            self.end_headers()
            self.wfile.write(response.read())
        else:
            self._stream(response)

    def _stream(self, response: http.client.HTTPResponse) -> None:
        """A watch or a log: pass on each piece as it comes."""
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while piece := response.read1(65536):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")

    def _forward(self, call: Call) -> http.client.HTTPResponse:
        headers = {key: value for key, value in self.headers.items() if key.lower() not in _HOP_BY_HOP}
        fresh = self._upstream is None
        if self._upstream is None:
            proxy = self.server.proxy
            self._upstream = http.client.HTTPSConnection(
                "127.0.0.1", proxy.upstream_port, context=proxy.upstream_context
            )
        try:
            self._upstream.request(call.method, call.path, body=call.body or None, headers=headers)
            return self._upstream.getresponse()
        except (http.client.HTTPException, OSError):
            self._upstream.close()
            self._upstream = None
            if fresh or call.writes:
                raise  # a write may have been applied: the client must find out, not we
            return self._forward(call)

    def finish(self) -> None:
        if self._upstream is not None:
            self._upstream.close()
        super().finish()

    def _answer(self, answer: Answer) -> None:
        reason = {403: "Forbidden", 404: "NotFound", 409: "Conflict", 429: "TooManyRequests", 503: "ServiceUnavailable"}
        status: dict[str, object] = {
            "apiVersion": "v1",
            "kind": "Status",
            "status": "Failure",
            "code": answer.status,
            "reason": reason.get(answer.status, "InternalError"),
            "message": answer.message,
        }
        body = json.dumps(status).encode()
        self.send_response(answer.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if answer.retry_after_seconds is not None:
            self.send_header("Retry-After", str(answer.retry_after_seconds))
        self.end_headers()
        self.wfile.write(body)
