"""The commit: creating the entry with the next number (6.4). Exactly one writer wins a number.

Decides whether a draft is in the ledger, has to be planned again, or nobody knows. It never plans itself.
"""

from __future__ import annotations

from kubectl_runs.commit.draft import Draft, entry_object
from kubectl_runs.commit.steps import Means, Steps, Wait, try_one
from kubectl_runs.commit.touches import Surroundings, may_rebase
from kubectl_runs.errors import OutcomeUnknown
from kubectl_runs.read import Reading, catch_up, extend
from kubectl_runs.store.protocol import (
    AlreadyExists,
    Create,
    Forbidden,
    Get,
    Invalid,
    NotFound,
    Object,
    Reply,
    StoreError,
    Unavailable,
    Unknown,
)
from kubectl_runs.wire import encode
from kubectl_runs.wire.kinds import LEDGER_ENTRY
from planner.fold import open_leases, opened_leases
from planner.model import Entry
from planner.values import dataclass

READ_BACKS_MAX = 6
REBASES_MAX = 200
PAUSE_SECONDS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """It is in the ledger, and `reading` includes it."""

    entry: Entry
    reading: Reading


@dataclass(frozen=True, slots=True, kw_only=True)
class Overtaken:
    """Others came first and touched it: plan again, from a reading that includes them."""

    reading: Reading


@dataclass(frozen=True, slots=True, kw_only=True)
class Stale:
    """Admission refused it: too long after `readAt`, before it, or at or below `floor`. Read and plan again."""

    error: StoreError


def append(draft: Draft, reading: Reading, means: Means) -> Steps[Appended | Overtaken | Stale]:
    """6.4: create entry tip+1; rebase while nothing that came between touches it."""
    for _ in range(REBASES_MAX):
        # 6.4: a new nonce for each number, so that what is read back can be told from anybody else's.
        nonce = means.nonce()
        number = reading.tip.seq + 1
        body = entry_object(draft, seq=number, prev=reading.tip.digest, nonce=nonce, read_at=reading.read_at)
        mine = yield from create_once(body, nonce)
        if isinstance(mine, StoreError):
            return Stale(error=mine)
        if mine is not None:
            extended, (entry,) = extend(reading, (mine,))
            return Appended(entry=entry, reading=extended)
        before = reading
        reading, between = yield from catch_up(reading)
        if between and between[0].nonce == nonce:
            # A copy of it had landed although no reply said so: the number was taken by myself.
            return Appended(entry=between[0], reading=reading)
        if not may_rebase(draft, between, _surroundings(before, between)):
            return Overtaken(reading=reading)
    return Overtaken(reading=reading)


def _surroundings(reading: Reading, between: tuple[Entry, ...]) -> Surroundings:
    leases = open_leases(reading.snapshot) | {lease.key: lease for lease in opened_leases(between)}
    recorded = [budget for entry in between for budget in entry.budgets]
    return Surroundings.of(leases, (*reading.snapshot.budgets, *recorded))


def create_once(body: Object, nonce: str) -> Steps[Object | StoreError | None]:
    """One number: my entry as the server keeps it, None if the number is taken, or admission's refusal.

    A lost reply is resolved by reading the number back and comparing the nonce. Where the number is still free the
    same body is sent again: whichever copy lands is mine, and no late copy can land beside it.
    """
    unknown = False
    for turn in range(READ_BACKS_MAX):
        if turn:
            yield Wait(PAUSE_SECONDS * turn)
        outcome = yield from try_one(Create(kind=LEDGER_ENTRY, object=body))
        if isinstance(outcome, Reply):
            return outcome.object
        if isinstance(outcome, AlreadyExists):
            return None  # whose it is, the reader of the number learns from its nonce
        refused = isinstance(outcome, Invalid | Forbidden)
        if refused and not unknown:
            return outcome
        if not refused and not isinstance(outcome, Unknown | Unavailable):
            raise outcome
        unknown = unknown or isinstance(outcome, Unknown)
        found = yield from try_one(Get(kind=LEDGER_ENTRY, name=body["metadata"]["name"]))
        if isinstance(found, Reply):
            return found.object if found.object["spec"].get("nonce") == nonce else None
        if isinstance(found, NotFound) and refused:
            return outcome  # admission refuses a late copy as it refused this one
    if not unknown:
        raise Unavailable(f"ledger entry {body['metadata']['name']} could not be written: no answer from the server")
    number = int(body["metadata"]["name"])
    # 6.4: while it is unknown the command says so and exits 75, never "failed".
    raise OutcomeUnknown(
        f"ledger entry {encode.entry_name(number)} was sent and no reply came: the outcome is unknown",
        hint="run the same command again, it reads the ledger first",
    )
