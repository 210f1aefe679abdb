"""What a large installation writes still passes CEL's cost limits: wide entries, a long list of what is settled."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from tests.cluster.rights import budget, closes, entry, opens, settled
from tests.controlplane import fleet
from tests.controlplane.client import Object, Refused
from tests.controlplane.plane import ControlPlane

WIDE = 3000
PAYERS = 3000
BYTES_MAX = 1_200_000


@pytest.fixture(scope="module")
def plane(fresh_control_plane: Callable[..., ControlPlane]) -> Iterator[ControlPlane]:
    with fresh_control_plane(kwok=False, install=False) as plane:
        fleet.install(plane, grants=("researcher=researchers:default",))
        yield plane


def size(body: Object) -> int:
    return len(json.dumps(body, separators=(",", ":")))


def test_entry_with_3000_leases_is_accepted(plane: ControlPlane) -> None:
    (lease,) = opens()
    pod = {"name": "train-0123456789-00000", "uid": "0" * 36}
    trace = [{"rule": "C3.1", "act": "took", "subject": "x" * 40}] * 700
    wide = [{**lease, "lease": f"l-1-{index}", "pod": pod, "node": f"node-{index:05}"} for index in range(WIDE)]
    body = entry("Start", seq=1, namespace="default", opens=wide, trace=trace)
    assert 600_000 < size(body) < BYTES_MAX
    assert len(plane.client("researcher").create("ledgerentries", body)["spec"]["opens"]) == WIDE


def test_close_of_3000_leases_is_accepted(plane: ControlPlane) -> None:
    (close,) = closes("default")
    wide = [{**close, "lease": f"l-1-{index}"} for index in range(WIDE)]
    body = entry("Close", seq=2, namespace="default", closes=wide)
    assert 600_000 < size(body) < BYTES_MAX
    assert len(plane.client("researcher").create("ledgerentries", body)["spec"]["closes"]) == WIDE


def test_base_with_3000_payers_moves(plane: ControlPlane) -> None:
    (row,) = settled(5)
    rows = [{**row, "budget": f"budget-{index:05}"} for index in range(PAYERS)]
    client = plane.client("researcher")  # who has no right that would make the policies look away
    client.patch("ledgers", "base", {"spec": {"seq": 1, "settled": rows}})
    more = [{**each, "gpuSeconds": 6} for each in rows]
    moved = client.patch("ledgers", "base", {"spec": {"seq": 2, "settled": more}})
    assert moved["spec"]["settled"] == more
    less = [*more[:-1], {**more[-1], "gpuSeconds": 5}]
    with pytest.raises(Refused, match="lowering what is settled"):
        client.patch("ledgers", "base", {"spec": {"seq": 3, "settled": less}})


def test_budget_with_every_envelope_and_cap_is_accepted(plane: ControlPlane) -> None:
    purses = [{"name": f"e{index}", "flavor": "H100", "concurrency": 8} for index in range(32)]
    caps = [{"name": f"c{index}", "flavor": "H100", "envelopes": [f"e{i}" for i in range(32)]} for index in range(16)]
    full = {**budget(8), "spec": {"owner": "org:a", "envelopes": purses, "aggregateCaps": caps}}
    assert plane.client().create("budgets", full)["spec"]["aggregateCaps"] == caps
    caps[-1] = {**caps[-1], "envelopes": ["e0", "missing"]}
    with pytest.raises(Refused, match="must name envelopes of this budget"):
        plane.client().create("budgets", {**full, "metadata": {"name": "other"}})
