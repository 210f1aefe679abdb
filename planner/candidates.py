"""Who could yield, by stage: fillers, spares, groups of malleable runs, fixed runs (R2, R3).

It lists them in the order in which the stages ask and says which leases each would end. Whether anybody has to yield,
and how many, is `stages`; where is `cuts`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from planner.draw import frozen
from planner.model import Closure, Lease, Role, Run, Token
from planner.values import dataclass

Scope = Callable[[Lease], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One thing that ends as a whole. `gpus` counts every lease that it ends, in scope or not (R2)."""

    stage: int
    kind: Closure
    run: str
    group: int | None
    leases: tuple[Lease, ...]  # by key
    gpus: int
    key: str

    @classmethod
    def of(cls, stage: int, kind: Closure, leases: Iterable[Lease], *, group: int | None, key: str) -> Candidate:
        ended = tuple(sorted(leases, key=lambda lease: lease.key))
        gpus = sum(lease.gpus for lease in ended)
        return cls(stage=stage, kind=kind, run=ended[0].run_key, group=group, leases=ended, gpus=gpus, key=key)


class Staged(NamedTuple):
    """The candidates of one scope by stage: of `groups` the order is decided, of the `fixed` runs by lot."""

    fillers: tuple[Candidate, ...]
    spares: tuple[Candidate, ...]
    groups: tuple[Candidate, ...]
    fixed: tuple[str, ...]  # run keys, sorted; `Holdings.fixed` makes candidates of them


class Holdings:
    """Open leases by run, indexed once: what each run would lose."""

    def __init__(self, held: Mapping[str, Sequence[Lease]], runs: Mapping[str, Run]) -> None:
        """`held` are the open leases by run."""
        self._runs = runs
        self.by_run = held
        self._mixed = {one.run_key for leases in held.values() for one in leases if one.role is not Role.ACTIVE}

    def staged(self, seen: Mapping[str, Iterable[Lease]], gone: Collection[str], winner: str | None) -> Staged:
        """The candidates that have one of the leases `seen`, by run; those in `gone` are held by nobody any more.

        Who has nothing but spares there yields them at stage 2 and has nothing more to give there.
        """
        fillers: set[str] = set()
        spares: list[Candidate] = []
        malleable: dict[str, set[int]] = {}
        fixed: set[str] = set()
        for key, leases in seen.items():
            if key == winner:
                continue
            fills, fixed_width = self._opportunistic(key), self._malleable(key) is None
            if fixed_width and not fills and key not in self._mixed:
                fixed.add(key)
                continue
            for lease in leases:
                if gone and lease.key in gone:
                    continue
                if fills or lease.role is Role.FILLER:
                    fillers.add(key)
                elif lease.role is Role.SPARE:
                    spares.append(Candidate.of(2, Closure.DROP_SPARE, (lease,), group=lease.group, key=lease.key))
                elif fixed_width:
                    fixed.add(key)
                else:
                    malleable.setdefault(key, set()).add(lease.group)
        return Staged(
            fillers=tuple(self._whole(1, Closure.END_FILLER, key, gone) for key in sorted(fillers)),
            spares=tuple(sorted(spares, key=lambda candidate: candidate.key)),
            groups=tuple(self._groups(malleable, fillers, gone)),
            # R3: a fixed run is one token, since losing a group would kill the gang.
            fixed=tuple(sorted(fixed - fillers)),
        )

    def fixed(self, runs: Iterable[str], gone: Collection[str]) -> tuple[Candidate, ...]:
        """These fixed runs, as far as they still hold anything (R4)."""
        alive = [run for run in runs if any(lease.key not in gone for lease in self.by_run.get(run, ()))]
        return tuple(self._whole(4, Closure.RANDOM_PREEMPT, run, gone) for run in alive)

    def token(self, candidate: Candidate) -> Token:
        run = self._runs.get(candidate.run)
        owner = run.owner if run else candidate.leases[0].owner
        return Token(owner=owner, run=candidate.run, gpus=candidate.gpus)

    def tokens(self, candidates: Iterable[Candidate]) -> tuple[Token, ...]:
        return frozen(self.token(candidate) for candidate in candidates)

    def width(self, run: str, gone: Collection[str]) -> int:
        """GPUs that a run holds for its pods, spares aside."""
        return sum(lease.gpus for lease in self.by_run.get(run, ()) if _active(lease) and lease.key not in gone)

    def _opportunistic(self, key: str) -> bool:
        run = self._runs.get(key)
        return run is not None and run.opportunistic

    def _malleable(self, key: str) -> int | None:
        run = self._runs.get(key)
        return run.malleable.gpus_min if run and run.malleable and not run.opportunistic else None

    def _whole(self, stage: int, kind: Closure, key: str, gone: Collection[str]) -> Candidate:
        held = [lease for lease in self.by_run[key] if lease.key not in gone]
        return Candidate.of(stage, kind, held, group=None, key=key)

    def _groups(
        self, malleable: Mapping[str, set[int]], fillers: set[str], gone: Collection[str]
    ) -> Iterable[Candidate]:
        """R2 (3): by key, highest index first, whole groups with their spares, never below the minimum."""
        for key in sorted(malleable.keys() - fillers):
            spare_width = self.width(key, gone) - (self._malleable(key) or 0)
            held = [lease for lease in self.by_run[key] if lease.key not in gone]
            for index in sorted(malleable[key], reverse=True):
                group = [lease for lease in held if lease.group == index]
                active = sum(lease.gpus for lease in group if _active(lease))
                if active <= spare_width:
                    spare_width -= active
                    yield Candidate.of(3, Closure.SHRINK, group, group=index, key=f"{key} {index}")


def _active(lease: Lease) -> bool:
    return lease.role is not Role.SPARE
