"""R4 from a file: a Freeze that stands in the snapshot fixes who yields, by the rule as the design words it.

Seed and draws are computed here from that wording alone; nothing of the planner is imported.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.case_ledger import digest, entry
from tests.test_cases import run_case

Json = dict[str, Any]
START = "2026-01-05T12:00:00Z"
NO_DIGEST = "sha256:" + "0" * 64
OWNERS = {"rai": "org:ai:rai", "bio": "org:bio", "lab": "org:lab"}


def seed_of(freeze: Json) -> bytes:
    facts = [
        "two-stage/1",
        "rai",
        "big",
        "uid-res-big",
        START,
        digest(freeze["spec"]),
        freeze["metadata"]["uid"],
        freeze["metadata"]["creationTimestamp"],
    ]
    return hashlib.sha256(json.dumps(facts, separators=(",", ":")).encode()).digest()


def draw(seed: bytes, k: int, n: int) -> int:
    limit = (2**64 - 1) // n * n
    for attempt in range(100):
        x = int.from_bytes(hashlib.sha256(seed + k.to_bytes(8, "big") + attempt.to_bytes(4, "big")).digest()[:8], "big")
        if x < limit:
            return x % n
    raise AssertionError("a hundred tries")


def whole_order(seed: bytes, tokens: list[Json]) -> list[str]:
    left = {(token["owner"], token["run"]) for token in tokens}
    order, k = list[str](), 1
    while left:
        owners = sorted({owner for owner, _ in left})
        owner = owners[draw(seed, k, len(owners))]
        runs = sorted(run for held_by, run in left if held_by == owner)
        run = runs[draw(seed, k + 1, len(runs))]
        left.remove((owner, run))
        order.append(run)
        k += 2
    return order


def frozen(tokens: list[str], nodes: list[str], uid: str) -> Json:
    rows = sorted(
        ({"owner": OWNERS[run[:3]], "run": run, "gpus": 8} for run in tokens), key=lambda t: (t["owner"], t["run"])
    )
    made = entry(
        1,
        NO_DIGEST,
        {
            "kind": "Freeze",
            "run": "rai/big",
            "created": START,
            "reservation": {"namespace": "rai", "name": "big", "uid": "uid-res-big"},
            "freeze": {
                "algorithm": "two-stage/1",
                "scope": {"flavor": "H100", "nodes": nodes},
                "deficitGPUs": 16,
                "tokens": rows,
            },
        },
        OWNERS["rai"],
    )
    made["metadata"]["uid"] = uid
    return made


def case(running: dict[str, str], freeze: Json, nodes: int, gpus: int = 16) -> Json:
    """`running` runs, each on a node of its own; `rai/big` is due and needs `gpus`."""
    runs: Json = {key: {"gpus": 8, "per_pod": 8, "owner": OWNERS[key[:3]]} for key in running}
    runs["rai/big"] = {"gpus": gpus, "per_pod": 8}
    return {
        "args": ["resolve", "big", "-n", "rai", "--dry-run"],
        "world": {
            "nodes": {"us-west/a/d1": f"{nodes}x8"},
            "namespaces": OWNERS,
            "budgets": {"rai": {"owner": "org:ai:rai", "envelopes": [{"name": "e", "concurrency": 100}]}},
            "runs": runs,
            "leases": [{"run": key, "node": node, "gpus": 8, "payer": "rai/e"} for key, node in running.items()],
            "reservations": {
                "rai/big": {
                    "gpus": gpus,
                    "earliestStart": START,
                    "payers": [{"budget": "rai", "envelope": "e", "gpus": gpus}],
                }
            },
            "objects": [freeze],
        },
    }


RUNS = ["rai/a", "rai/b", "bio/c", "bio/d", "lab/e"]
SEATS = {run: f"d1-n{number}" for number, run in enumerate(RUNS, 1)}


@pytest.mark.parametrize("uid", ["u-1", "u-2", "u-3"])
def test_frozen_list_fixes_who_yields_in_its_whole_order(uid: str, tmp_path: Path) -> None:
    freeze = frozen(RUNS, sorted(SEATS.values()), uid)
    done = run_case(case(SEATS, freeze, nodes=5), tmp_path)
    answer, seed = json.loads(done.stdout), seed_of(freeze)
    assert (done.returncode, answer["decision"]) == (0, "start")
    assert (answer["lottery"]["seed"], answer["lottery"]["provisional"]) == (seed.hex(), False)
    expected = whole_order(seed, freeze["spec"]["freeze"]["tokens"])[:2]
    assert [cut["run"] for cut in answer["cuts"]] == expected
    assert all(cut == {**cut, "kind": "RandomPreempt", "group": None, "provisional": False} for cut in answer["cuts"])


@pytest.mark.parametrize("uid", ["u-4", "u-5"])
def test_frozen_list_passes_over_the_ended_and_never_draws_a_newcomer(uid: str, tmp_path: Path) -> None:
    freeze = frozen(RUNS, sorted(SEATS.values()), uid)
    order = whole_order(seed_of(freeze), freeze["spec"]["freeze"]["tokens"])
    running = {key: node for key, node in SEATS.items() if key != order[0]}
    running["lab/new"] = SEATS[order[0]]  # came later, on the node of the one that ended
    done = run_case(case(running, freeze, nodes=5), tmp_path)
    answer = json.loads(done.stdout)
    assert [cut["run"] for cut in answer["cuts"]] == order[1:3]
    assert answer["lottery"]["provisional"] is False


def test_frozen_list_that_is_not_enough_is_frozen_again(tmp_path: Path) -> None:
    freeze = frozen(RUNS[:1], sorted(SEATS.values()), "u-6")
    done = run_case(case(SEATS, freeze, nodes=5), tmp_path)
    answer = json.loads(done.stdout)
    assert answer["decision"] == "start"
    assert answer["lottery"]["provisional"] is True
    assert sorted(token["run"] for token in answer["lottery"]["tokens"]) == sorted(RUNS)


def test_freeze_of_another_reservation_says_nothing(tmp_path: Path) -> None:
    freeze = frozen(RUNS, sorted(SEATS.values()), "u-7")
    freeze["spec"]["reservation"]["uid"] = "uid-res-earlier"
    done = run_case(case(SEATS, freeze, nodes=5), tmp_path)
    answer = json.loads(done.stdout)
    assert (answer["decision"], answer["lottery"]["provisional"]) == ("start", True)


@pytest.mark.parametrize("uid", ["u-8", "u-9", "u-10"])
def test_drawn_in_vain_is_given_back(uid: str, tmp_path: Path) -> None:
    """Half nodes: whoever was drawn before the other half of a node came up keeps its GPUs."""
    halves = {
        "rai/a": "d1-n1",
        "bio/c": "d1-n1",
        "rai/b": "d1-n2",
        "bio/d": "d1-n2",
        "lab/e": "d1-n3",
        "lab/f": "d1-n3",
    }
    freeze = frozen(list(halves), ["d1-n1", "d1-n2", "d1-n3"], uid)
    for token in freeze["spec"]["freeze"]["tokens"]:
        token["gpus"] = 4
    asked = case(halves, freeze, nodes=3, gpus=8)
    for row in asked["world"]["leases"]:
        row["gpus"] = 4
    for key in halves:
        asked["world"]["runs"][key] |= {"gpus": 4, "per_pod": 4}
    answer = json.loads(run_case(asked, tmp_path).stdout)
    taken, freed = list[str](), dict.fromkeys(halves.values(), 0)
    for run in whole_order(seed_of(freeze), freeze["spec"]["freeze"]["tokens"]):
        taken.append(run)
        freed[halves[run]] += 4
        if freed[halves[run]] == 8:
            break
    kept = [run for run in taken if halves[run] == halves[taken[-1]]]
    assert [cut["run"] for cut in answer["cuts"]] == kept
