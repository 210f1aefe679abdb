"""R1 to R5: who yields for a reservation, stage by stage, domain by domain."""

from __future__ import annotations

from dataclasses import replace

from planner import draw
from planner.model import Ended, Entry, EntryKind, Freeze, Token
from planner.resolve import activate
from planner.trace import replay
from tests.planner.answers import places
from tests.planner.verdicts import activated, cuts, domains, freeze_entry, planned, reservation_of, told, with_uid
from tests.planner.worlds import snapshot

ONE = "nodes us-west/a/d1 1x8\n"
TWO = "nodes us-west/a/d1 2x8\n"
ISLANDS = "nodes us-west/a/d1 1x8\nnodes us-west/a/d2 1x8\n"
RICH = "budget rai org:ai:rai\nenv rai/e 1000\n"


def due(shape: str) -> str:
    """A run that waits, with a promise that is due."""
    gpus = shape.split()[0]
    return f"run rai/big {shape}\nreserve rai/big at=0 pays=rai/e:{gpus}\n"


def filler(name: str, *leases: str) -> str:
    gpus = sum(int(lease.split(":")[1]) for lease in leases)
    lines = [f"run rai/{name} {gpus} opportunistic"]
    lines += [f"lease rai/{name} {lease.replace(':', ' ')} rai/e role=Borrowed" for lease in leases]
    return "\n".join(lines) + "\n"


def fixed(name: str, *leases: str, owner: str = "org:ai:rai") -> str:
    gpus = sum(int(lease.split(":")[1]) for lease in leases)
    lines = [f"run rai/{name} {gpus} owner={owner}"]
    lines += [f"lease rai/{name} {lease.replace(':', ' ')} rai/e" for lease in leases]
    return "\n".join(lines) + "\n"


def malleable(name: str, least: int, *leases: str) -> str:
    """Groups 0, 1, 2, ... of one lease each."""
    gpus = sum(int(lease.split(":")[1]) for lease in leases)
    step = int(leases[0].split(":")[1])
    lines = [f"run rai/{name} {gpus} per={step} min={least} max={gpus} step={step}"]
    lines += [f"lease rai/{name} {lease.replace(':', ' ')} rai/e group={index}" for index, lease in enumerate(leases)]
    return "\n".join(lines) + "\n"


# Whether anybody yields at all


def test_activate_room_there_starts_without_cuts() -> None:
    decision = activated(ONE + RICH + due("8 per=8"))
    assert (told(decision), cuts(decision), places(decision.seats)) == ("start", [], ["0 d1-n1 8 Active"])


def test_activate_nobody_pays_cuts_nobody() -> None:  # R1
    text = ONE + "budget rai org:ai:rai\nenv rai/e 8\n" + fixed("a", "d1-n1:8") + due("8 per=8")
    decision = activated(text)
    assert (told(decision), cuts(decision), decision.lottery) == ("reserve ConcurrencyCap lacks 8", [], None)


def test_activate_victim_pays_from_the_same_purse_does_not_count_as_free() -> None:  # R1
    """Cutting would free the payer too, but a reservation cuts only for GPUs."""
    text = (
        TWO + "budget rai org:ai:rai\nenv rai/e 8\n" + filler("f", "d1-n2:8") + fixed("a", "d1-n1:8") + due("8 per=8")
    )
    assert told(activated(text)).startswith("reserve ConcurrencyCap")


def test_activate_pack_cannot_be_made_to_succeed_cuts_nobody() -> None:  # R5
    text = ONE + RICH + "pod kube/foreign d1-n1 4\n" + fixed("a", "d1-n1:4") + due("8 per=8")
    decision = activated(text)
    assert (told(decision), cuts(decision)) == ("reserve NoCapacity at 0 needs-cuts lacks 8", [])
    assert decision.lottery is None


def test_activate_run_gone_or_begun_is_none() -> None:
    gone = snapshot(ONE + RICH + due("8 per=8"))
    assert told(activate(replace(gone, runs=()), reservation_of(gone), 0)) == "none"
    assert told(activated(ONE + RICH + due("8 per=8") + "lease rai/big d1-n1 8 rai/e start=0\n")) == "none"


