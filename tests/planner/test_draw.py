"""R3 and R4: the lottery's arithmetic. The golden vectors below are the published standard: they never change."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from planner import draw
from planner.model import Budget, Entry, EntryKind, Freeze, Reservation, Token

ZEROS, ONES, COUNTED = "00" * 32, "ff" * 32, "0123456789abcdef" * 4

# seed, number of the draw, among how many, what is drawn. Made by other code than the one tested here.
GOLDEN_DRAWS = [
    (ZEROS, 1, 4, 3),
    (ZEROS, 2, 3, 1),
    (ZEROS, 3, 1, 0),
    (ZEROS, 7, 1000, 583),
    (ZEROS, 2**40, 7, 5),
    (ZEROS, 5, 2**63 + 1, 9169247502731607257),
    (ONES, 1, 4, 3),
    (ONES, 7, 1000, 441),
    (ONES, 5, 2**63 + 1, 5282765258912942718),  # the second try
    (COUNTED, 1, 4, 2),
    (COUNTED, 2**40, 7, 5),
    (COUNTED, 5, 2**63 + 1, 6241588339747619099),  # the third try
]

# The upper 0.0001 % point of chi-square, by degrees of freedom: a fair draw passes it once in a million suites.
CHI_SQUARE = {3: 30.66, 5: 35.89}


def token(name: str, gpus: int = 8) -> Token:
    owner, run = name.split(" ")
    return Token(owner=owner, run=run, gpus=gpus)


def tokens(*names: str) -> tuple[Token, ...]:
    return tuple(token(name) for name in names)


def reservation(name: str = "big", start: int | None = 1_767_614_400) -> Reservation:
    return Reservation(
        namespace="rai", name=name, uid="res-uid", run_name=name, run_uid="run-uid", gpus=32, earliest_start=start
    )


def freeze_entry(uid: str = "freeze-uid", raw: str = "2026-01-05T12:00:01Z") -> Entry:
    frozen = Freeze(
        algorithm="two-stage/1", flavor="H100", nodes=("n1",), deficit_gpus=8, tokens=tokens("org:a a/x", "org:b b/y")
    )
    return Entry(
        seq=41,
        prev="sha256:" + "1" * 64,
        digest="sha256:" + "2" * 64,
        nonce="0" * 32,
        read_at=0,
        time=0,
        created_at=0,
        created_at_raw=raw,
        uid=uid,
        kind=EntryKind.FREEZE,
        freeze=frozen,
    )


@pytest.mark.parametrize(("seed", "number", "among", "drawn"), GOLDEN_DRAWS)
def test_draw_golden_vector_never_changes(seed: str, number: int, among: int, drawn: int) -> None:
    assert draw.draw(bytes.fromhex(seed), number, among) == drawn


def test_draw_past_largest_multiple_takes_next_try() -> None:
    seed, number, among = bytes.fromhex(ONES), 5, 2**63 + 1
    tries = [hashlib.sha256(seed + number.to_bytes(8, "big") + bytes([0, 0, 0, n])).digest()[:8] for n in (0, 1)]
    first, second = (int.from_bytes(x, "big") for x in tries)
    assert first >= among  # the largest multiple that fits 8 bytes is `among` itself
    assert draw.draw(seed, number, among) == second % among


def test_seed_golden_vector_never_changes() -> None:
    text = (
        '["two-stage/1","rai","big","res-uid","2026-01-05T12:00:00Z",'
        '"sha256:' + "2" * 64 + '","freeze-uid","2026-01-05T12:00:01Z"]'
    )
    expected = hashlib.sha256(text.encode()).hexdigest()
    assert draw.reservation_seed(freeze_entry(), reservation()).hex() == expected
    assert expected == "6df0ac2956b844c306b6c2f4f1f8758bc2e96184325ebfdbcc42e38ff242213e"


def test_seed_of_budget_has_its_name_and_no_promise() -> None:
    text = '["two-stage/1","","rai","","","sha256:' + "2" * 64 + '","freeze-uid","2026-01-05T12:00:01Z"]'
    assert draw.budget_seed(freeze_entry(), "rai") == hashlib.sha256(text.encode()).digest()


@pytest.mark.parametrize(
    ("entry", "promise"),
    [
        (freeze_entry(uid="other"), reservation()),
        (freeze_entry(raw="2026-01-05T12:00:02Z"), reservation()),
        (replace(freeze_entry(), digest="sha256:" + "3" * 64), reservation()),
        (freeze_entry(), reservation(name="bigger")),
        (freeze_entry(), reservation(start=1_767_614_401)),
        (freeze_entry(), replace(reservation(), uid="another")),
        (freeze_entry(), replace(reservation(), namespace="bio")),
    ],
)
def test_seed_any_fact_changed_is_another_seed(entry: Entry, promise: Reservation) -> None:
    assert draw.reservation_seed(entry, promise) != draw.reservation_seed(freeze_entry(), reservation())


def test_order_golden_vector_never_changes() -> None:
    listed = tokens("org:a a/x", "org:a a/y", "org:b b/x", "org:c c/x", "org:c c/y", "org:c c/z")
    drawn = [t.run for t in draw.order(bytes.fromhex(COUNTED), listed)]
    assert drawn == ["a/y", "c/x", "a/x", "c/y", "b/x", "c/z"]


def test_order_one_owner_one_token_still_takes_two_draws() -> None:
    seed = bytes.fromhex(COUNTED)
    listed = tokens("org:a a/x", "org:b b/x", "org:b b/y", "org:b b/z")
    owners, picks, number = {"org:a": ["a/x"], "org:b": ["b/x", "b/y", "b/z"]}, [], 1
    while owners:
        owner = sorted(owners)[draw.draw(seed, number, len(owners))]
        picks.append(owners[owner].pop(draw.draw(seed, number + 1, len(owners[owner]))))
        owners = {name: held for name, held in owners.items() if held}
        number += 2
    assert [t.run for t in draw.order(seed, listed)] == picks
    assert number == 9


def test_order_input_permuted_is_the_same() -> None:
    seed = bytes.fromhex(ONES)
    listed = tokens("org:a a/x", "org:a a/y", "org:b b/x", "org:c c/x")
    assert draw.order(seed, listed) == draw.order(seed, reversed(listed))


def test_order_whole_list_is_drawn_each_once() -> None:
    """Seed and list fix the whole order, so what happens meanwhile changes no later pick (R4)."""
    listed = tokens("org:a a/x", "org:a a/y", "org:b b/x", "org:c c/x", "org:c c/y")
    whole = draw.order(bytes.fromhex(ZEROS), listed)
    assert len(whole) == len(listed)
    assert set(whole) == set(listed)


def test_first_pick_over_many_seeds_is_uniform_over_owners_then_tokens() -> None:
    listed = tokens("org:a a/x", "org:b b/x", "org:b b/y", "org:c c/x", "org:c c/y", "org:c c/z")
    seeds = 18_000
    seen = Counter(draw.order(hashlib.sha256(b"%d" % n).digest(), listed)[0].run for n in range(seeds))
    expected = {c.token.run: seeds // int(c.chance.removeprefix("1/")) for c in draw.chances(listed)}
    assert sum(expected.values()) == seeds
    chi_square = sum((seen[run] - count) ** 2 / count for run, count in expected.items())
    assert chi_square < CHI_SQUARE[5]


@pytest.mark.parametrize("number", [1, 2, 9, 2**33])
def test_draw_over_many_seeds_is_uniform(number: int) -> None:
    seeds = 8_000
    seen = Counter(draw.draw(hashlib.sha256(b"seed %d" % n).digest(), number, 4) for n in range(seeds))
    chi_square = sum((seen[side] - seeds / 4) ** 2 / (seeds / 4) for side in range(4))
    assert chi_square < CHI_SQUARE[3]


def test_chances_two_stages_are_owner_times_token() -> None:
    listed = tokens("org:bio c/z", "org:ai a/x", "org:ai a/y")
    assert [(c.token.run, c.chance) for c in draw.chances(listed)] == [("a/x", "1/4"), ("a/y", "1/4"), ("c/z", "1/2")]


def test_provisional_seed_differs_by_subject_and_set() -> None:
    entry = freeze_entry().freeze
    assert entry is not None
    other = replace(entry, tokens=entry.tokens[:1])
    budget = Budget(name="big", owner="org:a")
    seeds = {
        draw.provisional_seed(entry, reservation()),
        draw.provisional_seed(other, reservation()),
        draw.provisional_seed(entry, reservation(start=None)),
        draw.provisional_seed(entry, budget),
    }
    assert len(seeds) == 4


def test_vectors_on_the_page_are_the_golden_ones() -> None:
    """A third party goes by the page alone."""
    page = (Path(__file__).parents[2] / "docs" / "concepts" / "lottery.md").read_text()
    seeds = {"0…": ZEROS, "f…": ONES, "01…": COUNTED}
    rows = re.findall(r"^\| `([^`]+)` \| (\d+) \| (\d+) \| (\d+) \|$", page, re.MULTILINE)
    assert [(seeds[seed], int(k), int(n), int(drawn)) for seed, k, n, drawn in rows] == GOLDEN_DRAWS
    assert "\n    a/y c/x a/x c/y b/x c/z\n" in page
    assert draw.reservation_seed(freeze_entry(), reservation()).hex() in page
