"""What a decision is: the answer, its slice, its cuts, its remedies and the trace of how it came about."""

from __future__ import annotations

from planner.model.ledger import Freeze, Token
from planner.model.runs import PayerShare
from planner.model.vocabulary import Closure, Confidence, Domain, FundingClass, Payer, Reason, Role, Verdict
from planner.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One fact of a decision: who was asked, what was needed, had and taken, and the rule it follows from.

    `act` is one of: asked took passed placed unplaced fits cut spared drew gave-back waited tried. A field that says
    nothing for an act stays None and is left out of the JSON.
    """

    rule: str  # "C3.1", "P3", "R2.3"
    act: str
    subject: str  # "rai/west-h100", "us-west/a/d1", "ns/run"
    group: int | None = None
    node: str | None = None
    role: Role | None = None
    funding: FundingClass | None = None
    need: int | None = None
    had: int | None = None
    took: int | None = None
    cap: int | None = None
    reason: Reason | None = None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """One lease to be: GPUs of one node for one pod (or spare slot) of a group, paid by one envelope.

    `rank` numbers the pods of the run, `slot` the spares of its group; two seats of one rank are one pod with two
    payers (C8).
    """

    group: int
    rank: int | None = None  # None: a spare, which has no pod
    slot: int | None = None
    node: str
    gpus: int
    role: Role
    payer: Payer
    owner: str  # the payer's owner
    funding: FundingClass


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSlice:
    """A group's domain; its placements are the seats with this index."""

    index: int
    domain: Domain


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Leases that one stage of the resolver ends. `group` is None where a run is cut whole."""

    kind: Closure  # END_FILLER DROP_SPARE SHRINK RANDOM_PREEMPT
    run: str
    group: int | None
    leases: tuple[str, ...]  # keys, sorted
    gpus: int
    provisional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Chance:
    """A token with its chance at the first draw, as a fraction in words ("1/4")."""

    token: Token
    chance: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lottery:
    seed: str
    provisional: bool
    chances: tuple[Chance, ...]
    freeze: Freeze
    picks: tuple[str, ...] = ()
    given_back: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """One change that the planner tried itself, and what it would achieve (F4)."""

    kind: str  # AskLess ShrinkOther AddSponsor AllowBorrow RaiseBorrowLimit AllowSpread DropSpares SetDuration Wait
    message: str
    command: str
    starts_at: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What the planner says, and why. `seats` hold the whole slice; payers and groups of the JSON are derived."""

    verdict: Verdict
    run: str | None
    reason: Reason | None = None
    message: str = ""
    width: int = 0  # active GPUs
    groups: tuple[GroupSlice, ...] = ()
    seats: tuple[Seat, ...] = ()
    earliest_start: int | None = None
    confidence: Confidence | None = None
    deficit_gpus: int = 0
    cuts: tuple[Cut, ...] = ()
    lottery: Lottery | None = None
    remedies: tuple[Remedy, ...] = ()
    trace: tuple[Step, ...] = ()
    asked: tuple[str, ...] = ()  # names of the budgets that were asked: an entry records them as they stood
    # A Blocked reservation names the envelopes it asked and found full (F1 d); others leave this empty.
    waits_for: tuple[PayerShare, ...] = ()
