"""One door to the objects: requests as values, replies with the server's time, errors with a type.

A request says what is wanted and nothing about how; `ClusterStore` sends it to a Kubernetes API server,
`SandboxStore` carries it out in one SQLite file, `SnapshotStore` answers the reading ones from a file. The commit
protocol yields these values and receives replies, so that the same code runs against a server, the sandbox and the
simulator. Objects are plain JSON (dicts) as the API server speaks it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from typing import Any, Protocol

from kubectl_runs.wire.kinds import Kind
from planner.values import dataclass

Object = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Get:
    """One object by name, read directly (never from a cache)."""

    kind: Kind
    name: str
    namespace: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class List:
    """All objects of a kind, consistent and complete: the store pages. No namespace: all of them."""

    kind: Kind
    namespace: str = ""
    labels: str = ""
    fields: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    """Create if absent; `AlreadyExists` otherwise. The namespace is the object's own."""

    kind: Kind
    object: Object = field(hash=False)
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Replace:
    """Replace the object if its `metadata.resourceVersion` is still current; `Conflict` otherwise."""

    kind: Kind
    object: Object = field(hash=False)
    subresource: str = ""  # "status"
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """A JSON merge patch; a `metadata.resourceVersion` or `metadata.uid` in it is a precondition."""

    kind: Kind
    name: str
    namespace: str = ""
    patch: Object = field(hash=False)
    subresource: str = ""
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Delete the object if its UID is still this one; `Conflict` otherwise."""

    kind: Kind
    name: str
    namespace: str = ""
    uid: str = ""
    grace_seconds: int | None = None  # None: the object's own
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Bind:
    """Bind a prepared pod, found by name and UID, to a node; `Conflict` if it is another, bound or terminating."""

    namespace: str
    pod: str
    uid: str
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MayI:
    """Does the server's authorizer let me do this?"""

    verb: str
    kind: Kind
    namespace: str = ""
    subresource: str = ""


Request = Get | List | Create | Replace | Patch | Delete | Bind | MayI


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What came back. `server_time` is the server's clock, in whole Unix seconds."""

    server_time: int
    object: Object = field(default_factory=dict)
    items: Sequence[Object] = ()
    resource_version: str = ""
    allowed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One event of a watch: ADDED, MODIFIED, DELETED, or BOOKMARK (only `resource_version` counts)."""

    type: str
    object: Object


class StoreError(Exception):
    """A request that was not carried out, or whose outcome is unknown."""

    code = 0

    def __init__(self, message: str, *, reason: str = "", details: Object | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason or type(self).__name__
        self.details = details or {}
        self.server_time: int | None = None


NO_SUCH_KIND = "404 page not found"  # what an API server says of a kind that nobody installed


class NotFound(StoreError):
    code = 404


class AlreadyExists(StoreError):
    """409 on a create: the name is taken."""

    code = 409


class Conflict(StoreError):
    """409 on anything else: the object has moved on."""

    code = 409


class Gone(StoreError):
    """410: the resourceVersion of a watch or a page is too old; list again."""

    code = 410


class Invalid(StoreError):
    """422 or 400: the object breaks a rule of its schema, or an admission policy's."""

    code = 422


class Forbidden(StoreError):
    """403: no right, or an admission policy, a quota or pod security said no."""

    code = 403


class Unauthorized(StoreError):
    code = 401


class TooMany(StoreError):
    """429, after the store's own retries."""

    code = 429


class Unknown(StoreError):
    """No reply: the write may or may not have happened. Read back before claiming either."""


class Unavailable(StoreError):
    """The request certainly did not happen: nobody answered, or 5xx before anything was done."""

    code = 503


class ReadOnly(StoreError):
    """A write on a snapshot file."""


def perform_in_turn(perform: Callable[[Request], Reply], requests: Sequence[Request]) -> list[Reply | StoreError]:
    """Carry out many, one after another; errors as values."""
    outcomes: list[Reply | StoreError] = []
    for request in requests:
        try:
            outcomes.append(perform(request))
        except StoreError as error:
            outcomes.append(error)
    return outcomes


class Store(Protocol):
    """A cluster, the sandbox, or a file."""

    def perform(self, request: Request) -> Reply:
        """Carry out one request; raises a `StoreError`."""

    def perform_all(self, requests: Sequence[Request]) -> list[Reply | StoreError]:
        """Carry out many, in parallel where that helps; outcomes in the order asked, errors as values."""

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
        """Changes after `resource_version`, in order, until `seconds` have passed; `Gone` when it is too old."""

    def logs(
        self, namespace: str, pod: str, *, container: str = "", follow: bool = False, tail: int | None = None
    ) -> Iterator[str]:
        """The lines a pod printed."""

    def now(self) -> int:
        """The server's clock, asked for afresh."""

    def sleep(self, seconds: float) -> None:
        """Let time pass: really on a cluster, by the virtual clock in a sandbox that stands still."""

    @property
    def name(self) -> str:
        """For people: the context, the sandbox's file, the snapshot's file."""
