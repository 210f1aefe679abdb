"""From an HTTP answer to a typed error: one place that reads `Status` objects.

Decides by `reason` first (409 is `AlreadyExists` or `Conflict`), by the code where the reason is silent. A 5xx on a
write proves nothing about the write, 503 aside: the server says so before it does anything.
"""

from __future__ import annotations

import json

from kubectl_runs.store.http import Answer
from kubectl_runs.store.protocol import (
    AlreadyExists,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    Object,
    StoreError,
    TooMany,
    Unauthorized,
    Unavailable,
    Unknown,
)

BY_CODE: dict[int, type[StoreError]] = {
    400: Invalid,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    413: Invalid,
    415: Invalid,
    422: Invalid,
    429: TooMany,
    503: Unavailable,
}


def error_of(answer: Answer, *, writes: bool) -> StoreError:
    """The typed error of an answer with a status of 300 or more."""
    error = from_status(parse(answer.body), answer.status, writes=writes)
    error.server_time = answer.server_time or None
    if after := answer.headers.get("retry-after"):
        error.details = {**error.details, "retryAfterSeconds": _seconds(after)}
    return error


def from_status(status: Object, code: int, *, writes: bool = False) -> StoreError:
    """The typed error of a `Status` object, as replies and watch events carry it."""
    reason = str(status.get("reason") or "")
    message = str(status.get("message") or f"the server answered {code}")
    details = status.get("details") or {}
    if reason == "AlreadyExists":
        return AlreadyExists(message, reason=reason, details=details)
    if kind := BY_CODE.get(code):
        return kind(message, reason=reason, details=details)
    if code >= 500:
        return (Unknown if writes else Unavailable)(message, reason=reason, details=details)
    return StoreError(message, reason=reason or str(code), details=details)


def parse(body: bytes) -> Object:
    """The JSON object of a body; a proxy's HTML page becomes a message, not a crash."""
    try:
        value = json.loads(body)
    except ValueError:
        return {"message": body[:200].decode("utf-8", "replace").strip()}
    return value if isinstance(value, dict) else {"message": str(value)[:200]}


def _seconds(text: str) -> int:
    return int(text) if text.strip().isdigit() else 1
