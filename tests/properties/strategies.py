"""Random fleets, budget trees and runs, small enough that a failure can be read.

Hypothesis draws a seed; each seed stands for ten worlds made by a seeded generator, since planning a small world is
ten times cheaper than drawing one choice by choice. A failing example prints its `Case` whole.

Caps are disjoint and hold no envelope with `sharing: none` unless `tangled`: only then may sources be taken in any
order, so that greedy asking finds an answer whenever there is one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from hypothesis import strategies as st

from planner.model import (
    AggregateCap,
    Budget,
    Domain,
    Envelope,
    Funding,
    Lending,
    Malleable,
    Node,
    Run,
    Selector,
    Snapshot,
)

DOMAINS = (Domain("west", "a", "d1"), Domain("west", "a", "d2"), Domain("east", "b", "d3"))
OWNERS = ("org:ai:rai", "org:ai:nlp", "org:ai", "org:lab:mm", "org:lab", "org:bio:fold")
OWNER = OWNERS[0]
HOUR = 3600
SEEDS = st.integers(0, 1 << 48)
WORLDS = 10  # for each seed
T = TypeVar("T")


def seeds() -> st.SearchStrategy[Random]:
    """A generator for one world alone."""
    return SEEDS.map(Random)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One world, some runs for it, and the generator for further choices."""

    seed: str
    snapshot: Snapshot
    runs: tuple[Run, ...]
    random: Random

    @property
    def run(self) -> Run:
        return self.runs[0]


def cases(seed: int, tangled: bool = False, nodes_max: int = 6, gpus_max: int = 8, pods_max: int = 6) -> Iterator[Case]:
    """The worlds of a seed; nobody holds anything in them yet."""
    for number in range(WORLDS):
        name = f"{seed}/{number}"
        random = Random(name)
        yield Case(
            seed=name,
            snapshot=Snapshot(
                nodes=some_nodes(random, nodes_max, gpus_max), budgets=some_budgets(random, 2 * gpus_max, tangled)
            ),
            runs=tuple(some_run(random, pods_max, f"t{index}") for index in range(3)),
            random=random,
        )


def some_nodes(random: Random, most: int, gpus_max: int) -> tuple[Node, ...]:
    return tuple(_node(random, f"n{number}", gpus_max) for number in range(random.randint(1, most)))


def _node(random: Random, name: str, gpus_max: int) -> Node:
    domain = random.choice(DOMAINS)
    rack = random.choice((f"{domain.cluster}-1", f"{domain.cluster}-2", None))  # a rack stands in one cluster
    return Node(name=name, domain=domain, flavor="H100", rack=rack, gpus=random.randint(1, gpus_max))


def some_budgets(random: Random, gpus_max: int, tangled: bool = False, most: int = 4) -> tuple[Budget, ...]:
    """Up to `most` envelopes in all, over a few owners; of each budget's caps the first is disjoint from others."""
    found, left = list[Budget](), most
    for number, owner in enumerate(random.sample(OWNERS, random.randint(1, most))):
        count = random.randint(1, min(2, left)) if left else 0
        left -= count
        purses = tuple(_envelope(random, f"e{index}", gpus_max) for index in range(count))
        caps = tuple(
            _cap(random, f"c{index}", purses, gpus_max, tangled) for index in range(random.randint(0, 1 + tangled))
        )
        found.append(Budget(name=f"b{number}", owner=owner, envelopes=purses, caps=caps))
    return tuple(found)


def some_run(random: Random, pods_max: int, name: str = "t") -> Run:
    size, group_pods = random.choice((1, 2, 4)), random.choice((None, 1, 2, 3))
    groups = random.randint(1, max(1, pods_max // (group_pods or 1)))
    total = groups * (group_pods or 1) * size
    step = (group_pods or 1) * size
    malleable = Malleable(gpus_min=step, gpus_max=total, gpus_step=step, gpus_desired=total)
    return Run(
        namespace="ns",
        name=name,
        uid=f"uid-{name}",
        owner=OWNER,
        flavor="H100",
        gpus_total=total,
        gpus_per_pod=size,
        group_gpus=None if group_pods is None else step,
        cross_group_spread=random.random() < 0.7,
        malleable=malleable if group_pods and random.random() < 0.4 else None,
        spares_per_group=random.choice((0, 0, 1, 2)),
        funding=_funding(random, total),
        duration=random.choice((HOUR, 2 * HOUR, None)),
        opportunistic=random.random() < 0.2,
    )


def maybe(random: Random, value: T) -> T | None:
    return value if random.random() < 0.5 else None


def _envelope(random: Random, name: str, gpus_max: int) -> Envelope:
    lending = Lending(
        allow=random.random() < 0.7,
        to=random.choice((("org:ai:*",), ("*",), ("org:x",), ())),
        concurrency_max=maybe(random, random.randint(0, gpus_max)),
        gpu_hours_max=maybe(random, random.randint(0, 4 * gpus_max)),
    )
    return Envelope(
        name=name,
        flavor="H100",
        selector=Selector(region=random.choice(("*", "west", "east"))),
        concurrency=random.randint(0, gpus_max),
        gpu_hours_max=maybe(random, random.randint(0, 6 * gpus_max)),
        end_at=random.choice((None, None, None, 2 * HOUR, 0)),
        sharing=random.choice(("family", "family", "none")),
        lending=lending,
    )


def _cap(random: Random, name: str, purses: tuple[Envelope, ...], gpus_max: int, tangled: bool) -> AggregateCap:
    able = [purse.name for purse in purses if tangled or purse.sharing == "family"]
    return AggregateCap(
        name=name,
        flavor="H100",
        envelopes=tuple(able),
        concurrency_max=maybe(random, random.randint(0, gpus_max)),
        gpu_hours_max=maybe(random, random.randint(0, 6 * gpus_max)),
    )


def _funding(random: Random, total: int) -> Funding:
    return Funding(
        allow_borrow=random.random() < 0.7,
        borrow_gpus_max=maybe(random, random.randint(0, total)),
        sponsors=tuple(random.sample((*OWNERS, "org:no:body"), random.randint(0, 2))),
    )