def test_activate_before_its_time_shows_what_it_would_do() -> None:  # section 8
    text = ONE + RICH + fixed("a", "d1-n1:8") + due("8 per=8").replace("at=0", "at=7200")
    assert cuts(activated(text)) == ["RandomPreempt rai/a - 8?"]


# Stage 1: fillers


def test_fillers_smallest_enough_alone_is_taken() -> None:  # R2 (1)
    text = "nodes us-west/a/d1 3x8\n" + RICH + filler("a", "d1-n1:8", "d1-n2:8") + filler("b", "d1-n3:8")
    assert cuts(activated(text + due("8 per=8"))) == ["EndFiller rai/b - 8"]


def test_fillers_none_enough_alone_takes_the_largest_and_asks_again() -> None:
    """6 is enough with none of 4, 2, 2 alone: the largest, then of 2 and 2 the one that is enough by key."""
    text = ONE + RICH + filler("a", "d1-n1:2") + filler("b", "d1-n1:2") + filler("c", "d1-n1:4") + due("6")
    assert cuts(activated(text)) == ["EndFiller rai/c - 4", "EndFiller rai/a - 2"]


def test_fillers_taken_and_unnecessary_are_given_back_last_first() -> None:
    """By size: `c` on the small node is the largest but of no use; `a` is enough, and `c` is given back."""
    text = "nodes us-west/a/d1 8,6\n" + RICH + filler("c", "d1-n2:6") + filler("a", "d1-n1:4") + filler("b", "d1-n1:4")
    assert cuts(activated(text + due("8 per=8"))) == ["EndFiller rai/a - 4", "EndFiller rai/b - 4"]


def test_filler_ends_whole_and_its_size_is_all_its_gpus() -> None:
    """`a` holds 4 here and 8 elsewhere, 12 in all, so `b` with 8 is the smaller; alone, `a` ends everywhere."""
    text = TWO + "nodes us-west/a/d2 1x8\n" + RICH + filler("a", "d1-n1:4", "d2-n1:8") + due("4 per=4")
    both = text + filler("b", "d1-n2:8") + fixed("c", "d1-n1:4")
    assert cuts(activated(both)) == ["EndFiller rai/b - 8"]
    alone = text + fixed("b", "d1-n2:8") + fixed("c", "d1-n1:4")
    assert cuts(activated(alone)) == ["EndFiller rai/a - 12"]


def test_filler_on_a_spare_frees_nothing_alone() -> None:  # P1, R5: counted once
    text = ONE + RICH + "nodes us-west/a/d9 1x8\n"
    text += "run rai/s 8 per=8 spares=1\nlease rai/s d9-n1 8 rai/e\nlease rai/s d1-n1 8 rai/e role=Spare\n"
    decision = activated(text + filler("f", "d1-n1:8") + due("8 per=8"))
    assert cuts(decision) == ["EndFiller rai/f - 8", "DropSpare rai/s 0 8"]


# Stage 2: spares


def test_spares_before_anybodys_work() -> None:  # R2 (2)
    text = TWO + RICH + "run rai/s 8 per=8 spares=1\nlease rai/s d1-n1 8 rai/e\nlease rai/s d1-n2 8 rai/e role=Spare\n"
    decision = activated(text + due("8 per=8"))
    assert (cuts(decision), places(decision.seats)) == (["DropSpare rai/s 0 8"], ["0 d1-n2 8 Active"])


def test_spares_only_as_many_as_pack_needs() -> None:
    text = "nodes us-west/a/d1 4x8\n" + RICH + "run rai/s 8 per=4 spares=3\nlease rai/s d1-n1 8 rai/e\n"
    text += "".join(f"lease rai/s d1-n{n} 8 rai/e role=Spare name=s{n}\n" for n in (2, 3, 4))
    assert cuts(activated(text + due("8 per=8"))) == ["DropSpare rai/s 0 8"]
    assert activated(text + due("8 per=8")).cuts[0].leases == ("rai/s2",)


