"""One snapshot at one instant, indexed once: who pays what (`books`) and what is free where (`fleet`).

Derived worlds answer "what if" without reading the snapshot again: `without` some leases, `at` a later instant, or
with budgets `unused`. Nothing here chooses; the choosing is in `cover`, `pack` and above.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from planner import fold
from planner.books import Ask, Books, Promise, Promises, promises_of
from planner.family import Tree
from planner.holds import FOREVER, Hold, horizon
from planner.known_ends import KnownEnds
from planner.model import Domain, FundingClass, Lease, Payer, Pod, Reservation, Role, Run, Snapshot
from planner.topology import Fleet, NodeHolds, Room, View


class World:
    """A snapshot at an instant. Immutable to its users; derived worlds share what did not change."""

    def __init__(self, index: Index, now: int, leases: Mapping[str, Lease], books: Books, fleet: Fleet) -> None:
        self.index, self.now = index, now
        self.leases, self.books, self.fleet = leases, books, fleet
        self._seen: tuple[Run, Room] | None = None  # what the last run to ask sees: most questions are about one

    @classmethod
    def of(cls, snapshot: Snapshot, now: int) -> World:
        leases = fold.open_leases(snapshot)
        index = Index(snapshot, now, leases)
        books = Books.of(index.tree, now, fold.settled(snapshot), Promises(index.all_promises()))
        books.open_all(leases, index.ends)
        fleet = Fleet.of(snapshot.nodes, leases.values(), snapshot.pods, index.node_holds.values())
        return cls(index, now, leases, books, fleet)

    @property
    def snapshot(self) -> Snapshot:
        return self.index.snapshot

    @property
    def tree(self) -> Tree:
        return self.index.tree

    @property
    def runs(self) -> Mapping[str, Run]:
        return self.index.runs

    @property
    def reservations(self) -> tuple[Reservation, ...]:
        """Promises that stand, Blocked ones too, by key (F3)."""
        return self.index.reservations

    def without(self, lease_keys: Iterable[str]) -> World:
        """As if those leases were closed now and their pods gone."""
        gone = {key: self.leases[key] for key in lease_keys if key in self.leases}
        if not gone:
            return self
        ended = [(lease, self.index.ends_at(lease), self.now) for lease in gone.values()]
        return self._closed(gone, ended, self.now)

    def at(self, instant: int) -> World:
        """As if it were then: work with a duration has ended, windows have moved, reservations are due."""
        if instant <= self.now:
            return self
        over = [(end, key) for end, key in self.index.ended_by(instant) if key in self.leases]
        ended = [(self.leases[key], end, end) for end, key in over]
        return self._closed([key for _, key in over], ended, instant)

    def ahead_of_later(self, made: Reservation) -> World:
        """As if promises made after this one held no nodes: each was planned around its slice (F2, F3).

        One that waits for cuts holds GPUs that its victims still hold; both together would leave this one none.
        """
        later = {other.run_key for other in self.reservations if _age(other) > _age(made)}
        holds = {key: held for key, held in self.index.node_holds.items() if key not in later}
        if len(holds) == len(self.index.node_holds):
            return self
        return World(self.index, self.now, self.leases, self.books, self.fleet.promised(holds.values()))

    def unused(self, instant: int) -> World:
        """F1 (a): as if nobody held or reserved anything at that instant; hours burnt until now stay burnt."""
        books = self.books.as_unused(instant, self.now)
        return World(self.index.unpromised(), instant, {}, books, self.fleet)

    def events(self) -> tuple[int, ...]:
        """F1 (c): later instants at which something known changes: ends, windows, reservations; in order."""
        return tuple(sorted(instant for instant in self.index.instants() if instant > self.now))

    def window_starts(self, flavor: str) -> tuple[int, ...]:
        """F1 (a): now and every later instant at which a window of the flavor opens."""
        starts = {e.start_at for budget in self.snapshot.budgets for e in budget.envelopes if e.flavor == flavor}
        return (self.now, *sorted(start for start in starts if start is not None and start > self.now))

    def ends_at(self, lease: Lease) -> int | None:
        """When a lease will end: its attempt's first Active start + duration; None for a run without one (C2)."""
        return self.index.ends_at(lease)

    def ends(self) -> Iterable[tuple[int, Lease]]:
        """Open leases with a known end, in the order in which they end, then by key."""
        return ((end, self.leases[key]) for end, key in self.index.ended_by(FOREVER) if key in self.leases)

    def ended_by(self, instant: int) -> tuple[Lease, ...]:
        """Open leases whose known end has come by then."""
        return tuple(self.leases[key] for _, key in self.index.ended_by(instant) if key in self.leases)

    def ended_at(self, instant: int) -> tuple[Lease, ...]:
        """Open leases whose known end is then."""
        return tuple(self.leases[key] for key in self.index.by_end.get(instant, ()) if key in self.leases)

    def leases_of(self, run: Run) -> tuple[Lease, ...]:
        """The run's open leases, by key."""
        mine = [lease for lease in self.index.by_run.get(run.key, ()) if fold.same_run(run, lease.run_uid)]
        mine = [lease for lease in mine if lease.key in self.leases]
        return tuple(sorted(mine, key=lambda lease: lease.key))

    def leases_by_run(self) -> Mapping[str, Sequence[Lease]]:
        """All open leases by the key of their run."""
        return self.index.by_run if self.leases is self.index.leases else fold.by_run(self.leases.values())

    def ask(self, run: Run) -> Ask:
        """On the run's behalf: what is left of its look-ahead (C2), its horizon (F3), its own promises aside."""
        ahead = self.ahead(run)
        return Ask(
            now=self.now,
            horizon=horizon(self.now, ahead, run.opportunistic),
            ahead=ahead,
            counted=not run.opportunistic,
            own=self.index.promises_by_run.get(run.key, ()),
            known_ends=self.known_ends.by_payer,
        )

    @cached_property
    def known_ends(self) -> KnownEnds:
        """Known ends of open leases: a promise may follow them on the same GPUs, for the same payer (F3)."""
        if not any(made.earliest_start is not None for made in self.reservations):
            return KnownEnds((), {})
        return KnownEnds([(end, lease) for end, lease in self.ends() if end > self.now], self.fleet.use)

    def ahead(self, run: Run) -> int | None:
        """C2: the run's duration, or what is left of it if it holds leases; None without a duration."""
        if run.duration is None:
            return None
        held = self.leases_of(run)
        ends = [end for end in (self.index.ends_at(lease) for lease in held) if end is not None]
        return max(0, max(ends) - self.now) if ends else run.duration

    def room(self, run: Run, only: Domain | None = None) -> Room:
        """What the run may use of the fleet now, or of one domain of it (P1, F3)."""
        if only is not None:
            return self.fleet.room(run, self.view(run), only)
        if self._seen is None or self._seen[0] is not run:
            self._seen = run, self.fleet.room(run, self.view(run))
        return self._seen[1]

    def room_without(self, leases: Iterable[Lease], run: Run, only: Domain | None = None) -> Room:
        """The same as if those leases were closed: where only room is asked for, the books need no copy."""
        gone = tuple(leases)
        fleet = self.fleet.without(gone, self.index.pods())
        view = replace(self.view(run), known_ends=self.known_ends.without(gone, fleet.use))
        return fleet.room(run, view, only)

    def pod(self, ref: tuple[str, str, str]) -> Pod | None:
        """The pod of that namespace, name and UID, if it exists."""
        return self.index.pods().get(ref)

    def view(self, run: Run) -> View:
        """The fleet as the run sees it: holds before its horizon count, its own do not (F3)."""
        reach = horizon(self.now, self.ahead(run), run.opportunistic)
        own = self.index.node_holds.get(run.key, {})
        return View(now=self.now, horizon=reach, own=own, known_ends=self.known_ends.by_node)

    def empty_room(self, run: Run) -> Room:
        """F1 (a): what the run could use of the empty fleet."""
        return self.fleet.empty_room(run)

    def used_domains(self, run: Run) -> tuple[Domain, ...]:
        """P3: domains in which the run already holds groups, by name."""
        nodes = self.fleet.nodes
        working = [lease.node for lease in self.leases_of(run) if lease.role is not Role.SPARE]
        found = {nodes[name].domain for name in working if name in nodes}
        return tuple(sorted(domain for domain in found if domain is not None))

    def borrowed_gpus(self, run: Run) -> int:
        """C6: borrowed GPUs that the run holds, spares included."""
        return sum(lease.gpus for lease in self.leases_of(run) if lease.funding is FundingClass.BORROWED)

    def queued_payers(self, run: Run) -> frozenset[Payer]:
        """F1 (d): envelopes that an older Blocked reservation waits for; StrictFIFO ones are passed over."""
        others = [made for made in self.reservations if made.earliest_start is None and made.run_key != run.key]
        mine = [_age(made) for made in self.reservations if made.run_key == run.key]
        older = [made for made in others if not mine or _age(made) < min(mine)]
        return frozenset(share.payer for made in older for share in made.payers)

    def _closed(self, keys: Collection[str], ended: Sequence[tuple[Lease, int | None, int]], now: int) -> World:
        if not keys:
            return World(self.index, now, self.leases, self.books.closed((), now), self.fleet)
        leases = dict(self.leases)
        for key in keys:
            del leases[key]
        fleet = self.fleet.without([lease for lease, _, _ in ended], self.index.pods())
        return World(self.index, now, leases, self.books.closed(ended, now), fleet)


