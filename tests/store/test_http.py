"""What a lost, late or strange answer means: a server that misbehaves as it is told, and the store in front of it."""

from __future__ import annotations

import contextlib
import gzip
import json
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from kubectl_runs import __version__
from kubectl_runs.store.access import Access, Impersonate
from kubectl_runs.store.cluster import ClusterStore
from kubectl_runs.store.protocol import (
    Create,
    Forbidden,
    Get,
    Gone,
    Invalid,
    List,
    Object,
    StoreError,
    TooMany,
    Unauthorized,
    Unavailable,
    Unknown,
)
from kubectl_runs.wire.kinds import POD, RUN

DATE = "Mon, 05 Jan 2026 08:00:00 GMT"
AT = 1_767_600_000
GET = Get(kind=POD, name="p", namespace="a")
CREATE = Create(kind=POD, object={"metadata": {"name": "p", "namespace": "a"}})


@dataclass(kw_only=True)
class Say:
    """One answer; `then` says what becomes of the connection."""

    status: int = 200
    body: Object | bytes = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    then: str = "keep"  # or "close"


HANG_UP = Say(status=0)  # reads the request and closes without a word
HALF = Say(status=-1)  # breaks off in the middle of the body


class Server:
    """Answers each request with the next line of its script and notes what it was asked."""

    def __init__(self) -> None:
        self.script: list[Say] = []
        self.asked: list[tuple[str, str, dict[str, str], bytes]] = []
        self.connections = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def store(self, **access: object) -> ClusterStore:
        found = Access(server=f"http://127.0.0.1:{self.port}", context="test", **access)  # type: ignore[arg-type]
        return ClusterStore(found, request_timeout=2)

    @property
    def targets(self) -> list[str]:
        return [f"{method} {target.partition('?')[0]}" for method, target, _, _ in self.asked]

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                self.connections += 1
                threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError), near, near.makefile("rb") as stream:
            while line := stream.readline():
                method, target, _ = line.decode().split(" ", 2)
                headers: dict[str, str] = {}
                while (header := stream.readline().decode().strip()) != "":
                    name, _, value = header.partition(": ")
                    headers[name] = f"{headers[name]},{value}" if name in headers else value
                body = stream.read(int(headers.get("Content-Length", 0)))
                self.asked.append((method, target, headers, body))
                if not self._answer(near, self.script.pop(0)):
                    return

    def _answer(self, near: socket.socket, say: Say) -> bool:
        if say is HANG_UP:
            return False
        body = say.body if isinstance(say.body, bytes) else json.dumps(say.body).encode()
        length = len(body) + 100 if say is HALF else len(body)
        extra = "".join(f"{name}: {value}\r\n" for name, value in say.headers.items())
        status = 200 if say is HALF else say.status
        near.sendall(f"HTTP/1.1 {status} X\r\nDate: {DATE}\r\nContent-Length: {length}\r\n{extra}\r\n".encode() + body)
        return say is not HALF and say.then == "keep"


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


def failure(code: int, reason: str = "", message: str = "no", **details: object) -> Say:
    body = {"kind": "Status", "code": code, "reason": reason, "message": message, "details": details}
    return Say(status=code, body=body)


def test_connection_is_kept_and_time_is_the_servers(server: Server) -> None:
    server.script = [Say(body={"metadata": {"resourceVersion": "5"}})] * 3
    store = server.store()
    replies = [store.perform(GET) for _ in range(3)]
    assert server.connections == 1
    assert {reply.server_time for reply in replies} == {AT}
    assert replies[0].resource_version == "5"


@pytest.mark.parametrize("broken", [HANG_UP, HALF])
def test_read_whose_answer_is_lost_is_repeated_once(server: Server, broken: Say) -> None:
    server.script = [broken, Say(body={"metadata": {"name": "p"}})]
    assert server.store().perform(GET).object["metadata"]["name"] == "p"
    server.script = [broken, broken]
    with pytest.raises(Unavailable):
        server.store().perform(GET)


@pytest.mark.parametrize("broken", [HANG_UP, HALF])
def test_write_whose_answer_is_lost_is_unknown_and_never_repeated(server: Server, broken: Say) -> None:
    server.script = [broken, Say()]
    with pytest.raises(Unknown):
        server.store().perform(CREATE)
    assert server.targets == ["POST /api/v1/namespaces/a/pods"]