def test_filler_unnecessary_after_a_spare_is_given_back() -> None:
    text = TWO + RICH + filler("f", "d1-n1:4") + fixed("a", "d1-n1:4")
    text += "run rai/s 8 per=8 spares=1\nnodes us-west/a/d9 1x8\nlease rai/s d9-n1 8 rai/e\n"
    text += "lease rai/s d1-n2 8 rai/e role=Spare\n" + due("8 per=8")
    assert cuts(activated(text)) == ["DropSpare rai/s 0 8"]


# Stage 3: malleable runs


def test_shrink_highest_index_first_as_a_number() -> None:  # R2 (3)
    text = "nodes us-west/a/d1 1x16\n" + RICH + malleable("m", 1, *["d1-n1:1"] * 11) + due("7")
    assert cuts(activated(text)) == ["Shrink rai/m 10 1", "Shrink rai/m 9 1"]


def test_shrink_runs_by_key_never_below_the_minimum() -> None:
    text = "nodes us-west/a/d1 4x8\n" + RICH + malleable("b", 8, "d1-n1:8", "d1-n2:8")
    text += malleable("a", 8, "d1-n3:8", "d1-n4:8") + due("16 per=8")
    assert cuts(activated(text)) == ["Shrink rai/a 1 8", "Shrink rai/b 1 8"]


def test_shrink_steps_do_not_matter() -> None:
    """min 8, step 16 of groups of 8: one group may go, although 16 is not min plus a whole step."""
    text = "nodes us-west/a/d1 3x8\n" + RICH
    text += "run rai/m 24 per=8 group=8 min=8 max=24 step=16\n"
    text += "".join(f"lease rai/m d1-n{n + 1} 8 rai/e group={n}\n" for n in range(3)) + due("8 per=8")
    assert cuts(activated(text)) == ["Shrink rai/m 2 8"]


def test_shrink_takes_the_spares_of_its_group_and_counts_them_once() -> None:  # R2, R5
    text = "nodes us-west/a/d1 4x8\n" + RICH + malleable("m", 8, "d1-n1:8", "d1-n2:8")
    text += "lease rai/m d1-n3 8 rai/e group=1 role=Spare\nlease rai/m d1-n4 8 rai/e group=0 role=Spare\n"
    decision = activated(text + due("24 per=8"))
    assert cuts(decision) == ["DropSpare rai/m 0 8", "Shrink rai/m 1 16"]
    keys = [key for cut in decision.cuts for key in cut.leases]
    assert len(keys) == len(set(keys))


def test_shrink_groups_in_another_domain_are_no_candidates() -> None:
    """The highest index lies in d2; for room in d1 it is the group there that leaves."""
    text = ISLANDS + RICH + malleable("m", 8, "d1-n1:8", "d2-n1:8") + due("8 per=8")
    assert (domains(activated(text)), cuts(activated(text))) == (["d1"], ["Shrink rai/m 0 8"])


def test_shrink_opportunistic_malleable_run_is_a_filler() -> None:  # O1
    text = TWO + RICH + "run rai/f 16 per=8 min=8 max=16 step=8 opportunistic\n"
    text += "lease rai/f d1-n1 8 rai/e role=Borrowed group=0\nlease rai/f d1-n2 8 rai/e role=Borrowed group=1\n"
    assert cuts(activated(text + due("8 per=8"))) == ["EndFiller rai/f - 16"]


# Stage 4: the lottery

CROWD = "nodes us-west/a/d1 4x8\n" + RICH + malleable("m", 8, "d1-n1:8") + fixed("a", "d1-n2:8")
CROWD += fixed("b", "d1-n3:8") + fixed("c", "d1-n4:8", owner="org:bio")


def test_lottery_tokens_are_the_fixed_runs_there() -> None:  # R3
    decision = activated(CROWD + due("8 per=8"))
    assert decision.lottery is not None
    assert [(c.token.run, c.token.owner, c.chance) for c in decision.lottery.chances] == [
        ("rai/a", "org:ai:rai", "1/4"),
        ("rai/b", "org:ai:rai", "1/4"),
        ("rai/c", "org:bio", "1/2"),
    ]
    assert decision.lottery.freeze.nodes == ("d1-n1", "d1-n2", "d1-n3", "d1-n4")
    assert (decision.lottery.freeze.deficit_gpus, decision.lottery.freeze.algorithm) == (8, "two-stage/1")
    assert len(decision.cuts) == 1


