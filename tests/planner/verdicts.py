"""Decisions of the planner in the words that tests compare."""

from __future__ import annotations

from dataclasses import replace

from planner.model import Decision, Entry, EntryKind, Freeze, Reservation, RunRef, Snapshot
from planner.plan import plan_run
from planner.resolve import activate
from tests.planner.worlds import NOW, run_of, snapshot


def planned(text: str, run: str, now: int = NOW) -> Decision:
    """What becomes of a run that is not in the world yet."""
    return plan_run(snapshot(text), run_of(run), now)


def replanned(text: str, key: str, now: int = NOW) -> Decision:
    """What becomes of a run of the world."""
    world = snapshot(text)
    return plan_run(world, next(run for run in world.runs if run.key == key), now)


def activated(text: str, key: str = "rai/big", now: int = NOW) -> Decision:
    return activate(snapshot(text), reservation_of(snapshot(text), key), now)


def reservation_of(world: Snapshot, key: str = "rai/big") -> Reservation:
    return next(made for made in world.reservations if made.key == key)


def told(decision: Decision) -> str:
    """The answer in a line: `reserve NoCapacity at 900 needs-cuts lacks 8`."""
    words = [decision.verdict.value]
    if decision.reason is not None:
        words.append(decision.reason.value)
    if decision.earliest_start is not None:
        words.append(f"at {decision.earliest_start}")
    if decision.confidence is not None:
        words.append(decision.confidence.value)
    if decision.deficit_gpus:
        words.append(f"lacks {decision.deficit_gpus}")
    return " ".join(words)


def cuts(decision: Decision) -> list[str]:
    """`Shrink rai/m 2 8`, `EndFiller rai/f - 8`; a provisional one ends in `?`."""
    return [
        f"{cut.kind.value} {cut.run} {'-' if cut.group is None else cut.group} {cut.gpus}" + "?" * cut.provisional
        for cut in decision.cuts
    ]


def domains(decision: Decision) -> list[str]:
    return [group.domain.fabric for group in decision.groups]


def with_uid(world: Snapshot, key: str = "rai/big", uid: str = "res-uid") -> Snapshot:
    """The reservation as a server made it."""
    made = tuple(replace(one, uid=uid) if one.key == key else one for one in world.reservations)
    return replace(world, reservations=made)


def freeze_entry(frozen: Freeze, made: Reservation, seq: int = 41, uid: str = "freeze-uid") -> Entry:
    """A Freeze entry as a server would hand it back."""
    return Entry(
        seq=seq,
        prev="sha256:" + "1" * 64,
        digest="sha256:" + "2" * 64,
        nonce="0" * 32,
        read_at=0,
        time=0,
        created_at=0,
        created_at_raw="2026-01-05T12:00:01Z",
        uid=uid,
        kind=EntryKind.FREEZE,
        reservation=RunRef(namespace=made.namespace, name=made.name, uid=made.uid),
        freeze=frozen,
    )
