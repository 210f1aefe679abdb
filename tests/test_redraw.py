"""A third party redraws a lottery: with the page's JavaScript, and with a few lines that share no code with ours."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
LEDGER = ROOT / "tests" / "golden" / "files" / "ledger.json"
PAGE = ROOT / "docs" / "concepts" / "verify.md"


def items(kind: str) -> list[Any]:
    return [item for item in json.loads(LEDGER.read_text())["items"] if item["kind"] == kind]


def recorded() -> tuple[Any, Any]:
    """The Cut of the golden ledger and the Freeze it draws from."""
    entries = {item["spec"]["seq"]: item for item in items("LedgerEntry")}
    (cut,) = [item for item in entries.values() if "draw" in item["spec"]]
    return cut, entries[cut["spec"]["draw"]["freeze"]]


def redraw(cut: Any, freeze: Any) -> tuple[str, list[str]]:
    """Steps 1 to 3 of the page, word by word."""
    text = json.dumps(freeze["spec"], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    promise = freeze["spec"]["reservation"]
    (start,) = [
        one["spec"]["earliestStart"] for one in items("Reservation") if one["metadata"]["uid"] == promise["uid"]
    ]
    facts = [
        *(freeze["spec"]["freeze"]["algorithm"], promise["namespace"], promise["name"], promise["uid"], start),
        "sha256:" + hashlib.sha256(text.encode()).hexdigest(),
        *(freeze["metadata"]["uid"], freeze["metadata"]["creationTimestamp"]),
    ]
    seed = hashlib.sha256(json.dumps(facts, separators=(",", ":"), ensure_ascii=False).encode()).digest()
    held: dict[str, list[str]] = {}
    for token in freeze["spec"]["freeze"]["tokens"]:
        held.setdefault(token["owner"], []).append(token["run"])
    picks, k = [], 1
    while held:
        owner = sorted(held)[drawn(seed, k, len(held))]
        runs = sorted(held[owner])
        picks.append(runs.pop(drawn(seed, k + 1, len(runs))))
        held[owner] = runs
        held = {name: left for name, left in held.items() if left}
        k += 2
    return seed.hex(), picks


def drawn(seed: bytes, k: int, n: int) -> int:
    for attempt in range(1000):
        head = hashlib.sha256(seed + k.to_bytes(8, "big") + attempt.to_bytes(4, "big")).digest()[:8]
        x = int.from_bytes(head, "big")
        if x < (2**64 - 1) // n * n:
            return x % n
    raise AssertionError("a thousand tries in vain")


def test_redraw_by_hand_gives_the_recorded_seed_and_picks() -> None:
    cut, freeze = recorded()
    seed, picks = redraw(cut, freeze)
    assert seed == cut["spec"]["draw"]["seed"]
    assert picks[: len(cut["spec"]["draw"]["picks"])] == cut["spec"]["draw"]["picks"]


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node")
def test_redraw_in_javascript_gives_the_same(tmp_path: Path) -> None:
    script = tmp_path / "redraw.mjs"
    (source,) = re.findall(r"```javascript\n(.*?)```", PAGE.read_text(), re.DOTALL)
    script.write_text(source)
    done = subprocess.run(["node", script, LEDGER], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["true", *redraw(*recorded())[1]]


def test_golden_vectors_of_the_page_are_drawn() -> None:
    rows = re.findall(r"^\| `([0-9a-f]+)` × (\d+) \| (\d+) \| (\d+) \| (\d+)", PAGE.read_text(), re.MULTILINE)
    assert len(rows) == 8
    for text, times, k, n, expected in rows:
        assert drawn(bytes.fromhex(text * int(times)), int(k), int(n)) == int(expected)


def test_golden_ledger_is_what_the_story_makes() -> None:
    """The files are made by `tests.ledger_world`; they must not drift from it."""
    from tests.ledger_world import as_list, whole

    assert json.loads(LEDGER.read_text()) == as_list(whole())
