"""6.4: the commit. Who wins a number, what a lost reply means, and when a draft may go to a later number."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kubectl_runs.commit.append import Appended, Overtaken, Stale, append
from kubectl_runs.commit.draft import Draft, entry_object
from kubectl_runs.errors import OutcomeUnknown, RunsError
from kubectl_runs.store.protocol import Get, Invalid, NotFound, Request, Unavailable, Unknown
from kubectl_runs.wire.encode import ENTRY_BYTES_MAX
from kubectl_runs.wire.kinds import LEDGER_ENTRY
from planner.model import EntryKind, FundingClass, Opened, Opening, Payer, PodRef, Reservation, Role, RunRef
from tests.commit.worlds import Interceptor, appends, creates, entries, means, once, reading, sandbox

MAIN = Payer("team", "main")


def start(node: str = "n0", run: str = "a", payer: Payer = MAIN, pods: int = 1) -> Draft:
    opens = tuple(
        Opened(
            lease="",
            pod=PodRef(name=f"{run}-{index}", uid=f"u-{run}-{index}"),
            node=node,
            gpus=1,
            role=Role.ACTIVE,
            group=0,
            owner="org:team",
            payer=payer,
            funding=FundingClass.OWNED,
            reason=Opening.START,
        )
        for index in range(pods)
    )
    ref = RunRef(namespace="team", name=run, uid=f"u-{run}")
    return Draft(kind=EntryKind.START, run=ref, opens=opens)


def reserve() -> Draft:
    promise = Reservation(namespace="team", name="a", run_name="a", run_uid="u-a", gpus=1)
    return Draft(kind=EntryKind.RESERVE, run=RunRef(namespace="team", name="a", uid="u-a"), reserve=promise)


def test_append_taken_number_that_touches_nothing_is_rebased() -> None:
    store = sandbox(cap=6)
    stale = reading(store)
    Interceptor(store).run(append(start("n1", "b", Payer("team", "elsewhere")), stale, means()))

    spy = Interceptor(store)
    done = spy.run(append(start(), stale, means()))

    assert isinstance(done, Appended)
    assert done.entry.seq == 2
    assert done.entry.opens[0].lease == "l-2-0", "names follow the number"
    tried = creates(LEDGER_ENTRY, spy.asked)
    assert len({entry["spec"]["nonce"] for entry in tried}) == 2, "a new nonce for each number"
    assert tried[1]["spec"]["prev"] != tried[0]["spec"]["prev"]


@pytest.mark.parametrize(
    "first",
    [
        pytest.param(start("n0", "b", Payer("team", "elsewhere")), id="same node"),
        pytest.param(start("n1", "b"), id="same envelope"),
        pytest.param(start("n1", "a", Payer("team", "elsewhere")), id="same run"),
        pytest.param(start("n1", "b", Payer("team", "more")), id="same aggregate cap"),
    ],
)
def test_append_taken_number_that_touches_is_planned_again(first: Draft) -> None:
    store = sandbox(cap=6)
    stale = reading(store)
    Interceptor(store).run(append(first, stale, means()))

    outcome = Interceptor(store).run(append(start(), stale, means()))

    assert isinstance(outcome, Overtaken)
    assert outcome.reading.tip.seq == 1, "planned from a reading that includes it"
    assert len(entries(store)) == 1


def test_promise_is_never_rebased() -> None:
    """Race 14: whatever came between, a promise made from another state is another promise."""
    store = sandbox()
    stale = reading(store)
    Interceptor(store).run(append(start("n1", "b", Payer("team", "elsewhere")), stale, means()))

    assert isinstance(Interceptor(store).run(append(reserve(), stale, means())), Overtaken)


def test_lost_reply_of_a_write_that_arrived_is_found_by_its_nonce() -> None:
    store = sandbox()

    def lose(request: Request) -> Unknown | None:
        if appends(request) and not entries(store):
            store.perform(request)
            return Unknown("lost")
        return None

    done = Interceptor(store, lose).run(append(start(), reading(store), means()))

    assert isinstance(done, Appended)
    assert len(entries(store)) == 1


def test_lost_request_is_sent_again_with_the_same_nonce_and_number() -> None:
    """Whichever copy lands is mine, and no late copy can land beside it."""
    store = sandbox()
    spy = Interceptor(store, once(appends, Unknown("lost")))

    done = spy.run(append(start(), reading(store), means()))

    assert isinstance(done, Appended)
    sent = creates(LEDGER_ENTRY, spy.asked)
    assert sent[0] == sent[1]


def test_lost_reply_while_another_took_the_number_is_no_success() -> None:
    store = sandbox()
    stale = reading(store)
    Interceptor(store).run(append(start("n0", "b"), stale, means()))

    outcome = Interceptor(store, once(appends, Unknown("lost"))).run(append(start(), stale, means()))

    assert isinstance(outcome, Overtaken)


def test_outcome_that_stays_unknown_is_said_to_be_unknown() -> None:
    store = sandbox()

    def silence(request: Request) -> Unknown | Unavailable | None:
        if appends(request):
            return Unknown("lost")
        return Unavailable("down") if isinstance(request, Get) and request.kind == LEDGER_ENTRY else None

    with pytest.raises(OutcomeUnknown) as raised:
        Interceptor(store, silence).run(append(start(), reading(store), means()))
    assert raised.value.exit_code == 75


def test_server_that_never_took_it_is_no_unknown_outcome() -> None:
    store = sandbox()
    down = Interceptor(store, lambda request: Unavailable("down") if appends(request) else None)

    with pytest.raises(Unavailable):
        down.run(append(start(), reading(store), means()))


def test_refusal_by_admission_asks_for_a_new_plan() -> None:
    store = sandbox()
    outcome = Interceptor(store, once(appends, Invalid("too long after readAt"))).run(
        append(start(), reading(store), means())
    )

    assert isinstance(outcome, Stale)


def test_refusal_after_a_lost_reply_is_checked_against_what_landed() -> None:
    """The first copy landed; the second comes too late for admission, which is asked before the name."""
    store = sandbox()

    def lose_then_refuse(request: Request) -> Unknown | Invalid | None:
        if not appends(request):
            return None
        if not entries(store):
            store.perform(request)
            return Unknown("lost")
        return Invalid("too late")

    seen = Interceptor(store, lose_then_refuse)
    first_look = once(lambda request: isinstance(request, Get) and request.kind == LEDGER_ENTRY, NotFound("stale"))
    spy = Interceptor(store, lambda request: first_look(request) or lose_then_refuse(request))

    before = reading(store)
    done = spy.run(append(start(), before, means()))

    assert isinstance(done, Appended)
    assert seen.batches == []


def test_entry_old_by_more_than_two_minutes_is_refused_by_the_store() -> None:
    """Race 12: a laptop that slept."""
    store = sandbox()
    stale = reading(store)
    store.advance(180)

    assert isinstance(Interceptor(store).run(append(start(), stale, means())), Stale)


def test_decision_too_wide_for_one_entry_is_refused_with_the_number() -> None:
    wide = start(pods=20_000)
    with pytest.raises(RunsError, match=f"at most {ENTRY_BYTES_MAX}"):
        entry_object(wide, seq=1, prev="sha256:" + "0" * 64, nonce="0" * 32, read_at=0)


def test_entry_of_three_thousand_leases_fits() -> None:
    body = entry_object(start(pods=3_000), seq=1, prev="sha256:" + "0" * 64, nonce="0" * 32, read_at=0)
    assert len(body["spec"]["opens"]) == 3_000


def test_entry_holds_no_null_and_no_empty_list() -> None:
    body = entry_object(replace(start(), ends=()), seq=1, prev="sha256:" + "0" * 64, nonce="0" * 32, read_at=0)
    assert None not in body["spec"].values()
    assert [] not in body["spec"].values()
