"""Lotteries in the audit: each freeze, seed and pick is recomputed (R3, R4, R6)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kubectl_runs.commit.draft import Draft
from kubectl_runs.evidence import evidence
from kubectl_runs.wire import decode, encode
from planner.audit import Severity, audit_draw
from planner.draw import budget_seed, order, reservation_seed
from planner.model import DrawRecord, Ended, EntryKind, Freeze, FundingClass, Token
from tests import ledger_world
from tests.ledger_world import NLP, NOW, RAI, T0, World, bare, start, whole
from tests.planner.audits import audited, errors

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


def lottery(picked: int, *, back: int = 0, leave: int = 0) -> World:
    """`rai/big` draws over `nlp/prep` and `rai/train`, gives the first ones back and leaves leases of the losers."""
    world = bare()
    train = [("n1", 8, RAI, OWNED), ("n2", 8, RAI, OWNED), ("n3", 8, RAI, OWNED)]
    start(world, T0, "rai/train", *train)
    start(world, T0 + 1, "nlp/prep", ("n4", 8, NLP, OWNED))
    made = ledger_world.promise(world, T0 + 2)
    tokens = (replace(PREP, gpus=8), Token(owner="org:ai:rai", run="rai/train", gpus=24))
    freeze = Freeze(
        algorithm="two-stage/1", flavor="H100", nodes=("n1", "n2", "n3", "n4"), deficit_gpus=8, tokens=tokens
    )
    about = {"run": world.ref("rai/big"), "reservation": replace(world.ref("rai/big"), uid=made.uid, attempt=1)}
    frozen = world.append(T0 + 3600, Draft(kind=EntryKind.FREEZE, freeze=freeze, **about))
    seed = reservation_seed(decode.entry(world.entry(frozen)), made)
    picks = [token.run for token in order(seed, tokens)][:picked]
    leases = {"rai/train": ("l-1-0", "l-1-1", "l-1-2")[leave:], "nlp/prep": ("l-2-0",)}
    ends = tuple(
        Ended(namespace=run.split("/")[0], lease=lease, reason=f"RandomPreempt({seed.hex()})")
        for run in picks[back:]
        for lease in leases[run]
    )
    draw = DrawRecord(freeze=frozen, seed=seed.hex(), picks=tuple(picks), given_back=tuple(picks[:back]))
    world.append(T0 + 3601, Draft(kind=EntryKind.CUT, ends=ends, reserve=made, draw=draw, **about))
    told = {"entry": 5, "seed": seed.hex(), "conflictSet": encode.freeze(freeze)["tokens"]}
    told["draws"] = [{"pick": run} for run in picks]
    world.objects["Reservation", "rai/big"]["status"]["resolution"] = told
    return world


def warnings(world: World) -> list[str]:
    return [found.message for found in audited(world).findings if found.severity is Severity.WARNING]


def test_audit_draw_that_stops_when_there_is_room_is_in_order() -> None:
    assert errors(lottery(1)) == []
    assert warnings(lottery(1)) == []


def test_audit_drawing_on_to_give_the_first_back_is_warned_about() -> None:
    """R2: else whoever resolves would draw on until somebody else comes up."""
    (message,) = warnings(lottery(2, back=1))
    assert message.endswith("had made room already")


def test_audit_giving_back_the_last_that_was_drawn_is_found() -> None:
    assert any("the last that was drawn" in message for _, _, message in errors(lottery(2, back=2)))


def test_audit_half_a_gang_is_found() -> None:
    message = "preempts rai/train, but leaves its lease rai/l-1-0: a gang is cut whole"
    assert ("draws", "ledgerentry/000000000005", message) in errors(lottery(2, leave=1))


def test_audit_scope_that_leaves_a_node_of_the_domain_out_is_warned_about() -> None:
    world = lottery(1)
    freeze = world.entry(4)["spec"]["freeze"]
    freeze["scope"]["nodes"] = ["n1", "n2", "n3"]
    freeze["tokens"] = freeze["tokens"][1:]
    assert "nlp/prep held GPUs of n4, by today's labels in the domain, but has no token" in warnings(world)


def test_audit_draw_by_seed_examines_its_frozen_list_too() -> None:
    world = tightened(PREP)
    snapshot, _ = evidence(world.list())
    found = audit_draw(snapshot, NOW, world.entry(5)["spec"]["draw"]["seed"]).findings
    assert any(one.message.endswith("is fixed, but has no token") for one in found)


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("entry", 3),
        ("seed", "ab" * 32),
        ("draws", [{"pick": "rai/other"}]),
        ("conflictSet", [{"owner": "org:ai:rai", "run": "rai/train", "gpus": 24}]),
    ],
)
def test_audit_resolution_that_tells_another_draw_is_found(part: str, value: object) -> None:
    world = lottery(1)
    world.objects["Reservation", "rai/big"]["status"]["resolution"][part] = value
    assert [(check, where) for check, where, _ in errors(world)] == [("attested", "reservation/rai/big")]