def test_lottery_example_follows_its_own_seed() -> None:  # R4
    decision = activated(CROWD + due("16 per=8"))
    lottery = decision.lottery
    assert lottery is not None
    assert lottery.provisional
    whole = [token.run for token in draw.order(bytes.fromhex(lottery.seed), lottery.freeze.tokens)]
    assert list(lottery.picks) == whole[:2]
    assert cuts(decision) == [f"RandomPreempt {run} - 8?" for run in lottery.picks]


def test_lottery_gang_is_cut_whole_with_its_spares() -> None:  # R3
    text = (
        ISLANDS + RICH + "run rai/a 8 per=4 spares=1\nlease rai/a d1-n1 8 rai/e\nlease rai/a d2-n1 4 rai/e role=Spare\n"
    )
    text += "pod kube/x d2-n1 4\n" + due("8 per=8")
    assert cuts(activated(text)) == ["RandomPreempt rai/a - 12?"]


def test_lottery_run_with_nothing_but_spares_there_is_no_token() -> None:
    text = "nodes us-west/a/d1 2x8\nnode d9-n1 us-east/b/d9 8 taint=x:NoSchedule\n" + RICH
    text += "run rai/s 8 per=8 spares=1\nlease rai/s d9-n1 8 rai/e\nlease rai/s d1-n1 8 rai/e role=Spare\n"
    decision = activated(text + fixed("a", "d1-n2:8") + due("16 per=8"))
    assert decision.lottery is not None
    assert [c.token.run for c in decision.lottery.chances] == ["rai/a"]
    assert cuts(decision) == ["DropSpare rai/s 0 8", "RandomPreempt rai/a - 8?"]


# Domains


def test_domain_with_the_earliest_last_stage_wins() -> None:  # R2
    text = ISLANDS + RICH + fixed("a", "d1-n1:8") + filler("f", "d2-n1:8") + due("8 per=8")
    assert (domains(activated(text)), cuts(activated(text))) == (["d2"], ["EndFiller rai/f - 8"])


def test_domain_then_the_fewest_gpus_cut() -> None:
    text = "nodes us-west/a/d1 2x8\nnodes us-west/a/d2 1x8\n" + RICH
    text += filler("f", "d1-n1:8", "d1-n2:8") + filler("g", "d2-n1:8") + due("8 per=8")
    assert (domains(activated(text)), cuts(activated(text))) == (["d2"], ["EndFiller rai/g - 8"])


def test_domain_in_the_lottery_the_fewest_missing_before_it_wins() -> None:
    text = "nodes us-west/a/d1 2x8\nnodes us-west/a/d2 2x8\n" + RICH
    text += fixed("a", "d1-n1:8") + fixed("b", "d1-n2:8") + fixed("c", "d2-n1:8") + fixed("d", "d2-n2:4")
    decision = activated(text + due("16 per=4"))
    assert domains(decision) == ["d2"]
    assert decision.lottery is not None
    assert decision.lottery.freeze.deficit_gpus == 12


def test_domain_whose_pod_slots_are_taken_needs_those_too() -> None:  # P1
    """GPUs are free, slots are not: two small fillers must leave before two pods of the winner fit."""
    text = "node d1-n1 us-west/a/d1 8 pods=3\n" + RICH
    for name in "abc":
        text += f"run rai/{name} 1 opportunistic\nlease rai/{name} d1-n1 1 rai/e role=Borrowed pod=p{name}\npod rai/p{name} d1-n1 1\n"
    decision = activated(text + due("4 per=2"))
    assert (told(decision), cuts(decision)) == ("start lacks 4", ["EndFiller rai/a - 1", "EndFiller rai/b - 1"])


def test_domain_pod_with_two_payers_leaves_its_slot_once() -> None:  # C8
    text = "node d1-n1 us-west/a/d1 8 pods=2\n" + RICH + "env rai/x 100\nrun rai/a 2 per=2 opportunistic\n"
    text += "lease rai/a d1-n1 1 rai/e role=Borrowed pod=pa\nlease rai/a d1-n1 1 rai/x role=Borrowed pod=pa\npod rai/pa d1-n1 2\n"
    assert cuts(activated(text + due("4 per=2"))) == ["EndFiller rai/a - 2"]
    assert told(activated(text + due("6 per=2"))).startswith("reserve NoTopology")


