"""A small Kubernetes client for tests: JSON over one kept connection a thread.

It shares no code with the product, so that a test sees what the API server holds and not what the product believes.
"""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

Object = dict[str, Any]
Found = TypeVar("Found")

_CORE = {"pods", "nodes", "namespaces", "services", "events", "resourcequotas", "persistentvolumeclaims", "configmaps"}
_OURS = "rq.davidlangworthy.io/v1"
_PATIENCE_SECONDS = 60.0


class Refused(Exception):
    """The API server said no: the HTTP status and its own words."""

    def __init__(self, status: int, body: Object) -> None:
        super().__init__(f"{status} {body.get('reason', '')}: {body.get('message', '')}")
        self.status = status
        self.reason = str(body.get("reason", ""))
        self.body = body


def path_of(plural: str, namespace: str = "", name: str = "", subresource: str = "") -> str:
    """`runs` → our group, `pods` → the core group, `apps/v1/deployments` → spelled out."""
    prefix = f"/apis/{_OURS}"
    if plural in _CORE:
        prefix = "/api/v1"
    elif "/" in plural:
        group, version, plural = plural.split("/")
        prefix = f"/apis/{group}/{version}"
    parts = [prefix, *(("namespaces", namespace) if namespace else ()), plural, name, subresource]
    return "/".join(part for part in parts if part)


class Client:
    """One user's view of one API server."""

    def __init__(self, *, port: int, folder: Path, user: str) -> None:
        self.user = user
        self._port = port
        self._context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
        self._context.load_cert_chain(folder / f"{user}.crt", folder / f"{user}.key")
        self._local = threading.local()

    def request(self, method: str, path: str, body: Object | None = None, content: str = "application/json") -> Object:
        """One call; raises `Refused` with the server's status. A connection that the server dropped is opened anew."""
        data = None if body is None else json.dumps(body)
        for attempt in (1, 2):
            try:
                connection = self._connection()
                connection.request(method, path, body=data, headers={"Content-Type": content})
                response = connection.getresponse()
                answer = json.loads(response.read() or b"{}")
                break
            except (http.client.HTTPException, OSError):
                self.close()
                if attempt == 2:
                    raise
        if response.status >= 400:
            raise Refused(response.status, answer)
        return dict(answer)

    def is_ready(self) -> bool:
        """Does the server answer, with all that it does at its start (also the built-in roles) done?"""
        try:
            connection = self._connection()
            connection.request("GET", "/readyz")
            response = connection.getresponse()
            response.read()
        except (http.client.HTTPException, OSError):
            self.close()
            return False
        return response.status == 200

    def _connection(self) -> http.client.HTTPSConnection:
        connection: http.client.HTTPSConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = http.client.HTTPSConnection("127.0.0.1", self._port, context=self._context, timeout=60)
            self._local.connection = connection
        return connection

    def close(self) -> None:
        """Drop this thread's connection."""
        connection = self._local.__dict__.pop("connection", None)
        if connection is not None:
            connection.close()

    def get(self, plural: str, name: str, namespace: str = "") -> Object:
        return self.request("GET", path_of(plural, namespace, name))

    def find(self, plural: str, name: str, namespace: str = "") -> Object | None:
        """The object, or None where there is none."""
        try:
            return self.get(plural, name, namespace)
        except Refused as refused:
            if refused.status == 404:
                return None
            raise

    def list(self, plural: str, namespace: str = "", *, labels: str = "", fields: str = "") -> list[Object]:
        query = {key: value for key, value in (("labelSelector", labels), ("fieldSelector", fields)) if value}
        return list(self.request("GET", f"{path_of(plural, namespace)}?{urlencode(query)}")["items"])

    def create(self, plural: str, body: Object, namespace: str = "") -> Object:
        return self.request("POST", path_of(plural, namespace), body)

    def replace(self, plural: str, body: Object, subresource: str = "") -> Object:
        meta = body["metadata"]
        return self.request("PUT", path_of(plural, meta.get("namespace", ""), meta["name"], subresource), body)

    def patch(self, plural: str, name: str, patch: Object, namespace: str = "", subresource: str = "") -> Object:
        """A JSON merge patch."""
        path = path_of(plural, namespace, name, subresource)
        return self.request("PATCH", path, patch, content="application/merge-patch+json")

    def delete(self, plural: str, name: str, namespace: str = "", grace_seconds: int | None = None) -> Object:
        query = "" if grace_seconds is None else f"?gracePeriodSeconds={grace_seconds}"
        return self.request("DELETE", path_of(plural, namespace, name) + query)


def wait_for(what: str, look: Callable[[], Found | None], seconds: float = _PATIENCE_SECONDS) -> Found:
    """Look until there is something to see; a bound with a name, never a blind sleep."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = look()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"waited {seconds:.0f} s in vain for {what}")
