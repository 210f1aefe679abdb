"""`list` tells from the facts how runs stand."""

from __future__ import annotations

import pytest

from kubectl_runs.overview import overviews

LEASE = {
    "metadata": {"namespace": "rai", "name": "l-1-0"},
    "spec": {
        "owner": "org:ai:rai",
        "runRef": {"name": "train", "uid": "u"},
        "slice": {"nodes": ["n1"], "gpus": 8, "role": "Active"},
        "paidByBudget": "rai",
        "paidByEnvelope": "h100",
    },
}


@pytest.mark.parametrize(
    ("said", "leases", "owner"),
    [({}, [LEASE], "org:ai:rai"), ({"owner": "org:x"}, [LEASE], "org:x"), ({}, [], "")],
    ids=["recorded in its lease", "said by the run", "nobody says"],
)
def test_owner_of_a_run_is_what_it_says_or_what_its_leases_recorded(said: dict, leases: list, owner: str) -> None:
    run = {"metadata": {"namespace": "rai", "name": "train", "uid": "u"}, "spec": said}
    (row,) = overviews([run], leases, [])
    assert row.owner == owner