def test_domain_then_the_name() -> None:
    text = ISLANDS + RICH + filler("g", "d1-n1:8") + filler("f", "d2-n1:8") + due("8 per=8")
    assert (domains(activated(text)), cuts(activated(text))) == (["d1"], ["EndFiller rai/g - 8"])


def test_domain_too_small_is_not_tried() -> None:
    text = "nodes us-west/a/d1 1x4\nnodes us-west/a/d2 1x8\n" + RICH
    text += filler("f", "d1-n1:4") + fixed("a", "d2-n1:8") + due("8 per=8")
    assert cuts(activated(text)) == ["RandomPreempt rai/a - 8?"]


def test_domain_nodes_of_another_flavor_are_not_in_the_scope() -> None:  # R4
    text = ONE + "node a1 us-west/a/d1 8 flavor=A100\nbudget old org:ai:rai\nenv old/e 8 flavor=A100\n" + RICH
    text += fixed("a", "d1-n1:8") + "run rai/b 8 flavor=A100\nlease rai/b a1 8 old/e\n"
    text += "run rai/f 8 opportunistic flavor=A100\nlease rai/f a1 8 old/e role=Borrowed\n"
    decision = activated(text + due("8 per=8"))
    assert decision.lottery is not None
    assert [c.token.run for c in decision.lottery.chances] == ["rai/a"]
    assert decision.lottery.freeze.nodes == ("d1-n1",)
    assert cuts(decision) == ["RandomPreempt rai/a - 8?"]


# Groups


def test_groups_that_fit_stay_and_the_rest_makes_room() -> None:  # R2
    text = "nodes us-west/a/d1 1x8\nnodes us-west/a/d2 1x8\n" + RICH + filler("f", "d2-n1:8")
    decision = activated(text + due("16 per=8 group=8"))
    assert (told(decision), cuts(decision)) == ("start lacks 8", ["EndFiller rai/f - 8"])
    assert places(decision.seats) == ["0 d1-n1 8 Active", "1 d2-n1 8 Active"]


def test_groups_one_after_another_each_in_its_best_domain() -> None:
    text = ISLANDS + RICH + filler("f", "d1-n1:8") + malleable("m", 0, "d2-n1:8") + due("16 per=8 group=8")
    assert cuts(activated(text)) == ["EndFiller rai/f - 8", "Shrink rai/m 0 8"]


def test_groups_together_are_cut_for_in_one_domain() -> None:  # P2
    text = "nodes us-west/a/d1 2x8\nnodes us-west/a/d2 1x8\n" + RICH + filler("f", "d1-n1:8")
    text += due("16 per=8 group=8 together")
    decision = activated(text)
    assert (domains(decision), cuts(decision)) == (["d1", "d1"], ["EndFiller rai/f - 8"])


def test_run_without_groups_that_no_domain_holds_is_split_as_on_the_empty_fleet() -> None:
    """On the empty fleet 40 are 32 + 8. The 32 make room in d1, the 8 fit into d2 as it is."""
    text = "nodes us-west/a/d1 4x8\nnodes us-west/a/d2 3x8\n" + RICH + filler("f", "d1-n1:8") + filler("g", "d2-n1:8")
    decision = activated(text + filler("h", "d1-n2:8") + due("40 per=8"))
    assert (told(decision), domains(decision)) == ("start lacks 8", ["d1", "d2"])
    assert cuts(decision) == ["EndFiller rai/f - 8", "EndFiller rai/h - 8"]


def test_run_split_small_group_does_not_block_the_large_one() -> None:
    """32 + 8: of d1 only 8 are free now; the group of 8 must not take them, for d1 alone holds the 32."""
    text = "nodes us-west/a/d1 4x8\nnodes us-west/a/d2 1x8\n" + RICH
    text += filler("f", "d1-n1:8", "d1-n2:8", "d1-n3:8") + filler("g", "d2-n1:8") + due("40 per=8")
    decision = activated(text)
    assert cuts(decision) == ["EndFiller rai/f - 24", "EndFiller rai/g - 8"]
    assert domains(decision) == ["d1", "d2"]


