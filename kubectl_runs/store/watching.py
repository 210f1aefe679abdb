"""Following changes on an API server: one stream after another, seen as one.

Decides where to resume after a cut (the last version seen, bookmarks included), when to give up, and that a version
which is too old ends the watch with `Gone`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator

from kubectl_runs.store import status
from kubectl_runs.store.http import NoAnswer
from kubectl_runs.store.protocol import Change, TooMany, Unavailable

# Bookmarks come about once a minute: a longer silence means a dead link.
SILENCE_SECONDS = 90.0
FAILURES_MAX = 8
PAUSE_SECONDS = 0.25

Stream = Callable[[str, float], Iterator[bytes]]


def watch_events(stream: Stream, target: str, version: str, seconds: int) -> Iterator[Change]:
    """Changes after `version` until `seconds` have passed, over as many connections as it takes."""
    end = time.monotonic() + seconds
    failures = 0
    while (left := end - time.monotonic()) > 0:
        url = f"{target}&timeoutSeconds={max(1, round(left))}" + (f"&resourceVersion={version}" if version else "")
        try:
            for line in stream(url, min(SILENCE_SECONDS, left + 5)):
                change = decode(line)
                version = change.object.get("metadata", {}).get("resourceVersion") or version
                failures = -1  # this stream brought something: a cut right after it is resumed at once
                yield change
        except NoAnswer:
            pass
        except (Unavailable, TooMany):
            if failures >= FAILURES_MAX:
                raise
        failures += 1
        if failures:
            time.sleep(max(0.0, min(PAUSE_SECONDS * failures, end - time.monotonic())))


def decode(line: bytes) -> Change:
    """One event; an ERROR event becomes the typed error it carries."""
    try:
        event = json.loads(line)
    except ValueError as error:  # the connection broke inside a line
        raise NoAnswer(f"broken event: {error}") from error
    value = event.get("object") or {}
    if event.get("type") == "ERROR":
        raise status.from_status(value, int(value.get("code") or 500))
    return Change(type=str(event.get("type")), object=value)