def test_connection_that_was_idle_for_long_is_not_used_again(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.script = [Say(), Say()]
    store = server.store()
    store.perform(GET)
    later = time.monotonic() + 60
    monkeypatch.setattr(time, "monotonic", lambda: later)
    store.perform(CREATE)
    assert server.connections == 2


def test_write_on_a_connection_that_went_stale_takes_a_new_one(server: Server) -> None:
    server.script = [Say(then="close"), Say(body={"metadata": {"name": "p"}})]
    store = server.store()
    store.perform(GET)
    time.sleep(0.05)  # the server's hang-up arrives
    assert store.perform(CREATE).object["metadata"]["name"] == "p"
    assert server.connections == 2
    assert server.targets.count("POST /api/v1/namespaces/a/pods") == 1


def test_refused_connection_is_unavailable_for_reads_and_writes() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    store = ClusterStore(Access(server=f"http://127.0.0.1:{port}", context="test"))
    for request in (GET, CREATE):
        with pytest.raises(Unavailable) as refused:
            store.perform(request)
        assert "connection refused" in refused.value.message


def test_server_that_says_nothing_times_out(server: Server) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    store = ClusterStore(Access(server=f"http://127.0.0.1:{listener.getsockname()[1]}"), request_timeout=0.2)
    with pytest.raises(Unknown):
        store.perform(CREATE)
    with pytest.raises(Unavailable):
        store.perform(GET)
    listener.close()


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (failure(401), Unauthorized),
        (failure(403, "Forbidden"), Forbidden),
        (failure(410, "Expired"), Gone),
        (failure(422, "Invalid"), Invalid),
        (failure(400, "BadRequest"), Invalid),
        (failure(503), Unavailable),
        (failure(500, "InternalError"), Unknown),
        (failure(504, "Timeout"), Unknown),
        (Say(status=502, body=b"<html>bad gateway</html>"), Unknown),
        (failure(418), StoreError),
    ],
)
def test_answer_to_a_write_has_its_typed_error(server: Server, answer: Say, expected: type[StoreError]) -> None:
    server.script = [answer]
    with pytest.raises(StoreError) as refused:
        server.store().perform(CREATE)
    assert type(refused.value) is expected
    assert refused.value.server_time == AT
    assert len(server.asked) == 1


def test_server_error_on_a_read_is_unavailable(server: Server) -> None:
    server.script = [failure(500, "InternalError")]
    with pytest.raises(Unavailable):
        server.store().perform(GET)