class Index:
    """What all worlds of one snapshot share: runs, the organisation, promises, and when attempts end."""

    def __init__(self, snapshot: Snapshot, now: int, leases: Mapping[str, Lease]) -> None:
        self.snapshot, self.now = snapshot, now
        self.tree = Tree(snapshot.budgets)
        self.runs = {run.key: run for run in snapshot.runs}
        self.leases = leases
        timed = any(run.duration is not None for run in snapshot.runs)
        attempts = fold.attempts(leases) if timed else {}
        ends = self._ends = self._attempt_ends(fold.first_starts(snapshot, leases, attempts)) if timed else {}
        self.ends = {key: end for key, attempt in attempts.items() if (end := ends.get(attempt)) is not None}
        self.reservations = fold.standing_reservations(snapshot, self.runs, leases.values())
        self.promises_by_run: dict[str, tuple[Promise, ...]] = {}
        self.node_holds: dict[str, NodeHolds] = {}
        for made in self.reservations:
            self.promises_by_run[made.run_key] = promises_of(self.tree, self.runs, made, now)
            self.node_holds[made.run_key] = self._slice_holds(made)
        self._pods: dict[tuple[str, str, str], Pod] | None = None

    def unpromised(self) -> Index:
        """The same without leases and promises (F1 a)."""
        other = object.__new__(Index)
        other.__dict__.update(self.__dict__)
        other.leases, other.reservations, other.by_run = {}, (), {}
        other.promises_by_run, other.node_holds, other.by_end = {}, {}, {}
        return other

    def all_promises(self) -> Iterable[Promise]:
        return (promise for promises in self.promises_by_run.values() for promise in promises)

    def ends_at(self, lease: Lease) -> int | None:
        return self._ends.get(fold.attempt_of(lease))

    @cached_property
    def by_run(self) -> dict[str, list[Lease]]:
        return fold.by_run(self.leases.values())

    def ended_by(self, instant: int) -> list[tuple[int, str]]:
        """Leases whose known end has come by then, with it; those past their duration included."""
        return [(end, key) for end, keys in self.by_end.items() if end <= instant for key in keys]

    @cached_property
    def by_end(self) -> dict[int, list[str]]:
        """Keys of leases with a known end, by end, both in order."""
        found: dict[int, list[str]] = {}
        for key, end in self.ends.items():
            found.setdefault(end, []).append(key)
        return {end: sorted(found[end]) for end in sorted(found)}

    def instants(self) -> set[int]:
        """Ends of leases, windows that open or close, reservations that begin or finish."""
        found = set(self._ends.values())
        for budget in self.snapshot.budgets:
            for envelope in budget.envelopes:
                found.update(t for t in (envelope.start_at, envelope.end_at) if t is not None)
        for holds in self.node_holds.values():
            found.update(t for hold in holds.values() for t in (hold.start_at, hold.finish_at))
        for promises in self.promises_by_run.values():
            found.update(t for promise in promises for t in (promise.hold.start_at, promise.hold.finish_at))
        found.discard(FOREVER)
        return found

    def pods(self) -> Mapping[tuple[str, str, str], Pod]:
        if self._pods is None:
            self._pods = {(pod.namespace, pod.name, pod.uid): pod for pod in self.snapshot.pods}
        return self._pods

    def _attempt_ends(self, starts: Mapping[fold.Attempt, int]) -> dict[fold.Attempt, int]:
        """C2: when each attempt ends; one past its duration counts until now and nothing more."""
        ends = {}
        for attempt, start in starts.items():
            namespace, name, uid, _ = attempt
            run = self.runs.get(f"{namespace}/{name}")
            if run is not None and run.duration is not None and fold.same_run(run, uid):
                ends[attempt] = max(self.now, start + run.duration)
        return ends

    def _slice_holds(self, made: Reservation) -> NodeHolds:
        """F3: a reservation's slice by node, from its earliestStart until its run will have ended."""
        if made.earliest_start is None:
            return {}
        run, gpus = self.runs[made.run_key], dict[str, int]()
        for group in made.groups:
            for node in group.nodes:
                gpus[node.name] = gpus.get(node.name, 0) + node.gpus
        start = made.earliest_start
        finish = FOREVER if run.duration is None else max(self.now, start) + run.duration
        return {name: Hold(start, finish, count) for name, count in gpus.items()}


def _age(made: Reservation) -> tuple[int, str]:
    return made.created_at, made.key
