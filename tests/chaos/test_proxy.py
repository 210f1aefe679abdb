"""The fault proxy itself: each fault does what it says, seen from both sides."""

from __future__ import annotations

import http.client
import json
import ssl
import subprocess
import sys
import threading

import pytest

from tests.chaos.proxy import Answer, Fault, FaultProxy, Hold, reads, writes
from tests.controlplane.client import Client
from tests.controlplane.plane import ControlPlane

# A client of its own process, so that it can be killed: creates the configmaps that it is told to, one after another.
CREATE = """
import http.client, json, ssl, sys
port, ca, *names = sys.argv[1:]
link = http.client.HTTPSConnection("127.0.0.1", int(port), context=ssl.create_default_context(cafile=ca))
for name in names:
    body = json.dumps({"metadata": {"name": name}})
    headers = {"Authorization": "Bearer token-of-admin", "Content-Type": "application/json"}
    link.request("POST", "/api/v1/namespaces/default/configmaps", body, headers)
    print(link.getresponse().read() and name, flush=True)
"""


def create(proxy: FaultProxy, plane: ControlPlane, *names: str) -> subprocess.CompletedProcess[str]:
    port, ca = proxy.url.rsplit(":", 1)[1], str(plane.folder / "ca.crt")
    process = subprocess.Popen([sys.executable, "-c", CREATE, port, ca, *names], stdout=subprocess.PIPE, text=True)
    proxy._victim = process
    stdout, _ = process.communicate(timeout=30)
    return subprocess.CompletedProcess(process.args, process.returncode, stdout)


def existing(client: Client, *names: str) -> list[str]:
    return [name for name in names if client.find("configmaps", name, "default")]


@pytest.mark.parametrize(
    ("fault", "applied"), [(Fault.KILL_BEFORE, ["first"]), (Fault.KILL_AFTER, ["first", "second"])]
)
def test_client_killed_at_second_call(
    proxy: FaultProxy, bare_control_plane: ControlPlane, fault: Fault, applied: list[str]
) -> None:
    admin = bare_control_plane.client()
    names = [f"{fault.name.lower().replace('_', '-')}-{each}" for each in ("first", "second", "third")]
    proxy.on(2, fault)
    done = create(proxy, bare_control_plane, *names)
    assert (done.returncode, done.stdout.split()) == (-9, names[:1])
    assert existing(admin, *names) == names[: len(applied)]
    assert [call.number for call in proxy.calls] == [1, 2]


def ask(proxy: FaultProxy, plane: ControlPlane, method: str = "GET", name: str = "") -> tuple[int, dict[str, object]]:
    context = ssl.create_default_context(cafile=str(plane.folder / "ca.crt"))
    link = http.client.HTTPSConnection("127.0.0.1", int(proxy.url.rsplit(":", 1)[1]), context=context, timeout=30)
    headers = {"Authorization": "Bearer token-of-admin", "Content-Type": "application/json"}
    body = json.dumps({"metadata": {"name": name}}) if name else None
    try:
        link.request(method, "/api/v1/namespaces/default/configmaps", body, headers)
        response = link.getresponse()
        return response.status, json.loads(response.read())
    finally:
        link.close()


def test_reply_dropped_but_applied(proxy: FaultProxy, bare_control_plane: ControlPlane) -> None:
    proxy.on(writes("configmaps"), Fault.DROP_REPLY)
    with pytest.raises((http.client.RemoteDisconnected, ConnectionError, ssl.SSLError)):
        ask(proxy, bare_control_plane, "POST", "reply-dropped")
    assert existing(bare_control_plane.client(), "reply-dropped") == ["reply-dropped"]
    assert ask(proxy, bare_control_plane, "POST", "reply-dropped")[0] == 409, "the fault was for one call"


def test_request_dropped_never_reaches_the_server(proxy: FaultProxy, bare_control_plane: ControlPlane) -> None:
    proxy.on(writes("configmaps"), Fault.DROP_REQUEST)
    with pytest.raises((http.client.RemoteDisconnected, ConnectionError, ssl.SSLError)):
        ask(proxy, bare_control_plane, "POST", "request-dropped")
    assert existing(bare_control_plane.client(), "request-dropped") == []


@pytest.mark.parametrize("status", [403, 429, 503])
def test_chosen_calls_are_answered_in_the_servers_place(
    proxy: FaultProxy, bare_control_plane: ControlPlane, status: int
) -> None:
    proxy.on(reads("configmaps"), Answer(status), times=2)
    answers = [ask(proxy, bare_control_plane) for _ in range(3)]
    assert [code for code, _ in answers] == [status, status, 200]
    assert answers[0][1]["kind"] == "Status"


def test_held_call_waits_for_its_release(proxy: FaultProxy, bare_control_plane: ControlPlane) -> None:
    hold = Hold()
    proxy.on(writes("configmaps"), hold)
    asking = threading.Thread(target=ask, args=(proxy, bare_control_plane, "POST", "held"))
    asking.start()
    assert hold.reached.wait(30)
    assert existing(bare_control_plane.client(), "held") == []
    hold.release.set()
    asking.join(30)
    assert existing(bare_control_plane.client(), "held") == ["held"]


def test_watch_streams_through(proxy: FaultProxy, bare_control_plane: ControlPlane) -> None:
    context = ssl.create_default_context(cafile=str(bare_control_plane.folder / "ca.crt"))
    link = http.client.HTTPSConnection("127.0.0.1", int(proxy.url.rsplit(":", 1)[1]), context=context, timeout=30)
    path = "/api/v1/namespaces/default/configmaps?watch=1&timeoutSeconds=20&fieldSelector=metadata.name%3Dwatched"
    link.request("GET", path, headers={"Authorization": "Bearer token-of-admin"})
    response = link.getresponse()
    bare_control_plane.client().create("configmaps", {"metadata": {"name": "watched"}}, "default")
    assert json.loads(response.readline())["object"]["metadata"]["name"] == "watched"
    link.close()
