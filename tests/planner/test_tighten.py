"""R6: a budget lowered below what it holds."""

from __future__ import annotations

from dataclasses import replace

from planner import draw
from planner.model import Budget, Decision, Entry, RunRef
from planner.tighten import overruns, tighten
from tests.planner.verdicts import cuts, freeze_entry, reservation_of, told, with_uid
from tests.planner.worlds import snapshot, world

FLEET = "nodes us-west/a/d1 6x8\n"
HOUR = 3600


def tightened(text: str, budget: str = "rai", envelope: str | None = None, entries: tuple[Entry, ...] = ()) -> Decision:
    return tighten(replace(snapshot(text), entries=entries), budget, envelope, 0)


def over(text: str, envelope: str | None = None) -> list[tuple[str, int, int]]:
    seen = world(text)
    budget = next(each for each in seen.snapshot.budgets if each.name == "rai")
    return [(each.cap.name, each.gpus, each.gpu_seconds) for each in overruns(seen, budget, envelope)]


def budget(*lines: str) -> str:
    return "budget rai org:ai:rai\n" + "".join(f"{line}\n" for line in lines)


FIXED = "".join(f"run rai/{name} 8 per=8\nlease rai/{name} d1-n{n} 8 rai/e\n" for n, name in enumerate("abc", 1))


def test_overcap_envelope_within_its_cap_is_not_over() -> None:
    assert over(FLEET + budget("env rai/e 24") + FIXED) == []


def test_overcap_envelope_lowered_below_what_it_holds() -> None:
    assert over(FLEET + budget("env rai/e 20") + FIXED) == [("rai/e", 4, 0)]


def test_overcap_spares_count_and_fillers_do_not() -> None:  # P4, O1
    text = FLEET + budget("env rai/e 20") + FIXED
    assert over(text + "lease rai/a d1-n4 8 rai/e role=Spare\n") == [("rai/e", 12, 0)]
    assert over(text + "run rai/f 8 opportunistic\nlease rai/f d1-n4 8 rai/e role=Borrowed\n") == [("rai/e", 4, 0)]


def test_overcap_aggregate_cap_over_its_envelopes_together() -> None:
    text = FLEET + budget("env rai/e 24", "env rai/x 24", "cap rai/both e,x gpus=20") + FIXED
    assert over(text + "lease rai/a d1-n4 8 rai/x\n") == [("rai/both", 12, 0)]
    assert over(text, "e") == []


def test_overcap_hours_bound_to_be_burnt() -> None:
    """8 GPUs for 3 hours, one of them gone: 24 GPU-hours against a cap of 20."""
    text = FLEET + budget("env rai/e 24 hours=20") + "run rai/a 8 per=8 duration=10800\nlease rai/a d1-n1 8 rai/e\n"
    assert over(text) == [("rai/e", 0, 4 * HOUR)]


def test_overcap_endless_work_counts_by_what_it_has_burnt() -> None:
    text = FLEET + budget("env rai/e 24 hours=8") + "run rai/a 8 per=8\nlease rai/a d1-n1 8 rai/e start=-3600\n"
    assert over(text) == []
    assert over(text.replace("start=-3600", "start=-3700")) == [("rai/e", 0, 800)]


def test_tighten_within_the_cap_is_none() -> None:
    assert told(tightened(FLEET + budget("env rai/e 24") + FIXED)) == "none"
    assert told(tightened(FLEET + budget("env rai/e 24") + FIXED, budget="nobody")) == "none"


def test_tighten_stages_in_their_order() -> None:
    text = FLEET + budget("env rai/e 16") + "run rai/s 8 per=8 spares=1\nlease rai/s d1-n1 8 rai/e\n"
    text += "lease rai/s d1-n2 8 rai/e role=Spare\nrun rai/m 16 per=8 min=8 max=16 step=8\n"
    text += "lease rai/m d1-n3 8 rai/e group=0\nlease rai/m d1-n4 8 rai/e group=1\n"
    decision = tightened(text, envelope="e")
    assert (told(decision), cuts(decision)) == ("cut OverCap lacks 16", ["DropSpare rai/s 0 8", "Shrink rai/m 1 8"])
    assert (decision.run, decision.lottery) == (None, None)


