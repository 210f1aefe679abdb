"""What a command does for others after its own work: at most 20 runs (6.5), and whoever waited for what it freed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubectl_runs.commit.over import over
from kubectl_runs.commit.steps import Means, Steps
from kubectl_runs.read import Reading

if TYPE_CHECKING:
    from kubectl_runs.commit.sweep import Swept


def settle_others(reading: Reading, means: Means, own: str, *, freed: bool) -> Steps[Swept | None]:
    """Settle what others have left and, where GPUs came free, start what fits now; None: there was nothing to do.

    `own` is the key of the command's own run, `reading` what it read last.
    """
    waiting = freed and any(made.open for made in reading.snapshot.reservations)
    if not waiting and not over(reading, thorough=False):
        return None
    from kubectl_runs.commit.sweep import sweep

    return (yield from sweep(reading, means, skip=(own,), thorough=False, freed=freed))
