"""6.1: what is read, in which order, and which entries count."""

from __future__ import annotations

import pytest

from kubectl_runs.commit.chain import Tip, link
from kubectl_runs.errors import RunsError
from kubectl_runs.read import catch_up, read
from kubectl_runs.store.protocol import Create, Forbidden, Get, List, NotFound, Patch, Request
from kubectl_runs.store.sandbox import SandboxStore
from kubectl_runs.wire import decode
from kubectl_runs.wire.kinds import BUDGET, LEASE, LEDGER, LEDGER_ENTRY, NAMESPACE, NODE, POD, RESERVATION, RUN
from planner.fold import open_leases
from tests.commit.worlds import Interceptor, base, entries, once, reading, sandbox, submitted


def test_read_base_entries_leases_pods_in_this_order() -> None:
    spy = Interceptor(sandbox())

    spy.run(read(runs=("team/a",)))

    kinds = [{request.kind for request in batch if isinstance(request, Get | List)} for batch in spy.batches]
    assert kinds == [{LEDGER}, {LEDGER_ENTRY}, {RUN, RESERVATION, LEASE}, {POD, NODE, BUDGET, NAMESPACE}]
    entries_asked = [request for request in spy.batches[1] if isinstance(request, List)]
    assert entries_asked == [], "entries are read by number, never listed"


def test_read_missing_number_below_a_found_one_is_asked_for_once_more() -> None:
    """Race 4: in one batch 1 answers "none", then 1 and 2 land, then 2 answers."""
    store = sandbox()
    submitted(store, "a", 1)
    submitted(store, "b", 1)
    _forget_base(store)
    missed = once(lambda request: _is_entry(request, 1), NotFound("not yet"))

    seen = Interceptor(store, missed).run(read())

    assert seen.tip.seq == 2
    assert [entry.seq for entry in seen.snapshot.entries] == [1, 2]


def test_read_number_still_missing_ends_the_ledger_there() -> None:
    store = sandbox()
    submitted(store, "a", 1)
    submitted(store, "b", 1)
    _forget_base(store)

    seen = Interceptor(store, lambda request: NotFound("gone") if _is_entry(request, 1) else None).run(read())

    assert seen.tip.seq == 0
    assert seen.snapshot.entries == ()


def test_read_hundred_entries_in_batches_finds_the_tip() -> None:
    store = sandbox()
    _fill(store, 100)

    spy = Interceptor(store)
    seen = spy.run(read())

    assert seen.tip.seq == 100
    assert len(spy.batches) < 10


def test_entry_with_wrong_prev_is_void_and_the_next_follows_it() -> None:
    store = sandbox()
    _fill(store, 1)
    good = entries(store)[0]
    _append(store, 2, "sha256:" + "f" * 64)
    bad = decode.entry(store.perform(Get(kind=LEDGER_ENTRY, name="000000000002")).object)
    _append(store, 3, bad.digest)

    seen = reading(store)

    voids = [bool(entry.void) for entry in seen.snapshot.entries]
    assert voids == [False, True, False]
    assert seen.tip.seq == 3
    assert good["seq"] == 1


def test_void_entry_holds_no_gpu() -> None:
    store = sandbox()
    opens = {
        "lease": "l-1-0", "node": "n0", "gpus": 4, "role": "Active", "group": 0, "owner": "org:team",
        "budget": "team", "envelope": "main", "class": "owned", "reason": "Start",
    }  # fmt: skip
    _append(store, 1, "sha256:" + "f" * 64, kind="Start", opens=[opens])

    assert open_leases(reading(store).snapshot) == {}


def test_base_that_names_another_entry_stops_everything() -> None:
    store = sandbox()
    submitted(store, "a", 1)
    store.perform(Patch(kind=LEDGER, name="base", patch={"spec": {"digest": "sha256:" + "a" * 64}}))

    with pytest.raises(RunsError, match="ledger base stands at entry 1"):
        reading(store)


def test_read_without_the_right_to_list_pods_says_so_and_lists_its_own() -> None:
    store = sandbox()
    submitted(store, "a", 1)
    answer = Interceptor(store, lambda request: Forbidden("no") if request == List(kind=POD) else None)

    seen = answer.run(read(runs=("team/a",)))

    assert not seen.snapshot.pods_visible
    assert [pod.namespace for pod in seen.snapshot.pods] == ["team"]


def test_catch_up_folds_in_what_came_since() -> None:
    store = sandbox()
    before = reading(store)
    submitted(store, "a", 2)

    after, came = Interceptor(store).run(catch_up(before))

    assert [entry.seq for entry in came] == [1]
    assert sum(lease.gpus for lease in open_leases(after.snapshot).values()) == 2
    assert after.read_at == before.read_at
    assert after.seen == 0, "of the pods of later entries the reading knows nothing"


def test_entry_time_never_runs_backwards() -> None:
    store = sandbox()
    _fill(store, 2)
    first, second = (decode.entry(obj) for obj in store.perform(List(kind=LEDGER_ENTRY)).items)

    tip, linked = link(Tip(time=first.created_at + 100), (first, second))

    assert [entry.time for entry in linked] == [first.created_at + 100] * 2
    assert tip.time == first.created_at + 100


def _is_entry(request: Request, number: int) -> bool:
    return isinstance(request, Get) and request.kind == LEDGER_ENTRY and request.name == f"{number:012d}"


def _forget_base(store: SandboxStore) -> None:
    """As a reader does who read base before the entries were finished."""
    assert base(store)["seq"] == 2
    store.perform(
        Patch(kind=LEDGER, name="base", patch={"spec": {"seq": 0, "digest": "sha256:" + "0" * 64, "pending": None}})
    )


def _append(store: SandboxStore, seq: int, prev: str, kind: str = "End", **spec: object) -> None:
    run = {"namespace": "team", "name": "a", "uid": "u", "attempt": 1}
    body = {
        "seq": seq,
        "prev": prev,
        "nonce": f"{seq:032x}",
        "readAt": "2026-01-05T08:00:00Z",
        "kind": kind,
        "run": run,
    }
    entry = {
        "apiVersion": "rq.davidlangworthy.io/v1", "kind": "LedgerEntry",
        "metadata": {"name": f"{seq:012d}"}, "spec": {**body, **spec},
    }  # fmt: skip
    store.perform(Create(kind=LEDGER_ENTRY, object=entry))


def _fill(store: SandboxStore, count: int) -> None:
    prev = "sha256:" + "0" * 64
    for seq in range(1, count + 1):
        _append(store, seq, prev)
        prev = decode.entry(store.perform(Get(kind=LEDGER_ENTRY, name=f"{seq:012d}")).object).digest
