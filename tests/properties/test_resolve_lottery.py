"""R4: nobody chooses the victim, however many names and times are tried beforehand."""

from __future__ import annotations

import hashlib
from collections import Counter

from planner import draw
from planner.model import Entry, EntryKind, Freeze, Reservation, Token

NAMES = 100_000
TOKENS = tuple(Token(owner=f"org:{name}", run=f"ns/{name}", gpus=8) for name in "abcd")
FREEZE = Freeze(algorithm=draw.ALGORITHM, flavor="H100", nodes=("n1",), deficit_gpus=8, tokens=TOKENS)
CHI_SQUARE_3 = 30.66  # passed by chance once in a million


def promise(number: int) -> Reservation:
    """Name and time as the grinder likes them."""
    return Reservation(
        namespace="ns",
        name=f"big-{number}",
        uid=f"uid-{number}",
        run_name=f"big-{number}",
        run_uid="run",
        gpus=8,
        earliest_start=1_767_614_400 + number % 900,
    )


def frozen(uid: str) -> Entry:
    return Entry(
        seq=1,
        prev="",
        digest="sha256:" + "5" * 64,
        nonce="",
        read_at=0,
        time=0,
        created_at=0,
        created_at_raw="2026-01-05T12:00:01Z",
        uid=uid,
        kind=EntryKind.FREEZE,
        freeze=FREEZE,
    )


def first_pick(seed: bytes) -> str:
    """Four owners with one token each: the first of the two draws decides."""
    return TOKENS[draw.draw(seed, 1, len(TOKENS))].run


def chi_square(seen: Counter[str]) -> float:
    fair = sum(seen.values()) / len(TOKENS)
    return sum((seen[token.run] - fair) ** 2 / fair for token in TOKENS)


def test_grinding_names_and_times_gives_no_influence() -> None:
    """The grinder keeps the names whose draw would spare a friend by everything it can know before the freeze is
    appended; the server's UID for the entry comes after, and with it the victims are as fair as without grinding."""
    kept = [
        number
        for number in range(NAMES)
        if first_pick(draw.reservation_seed(frozen("guess"), promise(number))) != "ns/a"
    ]
    assert abs(len(kept) - NAMES * 3 / 4) < 1_500  # it could choose, if that were the seed
    drawn: Counter[str] = Counter()
    for number in kept:
        uid = hashlib.sha256(b"server %d" % number).hexdigest()[:32]
        drawn[first_pick(draw.reservation_seed(frozen(uid), promise(number)))] += 1
    assert chi_square(drawn) < CHI_SQUARE_3


def test_first_pick_shortcut_is_the_first_of_the_whole_order() -> None:
    for number in range(200):
        seed = draw.reservation_seed(frozen("guess"), promise(number))
        assert draw.order(seed, TOKENS)[0].run == first_pick(seed)


def test_example_never_uses_the_seed_that_will_count() -> None:
    example = draw.provisional_seed(FREEZE, promise(1))
    assert example not in {draw.reservation_seed(frozen(str(uid)), promise(1)) for uid in range(1000)}
