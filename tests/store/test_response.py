"""Answers as they come over the wire: whole, in chunks, cut short, and no HTTP at all."""

from __future__ import annotations

import socket

import pytest

from kubectl_runs.store.response import Broken, Response, unix_time


def answer(text: str | bytes, method: str = "GET") -> Response:
    """What a server that sends exactly this and hangs up would be understood as."""
    near, far = socket.socketpair()
    with far:
        far.sendall(text if isinstance(text, bytes) else text.replace("\n", "\r\n").encode())
    near.settimeout(5)
    return Response(near, method=method)


def test_body_of_known_length_is_read_to_its_end() -> None:
    response = answer("HTTP/1.1 201 Created\nContent-Length: 5\nDATE: x\n\nhello and more")
    assert (response.status, response.read(), response.will_close) == (201, b"hello", False)
    assert response.headers["date"] == "x"


def test_chunks_are_joined_and_their_trailer_is_passed_over() -> None:
    response = answer(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4;x=y\r\nab\r\n\r\n3\r\nc\nd\r\n0\r\nT: v\r\n\r\n"
    )
    assert response.read() == b"ab\r\nc\nd"
    assert not response.will_close


def test_lines_do_not_care_where_chunks_end() -> None:
    body = b"5\r\none\nt\r\n6\r\nwo\nthr\r\n2\r\nee\r\n0\r\n\r\n"
    response = answer(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body)
    assert list(response.lines()) == [b"one", b"two", b"three"]


def test_body_without_length_ends_with_the_connection() -> None:
    response = answer("HTTP/1.1 200 OK\n\nall there is")
    assert response.will_close
    assert response.read() == b"all there is"


@pytest.mark.parametrize("head", ["HTTP/1.0 200 OK\nContent-Length: 0", "HTTP/1.1 200 OK\nConnection: close"])
def test_connection_that_will_close_is_known(head: str) -> None:
    assert answer(head + "\n\n").will_close


def test_go_on_comes_before_the_answer() -> None:
    assert answer("HTTP/1.1 100 Continue\n\nHTTP/1.1 204 No Content\n\n").status == 204


def test_tunnel_has_no_body() -> None:
    response = answer("HTTP/1.1 200 OK\n\nbytes of the tunnel", method="CONNECT")
    assert response.read() == b""


@pytest.mark.parametrize(
    "text",
    [
        "",
        "HTTP/1.1 200",
        "SSH-2.0-OpenSSH\n",
        "HTTP/1.1 abc\n\n",
        "HTTP/1.1 200 OK\nDate: x\n",
        "HTTP/1.1 200 OK\nContent-Length: 9\n\nshort",
        "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n9\nshort",
        "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n5\nhello",
        "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n5\nhello\n",
        "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\nzz\n",
        "HTTP/1.1 200 OK\n" + "H: v\n" * 300 + "\n",
        "HTTP/1.1 200 OK\nH: " + "v" * 100_000 + "\n\n",
    ],
)
def test_answer_that_is_not_whole_is_broken(text: str) -> None:
    with pytest.raises(Broken):
        answer(text).read()


def test_date_is_read_in_seconds() -> None:
    assert unix_time("Mon, 05 Jan 2026 08:00:00 GMT") == 1_767_600_000
    assert [unix_time(text) for text in ("", "yesterday", "Mon, 05 Foo 2026 08:00:00 GMT")] == [0, 0, 0]
