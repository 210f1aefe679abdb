"""Small words that several messages share."""

from __future__ import annotations

from collections.abc import Collection

from planner.model import Cut


def count(number: int, noun: str) -> str:
    """`1 pod`, `2 pods`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def sum_of(cuts: Collection[Cut]) -> str:
    """`3 cuts of 24 GPUs from 2 runs`."""
    gpus, runs = sum(cut.gpus for cut in cuts), len({cut.run for cut in cuts})
    return f"{count(len(cuts), 'cut')} of {count(gpus, 'GPU')} from {count(runs, 'run')}"
