"""6.7 and S3: a run starts once an attempt; what follows an end depends on how it ended."""

from __future__ import annotations

import pytest

from kubectl_runs.commit.life import Stage, life
from planner.model import (
    Ended,
    Entry,
    EntryKind,
    FundingClass,
    Lease,
    Malleable,
    Opening,
    Payer,
    Role,
    Run,
    RunRef,
    Snapshot,
)

RUN = Run(namespace="team", name="a", uid="u", owner="org:team", flavor="H100", gpus_total=2)


def run(**fields: object) -> Run:
    from dataclasses import replace

    return replace(RUN, **fields)  # type: ignore[arg-type]


def lease(
    index: int, closure: str | None, attempt: int = 1, reason: Opening = Opening.START, **fields: object
) -> Lease:
    values: dict[str, object] = {
        "namespace": "team",
        "name": f"l-{attempt}-{index}",
        "owner": "org:team",
        "run_name": "a",
        "run_uid": "u",
        "attempt": attempt,
        "group": 0,
        "node": "n0",
        "gpus": 1,
        "role": Role.ACTIVE,
        "start_at": 0,
        "payer": Payer("team", "main"),
        "funding": FundingClass.OWNED,
        "reason": reason,
        "closed": closure is not None,
        "end_at": None if closure is None else 9,
        "closure": closure,
    }
    return Lease(**{**values, **fields})  # type: ignore[arg-type]


def entry(kind: EntryKind, *ends: Ended, attempt: int = 1, uid: str = "u") -> Entry:
    ref = RunRef(namespace="team", name="a", uid=uid, attempt=attempt)
    return Entry(seq=1, prev="", digest="", nonce="", read_at=0, time=0, created_at=0, kind=kind, run=ref, ends=ends)


@pytest.mark.parametrize(
    ("run_", "closures", "stage", "attempt"),
    [
        pytest.param(RUN, (), Stage.NEW, 1, id="never held anything"),
        pytest.param(RUN, ("Completed", "Completed"), Stage.COMPLETED, 1, id="all completed"),
        pytest.param(RUN, ("Completed", None), Stage.HOLDS, 1, id="one still runs"),
        pytest.param(RUN, ("Completed", "Fail"), Stage.FAILED, 1, id="one failed"),
        pytest.param(run(retries_max=1), ("Fail", "Fail"), Stage.AGAIN, 2, id="a retry is left"),
        pytest.param(RUN, ("Canceled", "Completed"), Stage.CANCELED, 1, id="cancelled"),
        pytest.param(RUN, ("RandomPreempt(ab)", "RandomPreempt(ab)"), Stage.FAILED, 1, id="drawn"),
        pytest.param(run(checkpoint=60), ("RandomPreempt(ab)",) * 2, Stage.AGAIN, 2, id="drawn, can save"),
        pytest.param(RUN, ("NodeFailure", "Fail"), Stage.FAILED, 1, id="lost a node"),
        pytest.param(run(checkpoint=60), ("NodeFailure", "Fail"), Stage.AGAIN, 2, id="lost a node, can save"),
        pytest.param(run(checkpoint=60), ("Fail", "Fail"), Stage.FAILED, 1, id="a pod that fails is no lost node"),
        pytest.param(run(canceled=True), (), Stage.CANCELED, 1, id="cancelled before it held anything"),
        pytest.param(run(retries_max=5, canceled=True), ("Fail",), Stage.CANCELED, 1, id="cancelled with retries"),
        pytest.param(
            run(malleable=Malleable(gpus_min=1, gpus_max=2, gpus_step=1, gpus_desired=2)),
            ("Shrink", "Completed"),
            Stage.COMPLETED,
            1,
            id="shrunk, then completed",
        ),
    ],
)
def test_life_follows_from_how_leases_ended(
    run_: Run, closures: tuple[str | None, ...], stage: Stage, attempt: int
) -> None:
    leases = tuple(lease(index, closure) for index, closure in enumerate(closures))
    lived = life(Snapshot(runs=(run_,), leases=leases), run_)
    assert (lived.stage, lived.attempt) == (stage, attempt)
    assert lived.may_start == (stage in (Stage.NEW, Stage.AGAIN))


def test_retries_are_counted_over_all_attempts() -> None:
    leases = (lease(0, "Fail", attempt=1), lease(0, "Fail", attempt=2))
    assert life(Snapshot(leases=leases), run(retries_max=1)).stage is Stage.FAILED
    assert life(Snapshot(leases=leases), run(retries_max=2)).attempt == 3


def test_lost_rank_that_a_spare_made_good_is_no_loss() -> None:
    leases = (
        lease(0, "NodeFailure"),
        lease(1, "Completed"),
        lease(2, "Completed", reason=Opening.SWAP),
        lease(3, "Swap", role=Role.SPARE),
    )
    assert life(Snapshot(leases=leases), RUN).stage is Stage.COMPLETED


def test_start_entry_alone_counts_as_begun() -> None:
    """Race 1 and 5: what is in the ledger has happened, whether or not its leases are written."""
    assert not life(Snapshot(entries=(entry(EntryKind.START),)), RUN).may_start


def test_empty_end_is_a_cancel_whatever_the_field_said_when_read() -> None:
    """Race 6: a submit that read the field before it was set finds the End that took its number."""
    lived = life(Snapshot(entries=(entry(EntryKind.END),)), run(retries_max=3))
    assert lived.stage is Stage.CANCELED


def test_promise_begins_nothing() -> None:
    assert life(Snapshot(entries=(entry(EntryKind.RESERVE),)), RUN).may_start


def test_entry_of_a_namesake_says_nothing_about_this_run() -> None:
    """Race 13: the UID, not the name, is what a run is."""
    assert life(Snapshot(entries=(entry(EntryKind.START, uid="older"),)), RUN).may_start