def test_run_that_the_empty_fleet_cannot_hold_cuts_nobody() -> None:
    """Of two pods of 4 only one could ever be placed: half a gang is nothing to cut for."""
    text = "nodes us-west/a/d1 4,3\n" + RICH + filler("f", "d1-n1:4") + due("8 per=4")
    decision = activated(text)
    assert (decision.verdict.value, cuts(decision)) == ("reserve", [])


def test_winner_with_spares_makes_room_for_them_too() -> None:  # P4
    text = TWO + RICH + filler("f", "d1-n2:8") + due("8 per=8 spares=1")
    decision = activated(text)
    assert cuts(decision) == ["EndFiller rai/f - 8"]
    assert places(decision.seats) == ["0 d1-n1 8 Active", "0 d1-n2 8 Spare"]


def test_malleable_winner_is_cut_for_at_its_minimum_only() -> None:
    text = "nodes us-west/a/d1 3x8\n" + RICH + fixed("a", "d1-n1:8") + fixed("b", "d1-n2:8") + fixed("c", "d1-n3:8")
    decision = activated(text + due("24 per=8 min=8 max=24 step=8"))
    assert (decision.width, len(decision.cuts)) == (8, 1)


# Frozen


def frozen_world(tokens: tuple[str, ...], text: str) -> tuple[str, Entry]:
    world = with_uid(snapshot(text))
    frozen = Freeze(
        algorithm="two-stage/1",
        flavor="H100",
        nodes=("d1-n1", "d1-n2", "d1-n3", "d1-n4"),
        deficit_gpus=8,
        tokens=draw.frozen(Token(owner="org:ai:rai", run=run, gpus=8) for run in tokens),
    )
    return text, freeze_entry(frozen, reservation_of(world))


FOUR = "nodes us-west/a/d1 4x8\n" + RICH + "".join(fixed(name, f"d1-n{n}:8") for n, name in enumerate("abcd", 1))


def test_frozen_order_is_drawn_and_no_longer_an_example() -> None:  # R4
    text, entry = frozen_world(("rai/a", "rai/b", "rai/c", "rai/d"), FOUR + due("16 per=8"))
    world = replace(with_uid(snapshot(text)), entries=(entry,))
    decision = activate(world, reservation_of(world), 0)
    assert decision.lottery is not None
    assert not decision.lottery.provisional
    seed = draw.reservation_seed(entry, reservation_of(world))
    assert entry.freeze is not None
    whole = [token.run for token in draw.order(seed, entry.freeze.tokens)]
    assert decision.lottery.seed == seed.hex()
    assert list(decision.lottery.picks) == whole[:2]
    assert cuts(decision) == [f"RandomPreempt {run} - 8" for run in whole[:2]]


def test_frozen_order_runs_that_ended_are_passed_over_and_later_ones_not_drawn() -> None:  # R4
    text, entry = frozen_world(("rai/a", "rai/b", "rai/gone"), FOUR + due("8 per=8"))
    for uid in ("u1", "u2", "u3", "u4", "u5", "u6"):
        drawn = replace(entry, uid=uid)
        world = replace(with_uid(snapshot(text)), entries=(drawn,))
        decision = activate(world, reservation_of(world), 0)
        assert decision.lottery is not None
        assert decision.lottery.picks[0] in ("rai/a", "rai/b")
        assert {cut.run for cut in decision.cuts} <= {"rai/a", "rai/b"}


def test_frozen_list_not_enough_freezes_again() -> None:  # R4
    text, entry = frozen_world(("rai/a",), FOUR + due("24 per=8"))
    world = replace(with_uid(snapshot(text)), entries=(entry,))
    decision = activate(world, reservation_of(world), 0)
    assert decision.lottery is not None
    assert decision.lottery.provisional
    assert [c.token.run for c in decision.lottery.chances] == ["rai/a", "rai/b", "rai/c", "rai/d"]


