"""6.4: what two decisions have to share for one to touch the other, mark by mark."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kubectl_runs.commit.draft import Draft
from kubectl_runs.commit.touches import Surroundings, footprint, may_rebase
from planner.model import (
    AggregateCap,
    Budget,
    Closed,
    Ended,
    Entry,
    EntryKind,
    Envelope,
    FundingClass,
    Lease,
    Payer,
    PayerShare,
    PodRef,
    Reservation,
    Role,
    RunRef,
    SliceGroup,
    SliceNode,
)
from tests.commit.test_append import start

ENVELOPES = tuple(Envelope(name=name, flavor="H100", concurrency=8) for name in ("main", "more", "third"))
BUDGET = Budget(
    name="team",
    owner="org:team",
    envelopes=ENVELOPES,
    caps=(AggregateCap(name="all", flavor="H100", envelopes=("main", "more"), concurrency_max=8),),
)
LEASE = Lease(
    namespace="team",
    name="l-1-0",
    owner="org:team",
    run_name="held",
    run_uid="u-held",
    pod=PodRef(name="held-0", uid="u"),
    group=0,
    node="n7",
    gpus=1,
    role=Role.ACTIVE,
    start_at=0,
    payer=Payer("team", "third"),
    funding=FundingClass.BORROWED,
)
ELSEWHERE = Payer("x", "y")
AROUND = Surroundings.of({LEASE.key: LEASE}, (BUDGET,))


def entry(draft: Draft, *, void: str = "") -> Entry:
    return Entry(
        seq=9,
        prev="",
        digest="",
        nonce="",
        read_at=0,
        time=0,
        created_at=0,
        kind=draft.kind,
        run=draft.run,
        reservation=draft.reservation,
        opens=draft.opens,
        ends=draft.ends,
        closes=draft.closes,
        reserve=draft.reserve,
        void=void,
    )


def closing() -> Draft:
    close = Closed(
        namespace="team",
        lease="l-1-0",
        at=0,
        reason="Completed",
        gpu_seconds=0,
        payer=LEASE.payer,
        funding=LEASE.funding,
        spec="",
    )
    return Draft(kind=EntryKind.CLOSE, run=RunRef(namespace="team", name="held", uid="u-held"), closes=(close,))


def ending() -> Draft:
    end = Ended(namespace="team", lease="l-1-0", reason="Shrink")
    return Draft(kind=EntryKind.CUT, run=RunRef(namespace="team", name="winner", uid="u-w"), ends=(end,))


def promise(node: str = "n9", payer: Payer = ELSEWHERE) -> Draft:
    groups = (SliceGroup(index=0, domain="r/c/d", nodes=(SliceNode(name=node, gpus=1),)),)
    shares = (PayerShare(payer=payer, gpus=1),)
    reserve = Reservation(namespace="team", name="w", run_name="w", run_uid="u-w", gpus=1, groups=groups, payers=shares)
    return Draft(kind=EntryKind.RESERVE, run=RunRef(namespace="team", name="w", uid="u-w"), reserve=reserve)


@pytest.mark.parametrize(
    ("mine", "theirs", "touches"),
    [
        pytest.param(start("n0", "a"), start("n1", "b", Payer("x", "y")), False, id="nothing shared"),
        pytest.param(start("n0", "a"), start("n0", "b", Payer("x", "y")), True, id="node"),
        pytest.param(start("n0", "a"), start("n1", "b", Payer("team", "more")), True, id="aggregate cap"),
        pytest.param(start("n7", "a"), closing(), True, id="node of a lease that was closed"),
        pytest.param(start("n0", "a", Payer("team", "third")), closing(), True, id="envelope that a close freed"),
        pytest.param(start("n0", "held", Payer("x", "y")), ending(), True, id="run of a lease that was ended"),
        pytest.param(start("n0", "winner", Payer("x", "y")), ending(), True, id="run the cut is for"),
        pytest.param(start("n9", "a"), promise(), True, id="node of a promise"),
        pytest.param(start("n0", "a"), promise(payer=Payer("team", "main")), True, id="payer of a promise"),
        pytest.param(start("n0", "a"), promise(), False, id="promise elsewhere"),
    ],
)
def test_decisions_touch_if_they_share(mine: Draft, theirs: Draft, touches: bool) -> None:
    assert may_rebase(mine, (entry(theirs),), AROUND) is not touches


def test_borrower_of_one_lender_touches_another_of_it() -> None:
    borrowed = replace(start("n0", "a", Payer("team", "main")).opens[0], funding=FundingClass.BORROWED)
    mine = replace(start("n0", "a"), opens=(borrowed,))
    assert ("lender", "team") in footprint(mine, AROUND)
    assert ("lender", "team") in footprint(closing(), AROUND)


def test_void_entry_touches_nothing() -> None:
    assert may_rebase(start("n0", "a"), (entry(start("n0", "a"), void="prev is wrong"),), AROUND)


def test_lease_that_nobody_knows_touches_everything() -> None:
    unknown = replace(ending(), ends=(Ended(namespace="team", lease="l-99-0", reason="Shrink"),))
    assert not may_rebase(start("n0", "a"), (entry(unknown),), AROUND)


@pytest.mark.parametrize("kind", [EntryKind.FREEZE, EntryKind.CUT, EntryKind.SWAP, EntryKind.RESERVE])
def test_kinds_that_are_never_rebased(kind: EntryKind) -> None:
    assert not may_rebase(Draft(kind=kind), (), AROUND)
