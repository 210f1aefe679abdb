"""One domain tried for one piece of the winner: how far the stages must go there, and at whose cost (R2).

Determined stages are carried out at once; who is in the lottery, and whether it would be enough, is asked only of the
domain that no other one beats.
"""

from __future__ import annotations

from collections.abc import Iterable

from planner.candidates import Candidate, Staged
from planner.ground import Ground
from planner.lottery import Drawn
from planner.model import Domain
from planner.stages import Taking
from planner.values import dataclass

LOTTERY = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A domain that can be made to hold the piece. `gpus` is what was cut, or for stage 4 still missing before it."""

    ground: Ground
    taking: Taking
    stage: int
    gpus: int
    fixed: tuple[str, ...] = ()  # stage 4: the fixed runs there
    tokens: tuple[Candidate, ...] = ()  # stage 4: who is in the lottery, once that is asked
    frozen: Drawn | None = None  # stage 4: the order that a Freeze entry fixed

    @property
    def domain(self) -> Domain:
        return self.ground.domain

    @property
    def rank(self) -> tuple[int, bool, int, str]:
        """R2: the earliest last stage, then the fewest GPUs, then the name.

        A domain that was frozen stays the one to draw in: otherwise who dislikes the draw could go elsewhere (R4).
        """
        return self.stage, self.stage == LOTTERY and self.frozen is None, self.gpus, self.domain.name


def attempt(ground: Ground, staged: Staged, stage_max: int, frozen: Drawn | None) -> Trial | None:
    """R2: stages 1 to 3 until pack succeeds; else the lottery is left, by the frozen order if there is one."""
    taking = Taking(ground)
    taking.take_sized(staged.fillers)
    if stage_max >= 2:
        taking.take_sized(staged.spares)
    if stage_max >= 3:
        taking.take_listed(staged.groups)
    if taking.reached():
        taking.give_back()
        return Trial(ground=ground, taking=taking, stage=taking.last_stage(), gpus=taking.gpus())
    if stage_max < LOTTERY:
        return None
    missing = ground.missing()
    return Trial(ground=ground, taking=taking, stage=LOTTERY, gpus=missing, fixed=staged.fixed, frozen=frozen)


def drawn_in(trial: Trial, line: Iterable[Candidate]) -> tuple[list[Candidate], list[Candidate]]:
    """R2 (4): tokens in the order drawn until pack succeeds; all that were drawn, and of them those given back."""
    trial.taking.take_listed(line)
    picks = [candidate for candidate in trial.taking.taken if candidate.stage == LOTTERY]
    trial.taking.give_back()
    return picks, [candidate for candidate in trial.taking.given_back if candidate.stage == LOTTERY]
