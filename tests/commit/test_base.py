"""6.8: base moves behind what is finished, by compare-and-swap, and carries the sums with it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from kubectl_runs.commit.base import PENDING_MAX, advance, base_writes, moved_base
from kubectl_runs.commit.chain import Tip
from kubectl_runs.commit.roll_forward import Rolled
from kubectl_runs.commit.steps import drive
from kubectl_runs.commit.sweep import sweep
from kubectl_runs.read import Reading
from planner.model import Closed, Entry, EntryKind, FundingClass, LedgerBase, Payer, Settled
from tests.commit.worlds import Interceptor, base, entries, leases, means, reading, sandbox, submitted

PAYER = Payer("team", "main")


def entry(seq: int, *gpu_seconds: int) -> Entry:
    closes = tuple(
        Closed(
            namespace="team",
            lease=f"l-0-{index}",
            at=0,
            reason="Completed",
            gpu_seconds=seconds,
            payer=PAYER,
            funding=FundingClass.OWNED,
            spec="",
        )
        for index, seconds in enumerate(gpu_seconds)
    )
    return Entry(
        seq=seq,
        prev="",
        digest=f"sha256:{seq:064x}",
        nonce="",
        read_at=0,
        time=100 + seq,
        created_at=0,
        kind=EntryKind.CLOSE,
        closes=closes,
    )


def seen(entries_: Iterable[Entry], base_: LedgerBase | None = None) -> Reading:
    store = sandbox()
    known = tuple(entries_)
    read = reading(store)
    return replace(
        read,
        base=base_ or LedgerBase(),
        snapshot=replace(read.snapshot, entries=known),
        tip=Tip(seq=max(each.seq for each in known), digest="", time=0),
    )


def finished(*numbers: int) -> dict[int, Rolled]:
    return {number: Rolled(seq=number) for number in numbers}


def test_base_takes_number_digest_time_and_sums_from_entries_alone() -> None:
    moved = moved_base(seen([entry(1, 10, 5), entry(2, 7)]), finished(1, 2))
    assert (moved.seq, moved.digest, moved.time) == (2, f"sha256:{2:064x}", 102)
    assert moved.settled == (Settled(payer=PAYER, funding=FundingClass.OWNED, gpu_seconds=22),)
    assert moved.pending == ()


def test_unfinished_entry_is_passed_and_kept_pending() -> None:
    rolled = {**finished(1), 2: Rolled(seq=2, unfinished=("lease is not written",))}
    moved = moved_base(seen([entry(1), entry(2)]), rolled)
    assert (moved.seq, moved.pending) == (2, (2,))


def test_pending_entry_leaves_when_it_is_finished_and_counts_once() -> None:
    before = LedgerBase(
        seq=2, digest="x", pending=(1,), settled=(Settled(payer=PAYER, funding=FundingClass.OWNED, gpu_seconds=3),)
    )
    moved = moved_base(replace(seen([entry(1, 3)], before), tip=Tip(seq=2)), finished(1))
    assert moved.pending == ()
    assert moved.settled == before.settled


def test_base_waits_with_more_than_sixty_four_pending() -> None:
    stuck = [entry(seq) for seq in range(1, PENDING_MAX + 3)]
    rolled = {each.seq: Rolled(seq=each.seq, unfinished=("no right",)) for each in stuck}
    moved = moved_base(seen(stuck), rolled)
    assert len(moved.pending) == PENDING_MAX
    assert moved.seq == PENDING_MAX


def test_void_entry_settles_nothing_and_holds_nothing_up() -> None:
    moved = moved_base(seen([replace(entry(1, 50), void="prev is wrong")]), {})
    assert (moved.seq, moved.pending, moved.settled) == (1, (), ())


def test_base_written_by_somebody_else_first_is_left_alone() -> None:
    store = sandbox()
    early = reading(store)
    submitted(store, "a", 1)
    current = base(store)
    late = replace(
        early, snapshot=replace(early.snapshot, entries=(entry(1, 999),)), tip=Tip(seq=1, digest="sha256:" + "e" * 64)
    )

    Interceptor(store).run(advance(late, finished(1)))

    assert base(store) == current


def test_no_write_where_nothing_moved() -> None:
    store = sandbox()
    submitted(store, "a", 1)
    assert base_writes(reading(store), {}) == []


def test_history_does_not_lengthen_what_is_read() -> None:
    store = sandbox()
    for index in range(12):
        submitted(store, f"r{index}", 1, after="1s")
        store.advance(5)
        drive(sweep(reading(store), means()), store)

    seen_now = reading(store)

    assert len(entries(store)) == 24
    assert seen_now.snapshot.entries == ()
    assert [lease for lease in leases(store) if not lease["status"]["closed"]] == []
    assert sum(row["gpuSeconds"] for row in base(store)["settled"]) == 12
