"""Whether a run fits right now: cover x pack, and for a malleable run the largest width that does (P5).

Location from pack feeds cover group by group; where nobody covers the best placement the next one is tried. Nothing
is forecast here: a no is a `Refusal` with the reason, and what to do about it is `plan`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from planner.cover import Till
from planner.family import Lineup
from planner.model import Domain, GroupSlice, PayerShare, Reason, Role, Run, Seat, SliceGroup, Step
from planner.pack import place, place_group
from planner.seats import seats_of
from planner.shape import PlacedGroup, Placement, Shape, Unplaced, shape_of
from planner.topology import Island, Room
from planner.values import dataclass
from planner.world import World

PLACEMENTS_MAX = 16  # placements that are tried for want of a payer
NOWHERE = Domain("", "", "")
WIDTHS_EACH = 16  # up to so many widths are tried one by one, more by bisection


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
    if within:
        return _fit_within(world, run, within)
    room = world.room(run)
    if width is not None or run.malleable is None:
        return _fit_shape(world, run, shape_of(run, width), room)
    return _largest(widths(run), lambda gpus: _fit_shape(world, run, shape_of(run, gpus), room))


def fit_growth(world: World, run: Run, gpus: int) -> Fit | Refusal:
    """E2: `gpus` more for a run that holds leases: next indexes, its own domains first (P3), its own cover."""
    held = world.leases_of(run)
    next_index = max((lease.group for lease in held), default=-1) + 1
    active = sum(lease.gpus for lease in held if lease.role is not Role.SPARE)
    answer = _fit_shape(world, run, shape_of(run, gpus, next_index), world.room(run))
    return replace(answer, width=active + answer.width) if isinstance(answer, Fit) else answer


def could_pay(world: World, run: Run) -> Fit | Refusal:
    """F1 (a): a budget that could pay, then a topology that could hold the run, at its least width.

    Who could pay is asked where the empty fleet would hold it, and of a run that it does not hold all the same.
    """
    shape = shape_of(run, widths(run)[-1])
    placement = place(world.empty_room(run), shape)
    if isinstance(placement, Placement):
        return pay(world, run, placement)
    paid = pay(world, run, _nowhere(shape))
    return paid if isinstance(paid, Refusal) else _never(world, run, placement)


def _nowhere(shape: Shape) -> Placement:
    """All groups in no domain: every envelope with a selector is another location there, and may still pay (C1)."""
    size, spares = shape.group_pods or shape.pods, ((NOWHERE, ""),) * shape.spares
    groups = (PlacedGroup(index=i, domain=NOWHERE, pods=("",) * size, spares=spares) for i in range(shape.groups))
    return Placement(groups=tuple(groups))


def pay(world: World, run: Run, placement: Placement) -> Fit | Refusal:
    """Cover for a placement that is already decided: group by group, in each the spares after the actives (P3)."""
    till = Till(
        books=world.books,
        ask=world.ask(run),
        run=run,
        lineup=Lineup(world.tree, run),
        queued=world.queued_payers(run),
        held=world.borrowed_gpus(run),
    )
    seats = seats_of(run, placement, till)
    trace, asked = (*placement.trace, *till.trace), tuple(sorted(till.asked))
    if seats is None:
        return Refusal(
            reason=till.reason, funding=True, deficit_gpus=0, trace=trace, asked=asked, waits_for=till.shares()
        )
    groups = tuple(GroupSlice(index=group.index, domain=group.domain) for group in placement.groups)
    width = sum(seat.gpus for seat in seats if seat.role is not Role.SPARE)
    return Fit(width=width, groups=groups, seats=seats, trace=trace, asked=asked)


def widths(run: Run) -> range:
    """P5: the widths a run may start at, largest first."""
    if run.malleable is None:
        return range(run.gpus_total, run.gpus_total - 1, -1)
    least, step = run.malleable.gpus_min, max(1, run.malleable.gpus_step)
    steps = max(0, run.malleable.gpus_desired - least) // step
    return range(least + steps * step, least - 1, -step)


def _largest(widths: range, try_width: Callable[[int], Fit | Refusal]) -> Fit | Refusal:
    """The first width that fits; if none does, why not the least. Many widths are bisected: less needs less."""
    answer = try_width(widths[0])
    if isinstance(answer, Fit) or len(widths) == 1:
        return answer
    if len(widths) <= WIDTHS_EACH:
        for width in widths[1:]:
            answer = try_width(width)
            if isinstance(answer, Fit):
                return answer
        return answer
    least = try_width(widths[-1])
    too_wide, fits = 0, len(widths) - 1
    while isinstance(least, Fit) and fits - too_wide > 1:
        middle = (too_wide + fits) // 2
        answer = try_width(widths[middle])
        if isinstance(answer, Fit):
            fits, least = middle, answer
        else:
            too_wide = middle
    return least


def _fit_shape(world: World, run: Run, shape: Shape, room: Room) -> Fit | Refusal:
    used = world.used_domains(run)
    placement = place(room, shape, used)
    if isinstance(placement, Unplaced):
        return _no_place(world, run, shape, placement)
    best = pay(world, run, placement)
    if isinstance(best, Fit):
        return best
    # If no payer covers the best placement, the next is tried before giving up.
    for other in _next_placements(world, run, shape, room, placement):
        answer = pay(world, run, other)
        if isinstance(answer, Fit):
            return answer
    return best


def _next_placements(world: World, run: Run, shape: Shape, room: Room, placement: Placement) -> Iterable[Placement]:
    """Placements led by a domain of another location, a few: one with the same locations asks the same sources."""
    lineup = Lineup(world.tree, run)
    kinds = {domain: lineup.location(domain) for domain in room.islands}
    seen, left = {_locations(lineup, placement)}, dict(room.islands)
    for _ in range(PLACEMENTS_MAX):
        led_by = kinds[placement.groups[0].domain]
        left = {domain: island for domain, island in left.items() if kinds[domain] != led_by}
        if not left:
            return
        found = place(replace(room, islands=left), shape, world.used_domains(run))
        if isinstance(found, Unplaced):
            return
        placement = found
        if _locations(lineup, placement) not in seen:
            seen.add(_locations(lineup, placement))
            yield placement


def _locations(lineup: Lineup, placement: Placement) -> tuple[tuple[bool, ...], ...]:
    domains = [domain for group in placement.groups for domain in (group.domain, *(at for at, _ in group.spares))]
    return tuple(lineup.location(domain) for domain in domains)


def _no_place(world: World, run: Run, shape: Shape, unplaced: Unplaced) -> Refusal:
    """R1: whether anybody could pay is asked where the empty fleet would hold the run; only then are GPUs missing."""
    empty = place(world.empty_room(run), shape)
    if isinstance(empty, Unplaced):
        return replace(_never(world, run, empty), deficit_gpus=unplaced.gpus_missing)
    answer = pay(world, run, empty)
    if isinstance(answer, Refusal):
        asked = tuple(step for step in answer.trace if step.rule.startswith("C"))
        return replace(answer, deficit_gpus=unplaced.gpus_missing, trace=(*unplaced.trace, *asked))
    return Refusal(
        reason=unplaced.reason,
        funding=False,
        deficit_gpus=unplaced.gpus_missing,
        trace=unplaced.trace or (_closed_fleet(run, unplaced),),
        asked=answer.asked,
    )


def _closed_fleet(run: Run, unplaced: Unplaced) -> Step:
    """P1: nodes that could hold the run exist, but not one of them takes work now."""
    note = "every node that could hold it is cordoned or not ready"
    return Step(
        rule="P1", act="unplaced", subject=run.flavor, need=run.gpus_total, had=0, reason=unplaced.reason, note=note
    )


def _never(world: World, run: Run, unplaced: Unplaced) -> Refusal:
    """C7: what the empty fleet does not hold never fits; a missing spare node is named as such."""
    reason = unplaced.reason if unplaced.reason is Reason.NO_SPARE_NODE else Reason.NO_TOPOLOGY
    trace = (*_no_node(world, run), *(replace(step, reason=reason) for step in unplaced.trace))
    return Refusal(reason=reason, funding=False, deficit_gpus=unplaced.gpus_missing, trace=trace, asked=())


def _no_node(world: World, run: Run) -> tuple[Step, ...]:
    """P1, P2: what is wrong with the nodes where not one could ever take a pod; nothing where some could."""
    sizes = [gpus for island in world.empty_room(run).islands.values() for gpus in island.free.values()]
    largest = max(sizes, default=0)
    if largest >= run.gpus_per_pod:
        return ()
    flavors = sorted({node.flavor for node in world.snapshot.nodes if node.flavor and node.domain})
    note = "no node is large enough for one pod"
    if run.flavor not in flavors:
        note = f"no labelled node has this flavor, there are: {', '.join(flavors) or 'none'}"
    elif not sizes:
        note = "no node of this flavor fits its selectors, requests and tolerations"
    step = Step(
        rule="P1",
        act="unplaced",
        subject=run.flavor,
        need=run.gpus_per_pod,
        had=largest,
        reason=Reason.NO_TOPOLOGY,
        note=note,
    )
    return (step,)


def _fit_within(world: World, run: Run, slices: tuple[SliceGroup, ...]) -> Fit | Refusal:
    """F3: the start of a promise inside its own slice, group by group as it was promised."""
    room, groups = world.room(run), list[PlacedGroup]()
    free = {node: gpus for island in room.islands.values() for node, gpus in island.free.items()}
    for part in sorted(slices, key=lambda part: part.index):
        placed = _place_within(run, room, free, part)
        if placed is None:
            return _slice_lost(run, part)
        groups.append(placed)
        for node in (*placed.pods, *(node for _, node in placed.spares)):
            free[node] -= run.gpus_per_pod
    return pay(world, run, Placement(groups=tuple(groups), trace=_slice_steps(run, groups)))


def _place_within(run: Run, room: Room, free: dict[str, int], part: SliceGroup) -> PlacedGroup | None:
    most = {node.name: node.gpus for node in part.nodes}
    islands: dict[Domain, Island] = {}
    for domain, island in room.islands.items():
        kept = {node: min(free[node], most[node]) for node in island.free if node in most}
        if kept:
            islands[domain] = replace(island, free=kept, under={n: g for n, g in island.under.items() if n in kept})
    home = next((domain for domain in islands if domain.name == part.domain), None)
    if home is None:
        return None
    spares = 0 if run.opportunistic else run.spares_per_group
    pods = sum(node.gpus for node in part.nodes) // run.gpus_per_pod - spares
    shape = replace(shape_of(run), pods=pods, group_pods=pods, spread=True)
    return place_group(Room(islands=islands, racks=room.racks), home, shape, part.index) if pods > 0 else None


def _slice_lost(run: Run, part: SliceGroup) -> Refusal:
    gpus = sum(node.gpus for node in part.nodes)
    step = Step(
        rule="F3",
        act="unplaced",
        subject=part.domain,
        group=part.index,
        need=gpus,
        reason=Reason.NO_CAPACITY,
        note=f"the slice promised to {run.key} is not free",
    )
    return Refusal(reason=Reason.NO_CAPACITY, funding=False, deficit_gpus=gpus, trace=(step,), asked=())


def _slice_steps(run: Run, groups: list[PlacedGroup]) -> tuple[Step, ...]:
    role = Role.FILLER if run.opportunistic else Role.ACTIVE
    return tuple(step for group in groups for step in group.steps(run.gpus_per_pod, role))
