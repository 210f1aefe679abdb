"""A Kubernetes API server behind the door: requests become HTTP, answers become replies.

Decides paging, retries and what a lost reply means. Reads are repeated once when a connection broke; a write is never
repeated unless the server said that it did nothing (401 with new credentials, 429). What to read and write is decided
elsewhere.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

from kubectl_runs import __version__
from kubectl_runs.store import status
from kubectl_runs.store.access import Access
from kubectl_runs.store.credentials import Credentials, Proof
from kubectl_runs.store.http import Answer, Connections, Headers, NoAnswer, NotSent
from kubectl_runs.store.protocol import (
    Change,
    Conflict,
    Gone,
    Invalid,
    List,
    MayI,
    Object,
    Patch,
    Reply,
    Request,
    StoreError,
    TooMany,
    Unauthorized,
    Unavailable,
    Unknown,
)
from kubectl_runs.store.rest import JSON, collection, dump, encode, query
from kubectl_runs.store.watching import watch_events
from kubectl_runs.wire.kinds import POD, Kind

PAGE = 500
ROWS = 5000  # of a table, which are short
TABLE = f"{JSON};as=Table;v=v1;g=meta.k8s.io"
READ_SECONDS = 60.0
THREADS = 16
CALLS_PER_CONNECTION = 3  # opening one takes as long as three calls on one that is open
LISTS_MAX = 3  # a list whose pages expire is begun again this often
RETRIES_MAX = 5  # of a 429
RETRY_SECONDS_MAX = 10


class ClusterStore:
    """The real thing. Safe to use from many threads."""

    def __init__(self, access: Access, *, request_timeout: float = 0, threads: int = THREADS) -> None:
        self.access = access
        self.namespace = access.namespace
        self._seconds = request_timeout or READ_SECONDS
        self._threads = threads
        self._credentials = Credentials(access)
        self._lock = threading.Lock()
        self._connections: Connections | None = None
        self._headers = (("User-Agent", f"kubectl-runs/{__version__}"), *access.impersonation())

    @property
    def name(self) -> str:
        return self.access.context or self.access.server

    def perform(self, request: Request) -> Reply:
        """Carry out one request."""
        match request:
            case List():
                return self._list(request)
            case MayI():
                return self._may_i(request)
            case _:
                method, target, body, content_type = encode(request)
                try:
                    answer = self._call(method, target, body, content_type)
                except Invalid as error:
                    raise _uid_conflict(request, error) from error
                return _reply(answer, status.parse(answer.body))

    def perform_all(self, requests: Sequence[Request]) -> list[Reply | StoreError]:
        """Carry out many, up to `threads` at a time."""
        outcomes: list[Reply | StoreError] = [Unknown("not begun")] * len(requests)
        turn = itertools.count()
        faults: list[Exception] = []

        def work() -> None:
            while (index := next(turn)) < len(requests) and not faults:
                try:
                    outcomes[index] = self.perform(requests[index])
                except StoreError as error:
                    outcomes[index] = error
                except Exception as error:  # a fault of ours must not end unseen in a thread
                    faults.append(error)

        at_once = min(self._threads, -(-len(requests) // CALLS_PER_CONNECTION))
        workers = [threading.Thread(target=work, daemon=True) for _ in range(at_once - 1)]
        for worker in workers:
            worker.start()
        work()
        for worker in workers:
            worker.join()
        if faults:
            raise faults[0]
        return outcomes

    def watch(
        self,
        kind: Kind,
        namespace: str = "",
        *,
        resource_version: str = "",
        labels: str = "",
        fields: str = "",
        seconds: int = 300,
    ) -> Iterator[Change]:
        """Changes in order; a cut connection is taken up again where it broke."""
        options = query(labelSelector=labels, fieldSelector=fields, watch="1", allowWatchBookmarks="true")
        return watch_events(self._stream, f"{collection(kind, namespace)}?{options}", resource_version, seconds)

    def logs(
        self, namespace: str, pod: str, *, container: str = "", follow: bool = False, tail: int | None = None
    ) -> Iterator[str]:
        """The lines a pod printed; with `follow` until it ends."""
        tail_lines = "" if tail is None else str(tail)
        options = query(container=container, follow="true" if follow else "", tailLines=tail_lines)
        silence_seconds = 24 * 3600.0 if follow else self._seconds
        lines = self._stream(f"{collection(POD, namespace)}/{quote(pod)}/log?{options}", silence_seconds)
        try:
            for line in lines:
                yield line.decode("utf-8", "replace").rstrip("\r\n")
        except NoAnswer as error:
            raise Unavailable(f"the log of pod {namespace}/{pod} broke off: {error}") from error

    def now(self) -> int:
        """The server's clock: the Date header of its cheapest page, which everybody may read."""
        return self._call("GET", "/version").server_time

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def close(self) -> None:
        if self._connections:
            self._connections.close()

    def _list(self, request: List) -> Reply:
        for attempt in itertools.count(1):
            try:
                replies = list(self.pages(request))
                items = [item for reply in replies for item in reply.items]
                last = replies[-1]
                return Reply(server_time=last.server_time, items=items, resource_version=last.resource_version)
            except Gone:
                if attempt == LISTS_MAX:
                    raise
        raise AssertionError("unreachable")

    def rows(self, request: List, columns: Sequence[str]) -> Iterator[list[list[Any]]]:
        """The cells of some columns of `kubectl get`, page by page: a tenth of the objects' bytes and of their cost.

        `Invalid` if the server's definition of the kind has no such column: then the objects have to be read.
        """
        token = ""
        while True:
            options = query(
                limit=str(ROWS),
                labelSelector=request.labels,
                fieldSelector=request.fields,
                includeObject="None",
                **{"continue": token},
            )
            target = f"{collection(request.kind, request.namespace)}?{options}"
            table = status.parse(self._call("GET", target, accept=TABLE).body)
            places = {column["name"]: index for index, column in enumerate(table.get("columnDefinitions") or ())}
            if not places.keys() >= set(columns):
                raise Invalid(f"{request.kind.plural} have no columns {', '.join(columns)}")
            order = [places[column] for column in columns]
            yield [[row["cells"][index] for index in order] for row in table.get("rows") or ()]
            token = (table.get("metadata") or {}).get("continue") or ""
            if not token:
                return

    def pages(self, request: List) -> Iterator[Reply]:
        """One version of the world page by page, for who folds as they arrive; `Gone` when the server forgot it.

        The server's `continue` holds the version of the first page.
        """
        token = ""
        while True:
            options = query(
                limit=str(PAGE), labelSelector=request.labels, fieldSelector=request.fields, **{"continue": token}
            )
            answer = self._call("GET", f"{collection(request.kind, request.namespace)}?{options}")
            page = status.parse(answer.body)
            token = (page.get("metadata") or {}).get("continue") or ""
            yield Reply(
                server_time=answer.server_time,
                items=_named(request.kind, page.get("items") or []),
                resource_version=str((page.get("metadata") or {}).get("resourceVersion") or ""),
            )
            if not token:
                return

    def _may_i(self, request: MayI) -> Reply:
        group = request.kind.api_version.rpartition("/")[0]
        attributes = {"verb": request.verb, "group": group, "resource": request.kind.plural}
        attributes |= {"subresource": request.subresource} if request.subresource else {}
        attributes |= {"namespace": request.namespace} if request.namespace else {}
        review: Object = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        # A review changes nothing, so it is repeated like a read.
        answer = self._call(
            "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", dump(review), writes=False
        )
        review = status.parse(answer.body)
        allowed = (review.get("status") or {}).get("allowed") is True
        return Reply(server_time=answer.server_time, object=review, allowed=allowed)

    def _call(
        self,
        method: str,
        target: str,
        body: bytes = b"",
        content_type: str = JSON,
        *,
        writes: bool | None = None,
        accept: str = JSON,
    ) -> Answer:
        """One request until it has an answer that stands; raises the typed error of a refusal."""
        writes = method != "GET" if writes is None else writes
        refreshed = False
        for attempt in itertools.count(1):
            proof = self._credentials.proof()
            headers = [("Accept", accept), *self._headers, *self._credentials.headers(proof)]
            headers += [("Accept-Encoding", "gzip")]
            headers += [("Content-Type", content_type)] if body else []
            answer = self._exchange(method, target, headers, body, writes=writes)
            if answer.status < 300:
                return answer
            error = status.error_of(answer, writes=writes)
            if isinstance(error, Unauthorized) and not refreshed and self._refresh(proof):
                refreshed = True
            elif isinstance(error, TooMany) and attempt <= RETRIES_MAX:
                time.sleep(min(error.details.get("retryAfterSeconds") or 1, RETRY_SECONDS_MAX))
            else:
                raise error
        raise AssertionError("unreachable")

    def _exchange(self, method: str, target: str, headers: Headers, body: bytes, *, writes: bool) -> Answer:
        """One request, and what a missing answer to it means."""
        for again in (not writes, False):
            try:
                return self._connect().exchange(method, target, headers, body)
            except NotSent as error:
                raise Unavailable(f"no connection to {self.name}: {error}") from error
            except NoAnswer as error:
                if writes:
                    raise Unknown(f"the reply to {method} {target.partition('?')[0]} was lost: {error}") from error
                if not again:
                    raise Unavailable(f"no answer from {self.name}: {error}") from error
        raise AssertionError("unreachable")

    def _stream(self, target: str, silence_seconds: float) -> Iterator[bytes]:
        headers = (("Accept", JSON), *self._headers, *self._credentials.headers(self._credentials.proof()))
        try:
            answer, lines = self._connect().stream("GET", target, headers, silence_seconds)
        except (NotSent, NoAnswer) as error:
            raise Unavailable(f"no connection to {self.name}: {error}") from error
        if answer.status >= 300:
            raise status.error_of(answer, writes=False)
        return lines

    def _connect(self) -> Connections:
        with self._lock:
            if self._connections is None:
                self._connections = Connections(self._credentials.endpoint(), self._seconds)
            return self._connections

    def _refresh(self, refused: Proof) -> bool:
        """After a 401: fetch new credentials, if there is a way to; their certificate needs new connections."""
        with self._lock:
            if not self._credentials.refresh(refused):
                return False
            self._connections = None
            return True


def _reply(answer: Answer, value: Object) -> Reply:
    version = str((value.get("metadata") or {}).get("resourceVersion") or "")
    return Reply(server_time=answer.server_time, object=value, resource_version=version)


def _named(kind: Kind, items: list[Object]) -> list[Object]:
    """Built-in kinds leave `kind` and `apiVersion` out of a list's items; with them an object can stand alone."""
    for item in items:
        item.setdefault("apiVersion", kind.api_version)
        item.setdefault("kind", kind.name)
    return items


def _uid_conflict(request: Request, error: StoreError) -> StoreError:
    """A patch for another UID: the server calls it an immutable field, the door calls it a conflict."""
    causes = error.details.get("causes") or ()
    if not isinstance(request, Patch) or not any(cause.get("field") == "metadata.uid" for cause in causes):
        return error
    conflict = Conflict(error.message, details=error.details)
    conflict.server_time = error.server_time
    return conflict