def test_frozen_for_another_reservation_does_not_count() -> None:
    text, entry = frozen_world(("rai/a",), FOUR + due("8 per=8"))
    other = replace(with_uid(snapshot(text), uid="another"), entries=(entry,))
    decision = activate(other, reservation_of(other), 0)
    assert decision.lottery is not None
    assert decision.lottery.provisional


def test_frozen_entry_no_longer_in_the_snapshot_may_be_handed_in() -> None:
    text, entry = frozen_world(("rai/a", "rai/b", "rai/c", "rai/d"), FOUR + due("8 per=8"))
    world = with_uid(snapshot(text))
    handed = activate(world, reservation_of(world), 0, freezes=(entry,))
    read = activate(replace(world, entries=(entry,)), reservation_of(world), 0)
    assert handed == read


def test_frozen_domain_stays_the_one_to_draw_in() -> None:
    """Meanwhile less is missing in d0, but whoever dislikes the draw must not be able to move it there (R4)."""
    text = "nodes us-west/a/d0 2x8\n" + FOUR + fixed("z", "d0-n1:8", "d0-n2:4") + due("16 per=4")
    text, entry = frozen_world(("rai/a", "rai/b", "rai/c", "rai/d"), text)
    world = with_uid(snapshot(text))
    before = activate(world, reservation_of(world), 0)
    after = activate(replace(world, entries=(entry,)), reservation_of(world), 0)
    assert (domains(before), domains(after)) == (["d0"], ["d1"])


def test_lotteries_of_two_domains_are_frozen_one_after_another() -> None:  # R2
    text = "nodes us-west/a/d1 1x8\nnodes us-west/a/d2 1x8\n" + RICH + fixed("a", "d1-n1:8") + fixed("b", "d2-n1:8")
    world = with_uid(snapshot(text + due("16 per=8 group=8")))
    first = activate(world, reservation_of(world), 0)
    assert first.lottery is not None
    assert first.lottery.freeze.nodes == ("d1-n1",)
    entry = freeze_entry(first.lottery.freeze, reservation_of(world))
    second = activate(replace(world, entries=(entry,)), reservation_of(world), 0)
    assert second.lottery is not None
    assert (second.lottery.provisional, second.lottery.picks) == (False, ("rai/a",))
    assert cuts(second) == ["RandomPreempt rai/a - 8", "RandomPreempt rai/b - 8?"]


def test_leases_that_are_ending_are_waited_for_and_nobody_else_is_cut() -> None:  # 6.6
    world = with_uid(snapshot(FOUR + due("8 per=8")))
    lease = next(lease for lease in world.leases if lease.run_name == "b")
    cut = Entry(
        seq=42,
        prev="",
        digest="",
        nonce="",
        read_at=0,
        time=0,
        created_at=0,
        kind=EntryKind.CUT,
        ends=(Ended(namespace="rai", lease=lease.name, reason="RandomPreempt(00)"),),
    )
    decision = activate(replace(world, entries=(cut,)), reservation_of(world), 0)
    assert (told(decision), cuts(decision)) == ("reserve NoCapacity at 0 needs-cuts lacks 8", [])
    assert "ending" in decision.message


# The trace


def test_trace_names_cuts_draws_and_domains_and_rebuilds_the_slice() -> None:
    text = CROWD + "nodes us-west/a/d2 1x4\n" + due("16 per=8")
    world = snapshot(text)
    decision = activate(world, reservation_of(world), 0)
    run = next(run for run in world.runs if run.key == "rai/big")
    assert replay(world, run, decision.trace) == decision.seats
    drew = [step.subject for step in decision.trace if step.act == "drew"]
    cut = [step.subject for step in decision.trace if step.act == "cut"]
    assert decision.lottery is not None
    assert drew == list(decision.lottery.picks)
    assert cut == [cut.run for cut in decision.cuts]


def test_plan_and_activation_tell_the_same_cuts() -> None:
    text = "nodes us-west/a/d1 3x8\n" + RICH + filler("f", "d1-n1:4") + malleable("m", 8, "d1-n2:8", "d1-n3:8")
    foretold = planned(text, "rai/big 16 per=8")
    assert cuts(foretold) == cuts(activated(text + due("16 per=8"))) == ["EndFiller rai/f - 4", "Shrink rai/m 1 8"]
