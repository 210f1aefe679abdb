"""Reading an HTTP/1.1 answer from a socket: head, then a body of known length, in chunks, or up to the end.

The standard library's reader pulls in the whole `email` package, a sixth of what `list` costs to start. Whatever is
not a whole answer raises `Broken`; what that means for the request is decided in `http`.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from functools import lru_cache
from io import BufferedReader

LINE_MAX = 64 * 1024
HEADERS_MAX = 200
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class Broken(Exception):
    """The answer ended early or is no HTTP."""


class Response:
    """One answer, its head read."""

    def __init__(self, sock: socket.socket, *, method: str) -> None:
        self._stream: BufferedReader = sock.makefile("rb")
        self.status, version = _status(_line(self._stream))
        while self.status == 100:  # "go on", before the answer proper
            _headers(self._stream)
            self.status, version = _status(_line(self._stream))
        self.headers = _headers(self._stream)
        self._chunked = self.headers.get("transfer-encoding", "").lower() == "chunked"
        length = self.headers.get("content-length", "")
        self._length = int(length) if length.isdigit() and not self._chunked else None
        if self.status in (204, 304) or (method == "CONNECT" and self.status == 200):
            self._chunked, self._length = False, 0
        endless = not self._chunked and self._length is None
        self.will_close = endless or version == "HTTP/1.0" or self.headers.get("connection", "").lower() == "close"

    def read(self) -> bytes:
        """The whole body."""
        return b"".join(self._parts())

    def lines(self) -> Iterator[bytes]:
        """The body line by line, as it arrives; the last one may lack its end."""
        rest = b""
        for part in self._parts():
            *whole, rest = (rest + part).split(b"\n")
            yield from whole
        if rest:
            yield rest

    def close(self) -> None:
        self._stream.close()

    def _parts(self) -> Iterator[bytes]:
        if self._chunked:
            yield from self._chunks()
        elif self._length is None:
            while part := self._stream.read1():
                yield part
        else:
            left = self._length
            while left:
                part = self._stream.read1(left)
                if not part:
                    raise Broken(f"{left} bytes of the answer are missing")
                left -= len(part)
                yield part

    def _chunks(self) -> Iterator[bytes]:
        while True:
            size = _line(self._stream).partition(b";")[0].strip()
            try:
                length = int(size, 16)
            except ValueError:
                raise Broken(f"{size[:20]!r} is no chunk size") from None
            if length == 0:
                _headers(self._stream)  # the trailer
                return
            data = self._stream.read(length)
            if len(data) < length or self._stream.read(2) != b"\r\n":
                raise Broken("a chunk of the answer is cut short")
            yield data


@lru_cache(maxsize=64)
def unix_time(date: str) -> int:
    """A Date header in Unix seconds, 0 for none. Cached: the many answers of one second carry the same text."""
    from datetime import UTC, datetime

    try:
        _, day, month, year, clock, _ = date.split()
        hours, minutes, seconds = map(int, clock.split(":"))
        moment = datetime(int(year), MONTHS.index(month) + 1, int(day), hours, minutes, seconds, tzinfo=UTC)
    except ValueError:
        return 0
    return int(moment.timestamp())


def _line(stream: BufferedReader) -> bytes:
    line = stream.readline(LINE_MAX)
    if not line.endswith(b"\n"):
        raise Broken("the connection was closed" if not line else "a line of the answer is cut short")
    return line.rstrip(b"\r\n")


def _status(line: bytes) -> tuple[int, str]:
    version, _, rest = line.decode("latin-1").partition(" ")
    code = rest.partition(" ")[0]
    if not version.startswith("HTTP/") or not code.isdigit():
        raise Broken(f"{line[:40]!r} is no HTTP")
    return int(code), version


def _headers(stream: BufferedReader) -> dict[str, str]:
    headers: dict[str, str] = {}
    for _ in range(HEADERS_MAX):
        line = _line(stream)
        if not line:
            return headers
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.strip().lower()] = value.strip()
    raise Broken("too many headers")
