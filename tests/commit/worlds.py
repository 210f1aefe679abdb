"""Small worlds for tests of single rules: a sandbox in memory, and a way to answer a protocol step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from typing import TypeVar

from kubectl_runs.commit.steps import Batch, Means, Outcome, Steps, Wait, drive
from kubectl_runs.commit.submit import Submitted, submit
from kubectl_runs.read import Reading, read
from kubectl_runs.store.protocol import Create, Get, List, Object, Reply, Request, StoreError
from kubectl_runs.store.sandbox import SandboxStore
from kubectl_runs.wire.kinds import BY_NAME, LEASE, LEDGER, LEDGER_ENTRY, POD, RUN, Kind
from tests.commit.simulation import NAMESPACE_NAME, manifest, world

T = TypeVar("T")

KEY = f"{NAMESPACE_NAME}/a"


_numbers = count(1)


def means() -> Means:
    """Nonces that no other client of this process has."""
    return Means(nonce=lambda: f"{next(_numbers):032x}", jitter=lambda: 0.0)


def sandbox(**fields: int) -> SandboxStore:
    """A team with two nodes of four GPUs and a budget of six."""
    store = SandboxStore.empty(":memory:")
    for obj in world(**fields):
        store.perform(Create(kind=BY_NAME[obj["kind"]], object=obj))
    return store


def submitted(store: SandboxStore, name: str = "a", gpus: int = 2, **spec: object) -> Submitted:
    return drive(submit(manifest(name, gpus, **spec), means()), store)  # type: ignore[arg-type]


def reading(store: SandboxStore, *keys: str) -> Reading:
    return drive(read(runs=keys), store)


def entries(store: SandboxStore) -> list[Object]:
    return [entry["spec"] for entry in store.perform(List(kind=LEDGER_ENTRY)).items]


def leases(store: SandboxStore) -> list[Object]:
    return list(store.perform(List(kind=LEASE)).items)


def pods(store: SandboxStore) -> list[Object]:
    return list(store.perform(List(kind=POD)).items)


def run_object(store: SandboxStore, name: str = "a") -> Object:
    return store.perform(Get(kind=RUN, namespace=NAMESPACE_NAME, name=name)).object


def base(store: SandboxStore) -> Object:
    found: Object = store.perform(Get(kind=LEDGER, name="base")).object["spec"]
    return found


class Interceptor:
    """Runs a protocol on a store, but lets a test answer chosen requests itself, and keeps what was asked."""

    def __init__(self, store: SandboxStore, answer: Callable[[Request], Outcome | None] = lambda _: None) -> None:
        self.store = store
        self.answer = answer
        self.batches: list[Batch] = []
        self.waited = 0.0

    def run(self, steps: Steps[T]) -> T:
        try:
            asked = next(steps)
            while True:
                asked = steps.send(self._outcomes(asked))
        except StopIteration as ended:
            value: T = ended.value
            return value

    def _outcomes(self, asked: Batch | Wait) -> tuple[Outcome, ...]:
        if isinstance(asked, Wait):
            self.waited += asked.seconds
            self.store.sleep(asked.seconds)
            return ()
        self.batches.append(asked)
        return tuple(self._outcome(request) for request in asked)

    def _outcome(self, request: Request) -> Outcome:
        given = self.answer(request)
        if given is not None:
            return given
        try:
            return self.store.perform(request)
        except StoreError as error:
            return error

    @property
    def asked(self) -> list[Request]:
        return [request for batch in self.batches for request in batch]


def creates(kind: Kind, requests: Iterable[Request]) -> list[Object]:
    return [request.object for request in requests if isinstance(request, Create) and request.kind == kind]


def once(matches: Callable[[Request], bool], outcome: Outcome) -> Callable[[Request], Outcome | None]:
    """Answers the first request that matches, and no other."""
    left = [outcome]
    return lambda request: left.pop() if left and matches(request) else None


def appends(request: Request) -> bool:
    return isinstance(request, Create) and request.kind == LEDGER_ENTRY


def reply(value: Object | None = None) -> Reply:
    return Reply(server_time=0, object=value or {})
