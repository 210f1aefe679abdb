"""What accounts hold: settled hours, look-ahead, loans, and what reservations keep (C2, F3, O1, R6)."""

from __future__ import annotations

from dataclasses import replace

from planner.books import Ask, Tab
from planner.fold import lease_number, open_leases, settled
from planner.holds import FOREVER
from planner.model import (
    Closed,
    Entry,
    EntryKind,
    FundingClass,
    LedgerBase,
    Opened,
    Opening,
    Payer,
    Reason,
    Role,
    RunRef,
    Settled,
    Snapshot,
)
from planner.world import World
from tests.planner.answers import fits, pays, refused
from tests.planner.worlds import run_of, snapshot, world

HOUR = 3600
BASE = "nodes us-west/a/d1 4x8\nbudget rai org:ai:rai\n"
PAYER = Payer("rai", "e")


def spent_hours(text: str, now: int = 0) -> float:
    """GPU-hours that count as gone or promised for the envelope rai/e."""
    books = world(text, now).books
    purse = books.tree.purse(PAYER)
    assert purse is not None
    return books.spent_seconds(purse, Ask(now=now, horizon=FOREVER, ahead=None)) / HOUR


def entry(seq: int, **changes: object) -> Entry:
    made = Entry(
        seq=seq,
        prev="",
        digest="",
        nonce="",
        read_at=0,
        time=-HOUR,
        created_at=-HOUR,
        kind=EntryKind.START,
        run=RunRef(namespace="rai", name="old", uid="uid-old"),
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def opened(name: str, node: str = "d1-n1", gpus: int = 8) -> Opened:
    return Opened(
        lease=name,
        node=node,
        gpus=gpus,
        role=Role.ACTIVE,
        group=0,
        owner="org:ai:rai",
        payer=PAYER,
        funding=FundingClass.OWNED,
        reason=Opening.START,
    )


def closed(name: str, seconds: int) -> Closed:
    return Closed(
        namespace="rai",
        lease=name,
        at=0,
        reason="Completed",
        gpu_seconds=seconds,
        payer=PAYER,
        funding=FundingClass.OWNED,
        spec="",
    )


def test_hours_of_a_run_with_a_duration_count_to_its_end() -> None:  # C2
    text = BASE + "env rai/e 64\nrun rai/old 8 duration=36000\nlease rai/old d1-n1 8 rai/e start=-3600"
    assert spent_hours(text) == 80


def test_hours_of_growth_end_with_the_first_active_lease() -> None:  # C2: growth included
    text = BASE + "env rai/e 64\nrun rai/old 8 duration=36000\nlease rai/old d1-n1 8 rai/e start=-7200\n"
    text += "lease rai/old d1-n2 8 rai/e start=-3600 group=1"
    assert spent_hours(text) == 80 + 72


def test_hours_count_from_the_first_active_lease_even_if_it_closed() -> None:
    text = BASE + "env rai/e 64\nrun rai/old 8 duration=36000\nlease rai/old d1-n1 8 rai/e start=-7200 end=-3600\n"
    text += "lease rai/old d1-n2 8 rai/e start=-3600"
    assert spent_hours(text) == 8 + 8 * 9


def test_hours_of_another_attempt_count_from_its_own_start() -> None:
    text = BASE + "env rai/e 64\nrun rai/old 8 duration=36000\nlease rai/old d1-n1 8 rai/e start=-7200 end=-3600\n"
    text += "lease rai/old d1-n2 8 rai/e start=-3600 attempt=2"
    assert spent_hours(text) == 8 + 8 * 10


def test_hours_of_a_run_without_duration_count_from_now_on() -> None:  # C2
    text = BASE + "env rai/e 64\nrun rai/old 8\nlease rai/old d1-n1 8 rai/e start=-3600"
    assert spent_hours(text) == 8 + 8 * 24
    assert spent_hours(text.replace("env rai/e 64", "env rai/e 64 until=7200")) == 8 + 8 * 2


def test_hours_of_a_run_past_its_duration_count_nothing_more() -> None:  # C2
    text = BASE + "env rai/e 64\nrun rai/old 8 duration=1800\nlease rai/old d1-n1 8 rai/e start=-3600"
    assert spent_hours(text) == 8


def test_hours_of_a_namesake_are_those_of_work_without_a_duration() -> None:
    text = BASE + "env rai/e 64\nrun rai/old 8 duration=1800\nlease rai/old d1-n1 8 rai/e start=-3600"
    other = replace(snapshot(text), runs=(replace(run_of("rai/old 8 duration=1800"), uid="another"),))
    books = World.of(other, 0).books
    purse = books.tree.purse(PAYER)
    assert purse is not None
    assert books.spent_seconds(purse, Ask(now=0, horizon=FOREVER, ahead=None)) == 8 * 25 * HOUR


def test_spares_count_in_hours_and_concurrency_fillers_only_in_hours() -> None:  # O1, P4
    text = BASE + "env rai/e 64\nlease rai/s d1-n1 8 rai/e role=Spare start=0\n"
    text += "lease rai/f d1-n1 4 rai/e role=Borrowed start=0"
    assert (world(text).books.held(PAYER), spent_hours(text)) == (8, 12 * 24)


def test_opportunistic_run_needs_hours_but_no_concurrency() -> None:  # O1
    text = BASE + "env rai/e 1 hours=8"
    fit = fits(text, "rai/f 8 per=8 duration=3600 opportunistic")
    assert [seat.role for seat in fit.seats] == [Role.FILLER]
    assert refused(text, "rai/f 8 per=8 duration=3601 opportunistic").reason is Reason.GPU_HOUR_CAP


def test_envelope_over_its_cap_takes_on_nothing_new() -> None:  # R6
    text = BASE + "env rai/e 4\nlease rai/old d1-n1 8 rai/e"
    assert refused(text, "rai/t 1").reason is Reason.CONCURRENCY_CAP
    assert refused(text, "rai/f 1 opportunistic").reason is Reason.CONCURRENCY_CAP


def test_reservation_holds_hours_from_the_moment_it_is_made() -> None:  # F3
    text = BASE + "env rai/e 64 hours=100\nrun rai/later 8 duration=36000\n"
    text += "reserve rai/later at=360000 nodes=d1-n1:8 pays=rai/e:8"
    assert spent_hours(text) == 80
    assert fits(text, "rai/t 4 duration=18000").width == 4
    assert refused(text, "rai/t 5 duration=18000").reason is Reason.GPU_HOUR_CAP


def test_reservation_without_duration_holds_the_window_from_its_start() -> None:
    text = BASE + "env rai/e 64 until=7200\nrun rai/later 8\nreserve rai/later at=3600 pays=rai/e:8"
    assert spent_hours(text) == 8


def test_reservation_holds_concurrency_against_work_that_would_reach_into_it() -> None:  # F3
    text = BASE + "env rai/e 8\nrun rai/later 8 duration=60\nreserve rai/later at=3600 pays=rai/e:8"
    assert fits(text, "rai/t 8 duration=3600").width == 8
    assert refused(text, "rai/t 8 duration=3601").reason is Reason.CONCURRENCY_CAP
    assert refused(text, "rai/t 8").reason is Reason.CONCURRENCY_CAP


def test_reservation_far_off_still_stops_work_without_a_duration() -> None:  # F3
    text = BASE + "env rai/e 8\nrun rai/later 8\nreserve rai/later at=36000000 pays=rai/e:8"
    assert refused(text, "rai/t 8").reason is Reason.CONCURRENCY_CAP
    assert fits(text, "rai/t 8 opportunistic").width == 8


def test_reservation_overdue_holds_until_it_is_released() -> None:  # F3
    text = BASE + "env rai/e 8\nrun rai/later 8\nreserve rai/later at=-3600 made=-7200 pays=rai/e:8"
    assert refused(text, "rai/t 8 duration=1").reason is Reason.CONCURRENCY_CAP
    assert fits(text + " state=Released", "rai/t 8").width == 8
    assert fits(text + " state=Canceled", "rai/t 8").width == 8


def test_reservation_of_a_run_that_is_gone_holds_nothing() -> None:  # F3
    text = BASE + "env rai/e 8\nreserve rai/later at=0 pays=rai/e:8"
    assert fits(text, "rai/t 8").width == 8
    assert fits(text + "\nrun rai/later 8 canceled", "rai/t 8").width == 8


def test_reservation_of_a_run_that_started_is_counted_once() -> None:
    text = BASE + "env rai/e 16\nrun rai/later 8\nlease rai/later d1-n1 8 rai/e start=-10\n"
    text += "reserve rai/later at=-20 made=-60 nodes=d1-n1:8 pays=rai/e:8"
    assert fits(text, "rai/t 8").width == 8


def test_reservation_blocked_holds_nothing() -> None:  # F1 (d)
    text = BASE + "env rai/e 8 hours=8\nrun rai/later 8 duration=3600\nreserve rai/later pays=rai/e:8"
    assert fits(text, "rai/t 8 duration=3600").width == 8


def test_reservation_of_a_loan_counts_in_the_lending_cap() -> None:  # C5, F3
    text = BASE + "budget mm org:lab:mm\nenv mm/e 64 lends=* lend-max=8\n"
    text += "run rai/later 8 sponsors=org:lab:mm\nreserve rai/later at=0 pays=mm/e:6"
    assert refused(text, "rai/t 4 sponsors=org:lab:mm").reason is Reason.LENDING_CAP
    assert pays(fits(text, "mm/t 4 owner=org:lab:mm").seats) == ["mm/e 4 owned"]


def test_own_reservation_never_counts_against_its_run() -> None:
    text = BASE + "env rai/e 8 hours=8\nrun rai/later 8 duration=3600\n"
    text += "reserve rai/later at=0 nodes=d1-n1:8 pays=rai/e:8"
    assert fits(text, "rai/later 8 duration=3600").width == 8


def test_settled_hours_are_the_base_and_the_closes_after_it() -> None:
    base = LedgerBase(seq=5, settled=(Settled(payer=PAYER, funding=FundingClass.OWNED, gpu_seconds=100),))
    entries = (
        entry(4, kind=EntryKind.CLOSE, closes=(closed("l-2-0", 7),)),  # pending: already in the base
        entry(6, kind=EntryKind.CLOSE, closes=(closed("l-3-0", 20),)),
        entry(7, kind=EntryKind.CLOSE, closes=(closed("l-6-0", 50),), void="wrong prev"),
    )
    assert settled(Snapshot(base=base, entries=entries)) == {(PAYER, FundingClass.OWNED): 120}


def test_settled_closed_leases_count_themselves_only_where_nothing_is_settled() -> None:
    text = "lease rai/a n 1 rai/e start=0 end=10 name=l-3-0\nlease rai/b n 1 rai/e start=0 end=20 name=l-9-0\n"
    text += "lease rai/c n 1 rai/e start=0 end=40 name=odd\nlease rai/d n 1 rai/e start=0 end=80 name=l-8-1"
    world = snapshot(text)
    assert settled(world) == {(PAYER, FundingClass.OWNED): 150}
    told = entry(10, kind=EntryKind.CLOSE, closes=(closed("l-8-1", 1),))
    assert settled(replace(world, entries=(told,))) == {(PAYER, FundingClass.OWNED): 10 + 20 + 40 + 1}
    assert settled(replace(world, base=LedgerBase(seq=5), entries=(told,))) == {(PAYER, FundingClass.OWNED): 1}
    row = Settled(payer=PAYER, funding=FundingClass.OWNED, gpu_seconds=7)
    assert settled(replace(world, base=LedgerBase(settled=(row,)))) == {(PAYER, FundingClass.OWNED): 7}


def test_lease_number_of_another_shape_belongs_to_no_entry() -> None:
    assert [lease_number(name) < 1 << 40 for name in ("l-12-3", "l-x-3", "lease-1", "l-1", "l-1-2-3")] == [
        True,
        False,
        False,
        False,
        False,
    ]


def test_entry_not_yet_written_counts_as_open_leases() -> None:  # section 6
    world = replace(snapshot(""), entries=(entry(1, opens=(opened("l-1-0"), opened("l-1-1", "d1-n2"))),))
    leases = open_leases(world)
    assert sorted((key, lease.start_at) for key, lease in leases.items()) == [
        ("rai/l-1-0", -HOUR),
        ("rai/l-1-1", -HOUR),
    ]


def test_entry_written_counts_once_and_a_close_ends_it() -> None:
    text = snapshot("lease rai/old d1-n1 8 rai/e name=l-1-0")
    start = entry(1, opens=(opened("l-1-0"), opened("l-1-1")))
    assert len(open_leases(replace(text, entries=(start,)))) == 2
    close = entry(2, kind=EntryKind.CLOSE, closes=(closed("l-1-0", 5), closed("l-1-1", 5)))
    assert open_leases(replace(text, entries=(start, close))) == {}


def test_entry_void_changes_nothing() -> None:
    assert open_leases(Snapshot(entries=(entry(1, opens=(opened("l-1-0"),), void="bad shape"),))) == {}


def test_world_without_a_lease_frees_its_concurrency_and_its_look_ahead() -> None:
    text = BASE + "env rai/e 8 hours=100\nrun rai/old 8 duration=36000\nlease rai/old d1-n1 8 rai/e start=-3600"
    here = world(text)
    after = here.without(["rai/lease-000"])
    purse = here.tree.purse(PAYER)
    assert purse is not None
    ask = Ask(now=0, horizon=FOREVER, ahead=HOUR)
    limits = [books.headroom(purse, ask, Tab()).gpus for books in (here.books, after.books)]
    assert (limits, after.books.spent_seconds(purse, ask)) == ([0, 8], 8 * HOUR)


def test_world_later_has_seen_runs_end_and_their_hours_spent() -> None:
    text = BASE + "env rai/e 8 hours=100\nrun rai/old 8 duration=7200\nlease rai/old d1-n1 8 rai/e start=-3600"
    here = world(text)
    assert [here.at(instant).books.held(PAYER) for instant in (0, 3599, 3600, 9999)] == [8, 8, 0, 0]
    purse = here.tree.purse(PAYER)
    assert purse is not None
    assert here.at(9999).books.spent_seconds(purse, Ask(now=9999, horizon=FOREVER, ahead=1)) == 16 * HOUR


def test_world_unused_keeps_the_hours_that_are_burnt() -> None:  # F1 (a)
    text = BASE + "env rai/e 8 hours=100\nrun rai/old 8\nlease rai/old d1-n1 8 rai/e start=-3600\n"
    text += "run rai/later 8\nreserve rai/later at=0 pays=rai/e:8\nsettled rai/e 3600"
    unused = world(text).unused(0)
    purse = unused.tree.purse(PAYER)
    assert purse is not None
    ask = unused.ask(run_of("rai/t 8 duration=3600"))
    assert (unused.books.held(PAYER), unused.books.spent_seconds(purse, ask)) == (0, 9 * HOUR)