def test_too_many_requests_are_obeyed_and_tried_again(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    busy = Say(status=429, body={"message": "busy"}, headers={"Retry-After": "3"})
    server.script = [busy, busy, Say(body={"metadata": {"name": "p"}})]
    assert server.store().perform(CREATE).object["metadata"]["name"] == "p"
    assert pauses == [3, 3]


def test_too_many_requests_for_too_long_are_told(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)
    server.script = [Say(status=429, headers={"Retry-After": "1"})] * 20
    with pytest.raises(TooMany):
        server.store().perform(CREATE)
    assert len(server.asked) < 20


def test_gzip_is_asked_for_and_understood(server: Server) -> None:
    body = gzip.compress(json.dumps({"items": [{"metadata": {"name": "a"}}], "metadata": {}}).encode())
    server.script = [Say(body=body, headers={"Content-Encoding": "gzip"})]
    reply = server.store().perform(List(kind=POD))
    assert [item["metadata"]["name"] for item in reply.items] == ["a"]
    assert server.asked[0][2]["Accept-Encoding"] == "gzip"


def page(names: str, token: str = "") -> Say:
    items = [{"metadata": {"name": name}} for name in names]
    return Say(body={"items": items, "metadata": {"continue": token, "resourceVersion": "9"}})


def test_pages_are_followed_and_begun_again_when_they_expire(server: Server) -> None:
    server.script = [page("ab", "t1"), failure(410, "Expired"), page("ab", "t2"), page("c")]
    reply = server.store().perform(List(kind=RUN, namespace="a", labels="x=y", fields="metadata.name!=z"))
    assert [item["metadata"]["name"] for item in reply.items] == ["a", "b", "c"]
    assert reply.resource_version == "9"
    assert ["continue=" in target for _, target, _, _ in server.asked] == [False, True, False, True]
    assert all("limit=500" in target and "labelSelector=x%3Dy" in target for _, target, _, _ in server.asked)


def test_pages_that_keep_expiring_are_gone(server: Server) -> None:
    server.script = [page("a", "t"), failure(410, "Expired")] * 5
    with pytest.raises(Gone):
        server.store().perform(List(kind=RUN))
    assert len(server.asked) == 6


def test_headers_say_who_asks_and_as_whom(server: Server) -> None:
    server.script = [Say()]
    who = Impersonate(user="rita", groups=("a", "b"), extra=(("scopes/x", ("view",)),))
    server.store(token="secret", impersonate=who).perform(CREATE)
    headers = server.asked[0][2]
    assert headers["Authorization"] == "Bearer secret"
    assert headers["User-Agent"] == f"kubectl-runs/{__version__}"
    assert headers["Impersonate-User"] == "rita"
    assert headers["Impersonate-Group"] == "a,b"
    assert headers["Impersonate-Extra-scopes%2Fx"] == "view"


def test_writes_are_validated_strictly(server: Server) -> None:
    server.script = [Say()]
    server.store().perform(Create(kind=RUN, object={"metadata": {"namespace": "a"}}, dry_run=True))
    target = server.asked[0][1]
    assert "fieldValidation=Strict" in target
    assert "dryRun=All" in target


def test_secret_token_never_shows_in_a_repr() -> None:
    assert "secret" not in repr(Access(server="https://x", token="secret", password="secret"))


def test_http_proxy_is_asked_for_a_tunnel(server: Server) -> None:
    server.script = [Say(status=200, body=b""), Say(body={"metadata": {"name": "p"}})]
    access = Access(server="http://api.example:6443", proxy_url=f"http://me:pw@127.0.0.1:{server.port}")
    assert ClusterStore(access).perform(GET).object["metadata"]["name"] == "p"
    method, target, headers, _ = server.asked[0]
    assert (method, target) == ("CONNECT", "api.example:6443")
    assert headers["Proxy-Authorization"] == "Basic bWU6cHc="
    assert server.targets[1] == "GET /api/v1/namespaces/a/pods/p"


def test_proxy_that_refuses_means_that_nothing_was_sent(server: Server) -> None:
    server.script = [Say(status=407)]
    access = Access(server="http://api.example:6443", proxy_url=f"http://127.0.0.1:{server.port}")
    with pytest.raises(Unavailable) as refused:
        ClusterStore(access).perform(CREATE)
    assert "407" in refused.value.message


def test_logs_are_read_line_by_line(server: Server) -> None:
    server.script = [Say(body="first\r\nsecond\nünïcode \udcff".encode("utf-8", "surrogateescape"))]
    lines = list(server.store().logs("a", "p", container="main", follow=True, tail=5))
    assert lines == ["first", "second", "ünïcode \ufffd"]
    target = server.asked[0][1]
    assert target.startswith("/api/v1/namespaces/a/pods/p/log?")
    assert all(part in target for part in ("container=main", "follow=true", "tailLines=5"))


def test_logs_that_break_off_say_so(server: Server) -> None:
    server.script = [HALF]
    with pytest.raises(Unavailable):
        list(server.store().logs("a", "p"))


def test_event_of_an_error_ends_a_watch_with_its_type(server: Server) -> None:
    event = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}}
    server.script = [Say(body=json.dumps(event).encode() + b"\n")]
    with pytest.raises(Gone):
        list(server.store().watch(POD, "a", resource_version="7", seconds=5))
    assert "resourceVersion=7" in server.asked[0][1]


def test_watch_gives_up_when_nobody_answers(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)
    server.script = [failure(503)] * 50
    with pytest.raises(Unavailable):
        list(server.store().watch(POD, "a", resource_version="7", seconds=60))
    assert len(server.asked) < 50


def test_many_requests_share_few_connections(server: Server) -> None:
    server.script = [Say() for _ in range(200)]
    outcomes = server.store().perform_all([GET] * 200)
    assert len(outcomes) == 200
    assert server.connections <= 16
