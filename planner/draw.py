"""The attested lottery: what follows from a seed and a frozen list (R3, R4).

It decides the order in which tokens are drawn and nothing else: who holds a token, how many of them are taken and who
is given back is the resolver's. Everything here can be recomputed by a third party from public objects alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from planner.digest import canonical
from planner.instants import rfc3339
from planner.model import Budget, Chance, Entry, Freeze, Reservation, Token

ALGORITHM = "two-stage/1"
_WORD = 2**64 - 1  # the largest number that fits 8 bytes


def seed_of(
    freeze: Entry, *, namespace: str, name: str, uid: str, earliest_start: str, algorithm: str = ALGORITHM
) -> bytes:
    """The seed of a frozen entry (R4).

    The entry's UID and creation time are given by the server after its content is fixed, so nobody chooses the seed.
    """
    facts = [algorithm, namespace, name, uid, earliest_start, freeze.digest, freeze.uid, freeze.created_at_raw]
    return hashlib.sha256(canonical(facts).encode()).digest()


def reservation_seed(freeze: Entry, reservation: Reservation) -> bytes:
    """The seed of a lottery that a reservation holds."""
    return seed_of(
        freeze,
        namespace=reservation.namespace,
        name=reservation.name,
        uid=reservation.uid,
        earliest_start=_start_text(reservation),
        algorithm=_algorithm(freeze),
    )


def budget_seed(freeze: Entry, budget: str) -> bytes:
    """The seed of a lottery that a tightened budget holds (R6): it has a name, but no namespace and no promise."""
    return seed_of(freeze, namespace="", name=budget, uid="", earliest_start="", algorithm=_algorithm(freeze))


def provisional_seed(freeze: Freeze, subject: Reservation | Budget) -> bytes:
    """The seed of an example (R4): what is known before the freeze, so it shows how, never whom."""
    tokens = [[token.owner, token.run, token.gpus] for token in freeze.tokens]
    if isinstance(subject, Budget):
        about = ["", subject.name, "", ""]
    else:
        about = [subject.namespace, subject.name, subject.uid, _start_text(subject)]
    facts = [freeze.algorithm, *about, freeze.flavor, list(freeze.nodes), freeze.deficit_gpus, tokens]
    return hashlib.sha256(canonical(facts).encode()).digest()


def draw(seed: bytes, number: int, among: int) -> int:
    """Draw `number` among that many, uniformly: numbers past the largest multiple are tried again, else the first
    ones would be a little likelier (R4)."""
    limit = _WORD // among * among
    attempt = 0
    while True:
        drawn = hashlib.sha256(seed + number.to_bytes(8, "big") + attempt.to_bytes(4, "big")).digest()
        x = int.from_bytes(drawn[:8], "big")
        if x < limit:
            return x % among
        attempt += 1


def frozen(tokens: Iterable[Token]) -> tuple[Token, ...]:
    """The conflict set as it is frozen: by owner, then key (R4)."""
    return tuple(sorted(tokens, key=lambda token: (token.owner, token.run)))


def order(seed: bytes, tokens: Iterable[Token]) -> tuple[Token, ...]:
    """The whole order of draws (R3, R4): owner, then one of its tokens, two draws a pick, until none is left."""
    remaining: dict[str, list[Token]] = {}
    for token in frozen(tokens):
        remaining.setdefault(token.owner, []).append(token)
    picks: list[Token] = []
    number = 1
    while remaining:
        owners = sorted(remaining)
        owner = owners[draw(seed, number, len(owners))]
        held = remaining[owner]
        picks.append(held.pop(draw(seed, number + 1, len(held))))
        if not held:
            del remaining[owner]
        number += 2
    return tuple(picks)


def chances(tokens: Iterable[Token]) -> tuple[Chance, ...]:
    """Each token's chance at the first draw: one among the owners, then one among the owner's tokens (R3)."""
    listed = frozen(tokens)
    held: dict[str, int] = {}
    for token in listed:
        held[token.owner] = held.get(token.owner, 0) + 1
    return tuple(Chance(token=token, chance=f"1/{len(held) * held[token.owner]}") for token in listed)


def _algorithm(freeze: Entry) -> str:
    return freeze.freeze.algorithm if freeze.freeze else ALGORITHM


def _start_text(reservation: Reservation) -> str:
    return "" if reservation.earliest_start is None else rfc3339(reservation.earliest_start)
