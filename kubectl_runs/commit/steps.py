"""How the protocol speaks to the world: it yields requests and is sent outcomes.

A protocol function is a generator. It yields a batch of requests that may go out in parallel, in any order, and is
sent as many outcomes; or it yields a `Wait`. It has no store, clock or randomness of its own, so the same code runs
on a cluster, in the sandbox and in the simulator, which crashes it between any two steps.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator, Sequence
from typing import TypeVar

from kubectl_runs.store.protocol import Reply, Request, Store, StoreError
from planner.values import dataclass

T = TypeVar("T")

Outcome = Reply | StoreError
Batch = tuple[Request, ...]


@dataclasses.dataclass(frozen=True, slots=True)  # not a value: its one field needs no name
class Wait:
    """Let this much time pass before going on."""

    seconds: float


Steps = Generator[Batch | Wait, tuple[Outcome, ...], T]


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What a protocol may not make up itself: names nobody else has, and somebody to tell what is going on."""

    nonce: Callable[[], str]  # 32 hex digits, never the same twice
    jitter: Callable[[], float] = lambda: 0.5  # in [0, 1): spreads those who lost the same number
    say: Callable[[str], None] = lambda _: None  # progress, for stderr


def drive(steps: Steps[T], store: Store) -> T:
    """Run a protocol on a store to its end."""
    try:
        asked = next(steps)
        while True:
            asked = steps.send(_carry_out(asked, store))
    except StopIteration as ended:
        result: T = ended.value
        return result


def _carry_out(asked: Batch | Wait, store: Store) -> tuple[Outcome, ...]:
    if isinstance(asked, Wait):
        store.sleep(asked.seconds)
        return ()
    if len(asked) == 1:
        try:
            return (store.perform(asked[0]),)
        except StoreError as error:
            return (error,)
    return tuple(store.perform_all(asked)) if asked else ()


def try_one(request: Request) -> Steps[Outcome]:
    """One request; its error is a value."""
    (outcome,) = yield (request,)
    return outcome


def must(request: Request) -> Steps[Reply]:
    """One request that has to succeed; its error is raised."""
    return good((yield from try_one(request)))


def good(outcome: Outcome) -> Reply:
    """The reply; an error is raised."""
    if isinstance(outcome, StoreError):
        raise outcome
    return outcome


def all_of(requests: Sequence[Request]) -> Steps[tuple[Outcome, ...]]:
    """Many at once; nothing is asked if there is nothing to ask."""
    if not requests:
        return ()
    return (yield tuple(requests))
