"""Where a run goes: groups into domains, pods onto nodes, spares beside them (P2, P3, P4).

All or nothing: a `Placement` of every group, or an `Unplaced` that says how much is missing. Who pays is `cover`;
which nodes are open to the run, and how much of each, is `topology`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from planner.model import Domain, Reason
from planner.packer import Packer
from planner.shape import PlacedGroup, Placement, Shape, Unplaced
from planner.topology import Room


def place(room: Room, shape: Shape, used: Iterable[Domain] = ()) -> Placement | Unplaced:
    """P2, P3: all groups of a run. `used` are the domains in which the run already holds groups."""
    whole = shape if shape.group_pods is not None else replace(shape, group_pods=shape.pods)
    result = _place_groups(room, whole, tuple(used))
    if shape.group_pods is not None or not shape.spread or isinstance(result, Placement):
        return result
    # P2: one group where it fits, else split by domain; one that fits but for its spares is not split (P4).
    return _split(room, shape, tuple(used)) if result.reason is Reason.NO_CAPACITY else result


def place_group(room: Room, domain: Domain, shape: Shape, index: int) -> PlacedGroup | None:
    """R2: one group of `shape.group_pods` (or all pods) in one given domain, its spares as P4 says."""
    if domain not in room.islands:
        return None
    pods = shape.group_pods or shape.pods
    for beside in _besides(shape):
        packer = Packer(room, replace(shape, pods=pods, group_pods=pods))
        if packer.put(domain, 1, beside) and not packer.put_lonely_spares():
            return replace(packer.groups()[0], index=index)
    return None


def _place_groups(room: Room, shape: Shape, used: tuple[Domain, ...]) -> Placement | Unplaced:
    if not shape.spread:
        return _place_together(room, shape, used)
    first = Packer(room, shape, used)
    result = first.finish(first.fill())
    if isinstance(result, Placement) or not shape.spares or first.gpus_free_before < shape.gpus:
        return result
    return _place_elsewhere(room, shape, used, first) or _place_anyhow(room, shape, used, first.full) or result


def _place_elsewhere(room: Room, shape: Shape, used: tuple[Domain, ...], last: Packer) -> Placement | None:
    """P4: a domain near which no node is left for spares gives way to the next that has one."""
    barred: dict[Domain, None] = {}
    while (lonely := last.without_spares()) is not None:
        barred[lonely] = None
        last = Packer(room, shape, used, barred)
        again = last.finish(last.fill())
        if isinstance(again, Placement):
            return again
    return None


def _place_anyhow(room: Room, shape: Shape, used: tuple[Domain, ...], full: int) -> Placement | None:
    """A domain filled with spares may leave no room for the last group: fewer of them keep theirs beside them."""
    for beside in _besides(shape)[1:]:
        for full_max in _fewer(full):
            packer = Packer(room, shape, used)
            again = packer.finish(packer.fill(full_max, beside))
            if isinstance(again, Placement):
                return again
    return None


def _besides(shape: Shape) -> tuple[int, ...]:
    """How many spares must sit beside their group: all (P3), else as it comes (P4), else what makes them fit."""
    return tuple(dict.fromkeys((shape.spares, 0, *range(shape.spares - 1, 0, -1))))


def _fewer(count: int) -> tuple[int, ...]:
    """Counts to try, each once when there are few, halving when there are many."""
    return tuple(range(count, -1, -1)) if count <= 8 else (count, count - 1, count // 2, count // 4, 0)


def _place_together(room: Room, shape: Shape, used: tuple[Domain, ...]) -> Placement | Unplaced:
    """P2: `allowCrossGroupSpread: false` puts all groups in one domain, for a run that grows the one it has."""
    reach = room.only(used) if used else room
    best: Unplaced | None = None
    # P3: with its spares before alone; then best fit, then name.
    order = sorted(reach.islands.values(), key=lambda island: (island.gpus_free, island.domain))
    for beside in _besides(shape):
        for island in order:
            packer = Packer(room, shape, used)
            left = shape.groups - packer.put(island.domain, shape.groups, beside)
            result = packer.finish(left, only=island.domain)
            if isinstance(result, Placement):
                return result
            if best is None or result.gpus_missing < best.gpus_missing:
                best = result
    return best or Packer(reach, shape, used).unplaced(shape.groups, 0)


def _split(room: Room, shape: Shape, used: tuple[Domain, ...]) -> Placement | Unplaced:
    """P2, P3: fill the largest domain, best-fit the rest; each part is a group with spares of its own."""
    result: Placement | Unplaced | None = None
    for beside in _besides(shape):
        packer = Packer(room, shape, used)
        result = packer.finish(packer.split(beside))
        if isinstance(result, Placement):
            break
    assert result is not None
    return result
