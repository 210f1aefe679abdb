"""Whether a run fits right now: cover x pack, and for a malleable run the largest width that does (P5).

Location from pack feeds cover group by group; where nobody covers the best placement the next one is tried. Nothing
is forecast here: a no is a `Refusal` with the reason, and what to do about it is `plan`.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.model import GroupSlice, PayerShare, Reason, Run, Seat, SliceGroup, Step
from planner.shape import Placement
from planner.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """A slice that is free and paid. `width` is the active GPUs after it: for growth, those held included."""

    width: int
    groups: tuple[GroupSlice, ...]
    seats: tuple[Seat, ...]
    trace: tuple[Step, ...]
    asked: tuple[str, ...]  # names of the budgets that were asked, sorted


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why not now. `funding` says that nobody can pay (R1), whether or not GPUs are missing too."""

    reason: Reason
    funding: bool
    deficit_gpus: int  # what pack lacks
    trace: tuple[Step, ...]
    asked: tuple[str, ...]
    waits_for: tuple[PayerShare, ...] = ()  # envelopes asked and found full (F1 d)


def fit(world: World, run: Run, *, width: int | None = None, within: tuple[SliceGroup, ...] = ()) -> Fit | Refusal:
    """P5: the run at the largest step-aligned width in [min, desired], a fixed run at its total, or at `width` only.

    `within` is a reservation's slice to start in: only its nodes, and of each no more than it holds.
    """
    raise NotImplementedError


def fit_growth(world: World, run: Run, gpus: int) -> Fit | Refusal:
    """E2: `gpus` more for a run that holds leases: next indexes, its own domains first, its own cover."""
    raise NotImplementedError


def could_pay(world: World, run: Run) -> Fit | Refusal:
    """F1 (a), (d): whether anybody could pay for the run where the empty fleet would hold it."""
    raise NotImplementedError


def pay(world: World, run: Run, placement: Placement) -> Fit | Refusal:
    """Cover for a placement that is already decided (R2: the winner's slice after cuts)."""
    raise NotImplementedError
