"""Lotteries in the audit: each freeze, seed and pick is recomputed (R3, R4, R6)."""

from __future__ import annotations

from dataclasses import replace

from kubectl_runs.commit.draft import Draft
from kubectl_runs.evidence import evidence
from kubectl_runs.wire import decode
from planner.audit import audit_draw
from planner.draw import budget_seed, order
from planner.model import DrawRecord, Ended, EntryKind, Freeze, FundingClass, Token
from tests import ledger_world
from tests.ledger_world import NLP, NOW, RAI, T0, World, bare, start, whole
from tests.planner.audits import errors

OWNED = FundingClass.OWNED


def test_audit_draw_by_seed_is_examined_alone() -> None:
    world = whole()
    seed = world.entry(5)["spec"]["draw"]["seed"]
    snapshot, _ = evidence(world.list())
    assert audit_draw(snapshot, NOW, seed).ok
    assert not audit_draw(snapshot, NOW, "ab" * 32).ok


def test_audit_token_left_out_of_the_freeze_is_found() -> None:
    world = whole()
    entry = world.entry(4)
    entry["spec"]["freeze"]["tokens"].pop(0)
    found = [
        message for check, where, message in errors(world) if (check, where) == ("draws", "ledgerentry/000000000004")
    ]
    assert found == ["nlp/prep held GPUs there and is fixed, but has no token"]


def tightened(*tokens: Token) -> World:
    """A node that two budgets share; `nlp` was lowered, its lottery is frozen with these tokens and drawn."""
    world = bare()
    world.add(ledger_world.node("n5", gpus=32), ledger_world.run("nlp/more", "org:ai:nlp", 8))
    world.objects["Budget", "nlp"]["spec"]["envelopes"][0]["concurrency"] = 16
    start(world, T0, "rai/big", ("n5", 8, RAI, OWNED))
    start(world, T0 + 1, "nlp/prep", ("n5", 8, NLP, OWNED))
    start(world, T0 + 2, "nlp/more", ("n5", 8, NLP, OWNED))
    freeze = Freeze(algorithm="two-stage/1", flavor="H100", nodes=("n5",), deficit_gpus=8, tokens=tokens)
    frozen = world.append(T0 + 60, Draft(kind=EntryKind.FREEZE, budgets=world.records("nlp"), freeze=freeze))
    seed = budget_seed(decode.entry(world.entry(frozen)), "nlp").hex()
    loser = order(bytes.fromhex(seed), tokens)[0].run
    ends = (Ended(namespace="nlp", lease=f"l-{2 if loser == 'nlp/prep' else 3}-0", reason=f"RandomPreempt({seed})"),)
    draw = DrawRecord(freeze=frozen, seed=seed, picks=(loser,))
    world.append(T0 + 61, Draft(kind=EntryKind.CUT, budgets=world.records("nlp"), ends=ends, draw=draw))
    return world


PREP, MORE = (Token(owner="org:ai:nlp", run=f"nlp/{name}", gpus=8) for name in ("prep", "more"))


def test_audit_lottery_of_a_budget_is_over_what_it_pays_not_over_its_nodes() -> None:
    assert errors(tightened(MORE, PREP)) == []


def test_audit_lottery_of_a_budget_that_spares_somebody_is_found() -> None:
    message = "nlp/more held GPUs there and is fixed, but has no token"
    assert ("draws", "ledgerentry/000000000004", message) in errors(tightened(PREP))


def test_audit_token_of_more_gpus_than_held_is_found() -> None:
    message = "the token of nlp/more names 9 GPUs, it held 8"
    assert ("draws", "ledgerentry/000000000004", message) in errors(tightened(replace(MORE, gpus=9), PREP))


def test_audit_draw_passes_over_a_run_that_was_ending_already() -> None:
    """R4: between freeze and cut the first of the order was cancelled, so the second is taken."""
    world = bare()
    world.add(ledger_world.node("n5", gpus=32), ledger_world.run("nlp/more", "org:ai:nlp", 8))
    world.objects["Budget", "nlp"]["spec"]["envelopes"][0]["concurrency"] = 16
    start(world, T0, "nlp/prep", ("n5", 8, NLP, OWNED))
    start(world, T0 + 1, "nlp/more", ("n5", 8, NLP, OWNED))
    freeze = Freeze(algorithm="two-stage/1", flavor="H100", nodes=("n5",), deficit_gpus=8, tokens=(MORE, PREP))
    frozen = world.append(T0 + 60, Draft(kind=EntryKind.FREEZE, budgets=world.records("nlp"), freeze=freeze))
    seed = budget_seed(decode.entry(world.entry(frozen)), "nlp").hex()
    first, second = (token.run for token in order(bytes.fromhex(seed), (MORE, PREP)))
    lease = {"nlp/prep": "l-1-0", "nlp/more": "l-2-0"}
    ends = (Ended(namespace="nlp", lease=lease[first], reason="Canceled"),)
    world.append(T0 + 61, Draft(kind=EntryKind.END, run=world.ref(first), ends=ends))
    cut = (Ended(namespace="nlp", lease=lease[second], reason=f"RandomPreempt({seed})"),)
    draw = DrawRecord(freeze=frozen, seed=seed, picks=(second,))
    world.append(T0 + 62, Draft(kind=EntryKind.CUT, budgets=world.records("nlp"), ends=cut, draw=draw))
    assert errors(world) == []
