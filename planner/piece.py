"""What the resolver places at a time: one group, or all groups of a run that may not spread (R2).

Decides which groups a run has and which of them are placed already; where the rest goes is `cuts`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from planner.model import Domain, Run
from planner.pack import place, place_group
from planner.shape import PlacedGroup, Placement, Shape, shape_of
from planner.topology import Island, Room
from planner.values import dataclass
from planner.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Groups that go into one domain together: their indexes and how many pods each has."""

    groups: tuple[tuple[int, int], ...]

    @property
    def pods(self) -> int:
        return sum(pods for _, pods in self.groups)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A run as the resolver sees it: its shape, the groups that stay where pack puts them now, and the rest."""

    shape: Shape
    stay: tuple[PlacedGroup, ...]
    rest: tuple[Piece, ...]


def shape_to_free(run: Run) -> Shape:
    """What others may have to yield for: the least width that the run accepts, since no cut may be unnecessary."""
    return shape_of(run, run.malleable.gpus_min if run.malleable else None)


def layout(world: World, run: Run) -> Layout:
    """R2: groups that pack can place now stay there; the rest are placed one after another."""
    shape, room = shape_to_free(run), world.room(run)
    if shape.group_pods is None and shape.spread and not _one_domain_holds(world, run, shape):
        return _split_layout(world, run, shape, room)
    if shape.group_pods is None or not shape.spread:
        return _together(shape)
    now = place(room, shape)
    stay = now.groups if len(now.groups) <= shape.groups else ()
    stay = tuple(group for group in stay if len(group.spares) == shape.spares)
    kept = tuple(replace(group, index=index) for index, group in enumerate(stay))
    rest = tuple(Piece(groups=((index, shape.group_pods),)) for index in range(len(kept), shape.groups))
    return Layout(shape=shape, stay=kept, rest=rest)


def put(room: Room, domain: Domain, shape: Shape, piece: Piece) -> tuple[PlacedGroup, ...] | None:
    """The piece in one given domain, or None; groups after the first find the room that those before them leave."""
    placed: list[PlacedGroup] = []
    for index, pods in piece.groups:
        group = place_group(room, domain, replace(shape, pods=pods, group_pods=pods), index)
        if group is None:
            return None
        placed.append(group)
        if len(piece.groups) > 1:
            room = less(room, [group], shape.gpus_per_pod)
    return tuple(placed)


def missing(room: Room, domain: Domain, shape: Shape, piece: Piece) -> int:
    """GPUs of the piece's pods and spares that pack cannot place in the domain."""
    size = piece.groups[0][1]
    alone = replace(shape, pods=piece.pods, group_pods=size, spread=True)
    answer = place(room.only((domain,)), alone)
    return 0 if isinstance(answer, Placement) else answer.gpus_missing


def less(room: Room, groups: Iterable[PlacedGroup], gpus_per_pod: int) -> Room:
    """The room that is left once some groups have their place."""
    taken: dict[tuple[Domain, str], int] = {}
    for group in groups:
        for seat in (*((group.domain, node) for node in group.pods), *group.spares):
            taken[seat] = taken.get(seat, 0) + 1
    islands = dict(room.islands)
    for (domain, node), pods in sorted(taken.items()):
        if domain in islands:
            islands[domain] = _island_less(islands[domain], node, pods, gpus_per_pod)
    return Room(islands=islands, racks=room.racks)


def _island_less(island: Island, node: str, pods: int, gpus_per_pod: int) -> Island:
    free = dict(island.free)
    free[node] = max(0, free.get(node, 0) - pods * gpus_per_pod)
    limits = dict(island.pods_max)
    if node in limits:
        limits[node] = max(0, limits[node] - pods)
    return replace(island, free=free, pods_max=limits)


def _together(shape: Shape) -> Layout:
    """One piece: a run of one group, or one whose groups may not spread over domains (P2)."""
    size = shape.group_pods or shape.pods
    piece = Piece(groups=tuple((index, size) for index in range(shape.pods // size)))
    return Layout(shape=shape, stay=(), rest=(piece,))


def _one_domain_holds(world: World, run: Run, shape: Shape) -> bool:
    empty, whole = world.empty_room(run), Piece(groups=((0, shape.pods),))
    return any(put(empty, domain, shape, whole) is not None for domain in empty.islands)


def _split_layout(world: World, run: Run, shape: Shape, room: Room) -> Layout:
    """R2: a run without `groupGPUs` that no domain holds has the groups that pack makes on the empty fleet."""
    made = place(world.empty_room(run), shape)
    if not isinstance(made, Placement):
        return _together(shape)  # nowhere at all: one piece that no domain will hold
    pieces = [Piece(groups=((group.index, len(group.pods)),)) for group in made.groups]
    stay: list[PlacedGroup] = []
    rest: list[Piece] = []
    for piece in pieces:
        now = place(room, replace(shape, pods=piece.pods, group_pods=piece.pods))
        if isinstance(now, Placement) and _leaves_room(world, run, shape, [*stay, *now.groups], pieces):
            group = replace(now.groups[0], index=piece.groups[0][0])
            stay.append(group)
            room = less(room, [group], shape.gpus_per_pod)
        else:
            rest.append(piece)
    return Layout(shape=shape, stay=tuple(stay), rest=tuple(rest))


def _leaves_room(world: World, run: Run, shape: Shape, stay: Sequence[PlacedGroup], pieces: Sequence[Piece]) -> bool:
    """Whether the other groups could still find a domain on the empty fleet: a small one may not block a large one."""
    room = less(world.empty_room(run), stay, shape.gpus_per_pod)
    sizes = sorted(piece.pods for piece in pieces)
    for group in stay:
        if len(group.pods) in sizes:
            sizes.remove(len(group.pods))
    for pods in reversed(sizes):
        answer = place(room, replace(shape, pods=pods, group_pods=pods))
        if not isinstance(answer, Placement):
            return False
        room = less(room, answer.groups, shape.gpus_per_pod)
    return True