def test_tighten_filler_is_of_no_use_for_concurrency_and_stays() -> None:  # O1
    text = (
        FLEET + budget("env rai/e 16") + FIXED + "run rai/f 8 opportunistic\nlease rai/f d1-n4 8 rai/e role=Borrowed\n"
    )
    assert [cut.kind.value for cut in tightened(text).cuts] == ["RandomPreempt"]


def test_tighten_smallest_spare_that_is_enough() -> None:
    text = FLEET + budget("env rai/e 20") + FIXED + "lease rai/a d1-n4 8 rai/e role=Spare\n"
    text = text.replace("env rai/e 20", "env rai/e 28") + "lease rai/b d1-n5 4 rai/e role=Spare\n"
    assert cuts(tightened(text)) == ["DropSpare rai/a 0 8"]
    assert cuts(tightened(text.replace("env rai/e 28", "env rai/e 32"))) == ["DropSpare rai/b 0 4"]


def test_tighten_leases_of_other_payers_do_not_yield() -> None:
    text = FLEET + budget("env rai/e 8", "env rai/x 8") + "run rai/a 8 per=8\nlease rai/a d1-n1 8 rai/e\n"
    text += "run rai/b 8 per=8\nlease rai/b d1-n2 8 rai/e\nrun rai/c 8 per=8\nlease rai/c d1-n3 8 rai/x\n"
    decision = tightened(text)
    assert decision.lottery is not None
    assert [chance.token.run for chance in decision.lottery.chances] == ["rai/a", "rai/b"]
    assert len(decision.cuts) == 1


def test_tighten_lottery_is_an_example_until_it_is_frozen() -> None:  # R4
    text = FLEET + budget("env rai/e 16") + FIXED
    example = tightened(text)
    assert example.lottery is not None
    assert example.lottery.provisional
    assert example.lottery.freeze.deficit_gpus == 8
    world = with_uid(snapshot(text + "run rai/big 8\nreserve rai/big at=0\n"))
    entry = replace(
        freeze_entry(example.lottery.freeze, reservation_of(world)),
        reservation=None,
        budgets=(Budget(name="rai", owner="org:ai:rai"),),
    )
    decision = tightened(text, entries=(entry,))
    assert decision.lottery is not None
    seed = draw.budget_seed(entry, "rai")
    assert (decision.lottery.provisional, decision.lottery.seed) == (False, seed.hex())
    first = draw.order(seed, example.lottery.freeze.tokens)[0].run
    assert cuts(decision) == [f"RandomPreempt {first} - 8"]
    other = replace(entry, reservation=RunRef(namespace="rai", name="big", uid="x"))
    assert told(tightened(text, entries=(other,))) == told(example)


def test_tighten_malleable_runs_at_their_minimum_leaves_all_as_it_is() -> None:  # R5
    text = FLEET + budget("env rai/e 4") + "run rai/m 8 per=8 min=8 max=8 step=8\nlease rai/m d1-n1 8 rai/e\n"
    decision = tightened(text)
    assert (told(decision), cuts(decision)) == ("none OverCap lacks 4", [])


def test_tighten_hours_burnt_ends_everything_that_still_burns() -> None:
    text = FLEET + budget("env rai/e 24 hours=4") + "run rai/a 8 per=8\nlease rai/a d1-n1 8 rai/e start=-3600\n"
    text += "run rai/f 8 opportunistic\nlease rai/f d1-n4 8 rai/e role=Borrowed start=-60\n"
    assert cuts(tightened(text)) == ["EndFiller rai/f - 8", "RandomPreempt rai/a - 8?"]


def test_tighten_hours_to_come_end_only_what_is_needed() -> None:
    text = FLEET + budget("env rai/e 24 hours=32") + "run rai/f 8 opportunistic duration=7200\n"
    text += "lease rai/f d1-n4 8 rai/e role=Borrowed start=0\n"
    text += "run rai/a 8 per=8 duration=7200\nlease rai/a d1-n1 8 rai/e start=0\n"
    assert cuts(tightened(text)) == []
    assert cuts(tightened(text.replace("hours=32", "hours=20"))) == ["EndFiller rai/f - 8"]


def test_tighten_nothing_left_to_end_is_none_and_says_so() -> None:
    decision = tightened(FLEET + budget("env rai/e 8 hours=1") + "settled rai/e 7200\n")
    assert told(decision) == "none OverCap"
    assert "1 GPU-hours" in decision.message
