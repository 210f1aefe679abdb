"""The same verdicts by brute force, for small worlds: written from the design's sentences, sharing no code.

Cover: is there any way to charge the request to envelopes that may pay? Pack: is there any way to seat it? Neither
knows the order of asking or of packing; the planner's "no" must be nobody's "yes".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product

from planner.model import Budget, Envelope, Node, Run, Snapshot

HOUR = 3600


def may_pay(snapshot: Snapshot, run: Run, now: int, gpus: int) -> bool:
    """C1-C6: some split of the GPUs over own, family and lenders passes no cap. Every amount is tried."""
    purses = [(budget, envelope) for budget in snapshot.budgets for envelope in budget.envelopes]
    ways = [_ways(snapshot, run, budget, envelope, now, gpus) for budget, envelope in purses]
    for takes in product(*ways):
        total = sum(family + loan for family, loan in takes)
        if total == gpus and _caps_hold(run, purses, takes, now) and _borrowing_holds(run, takes):
            return True
    return False


def _ways(
    snapshot: Snapshot, run: Run, budget: Budget, envelope: Envelope, now: int, gpus: int
) -> list[tuple[int, int]]:
    """All amounts that one envelope may pay, as family and as a lender."""
    over = envelope.end_at is not None and now >= envelope.end_at
    if envelope.flavor != run.flavor or over or (envelope.start_at is not None and now < envelope.start_at):
        return [(0, 0)]
    kin = budget.owner == run.owner or (_is_family(budget.owner, run.owner) and envelope.sharing != "none")
    lender = _may_lend(budget.owner, envelope, run)
    return [
        (family, loan)
        for family in range(gpus + 1 if kin else 1)
        for loan in range(gpus + 1 - family if lender else 1)
        if _envelope_holds(envelope, run, family, loan, now)
    ]


def _is_family(payer: str, owner: str) -> bool:
    """Paths only: these worlds name no parents."""
    above = owner.rpartition(":")[0]
    return payer == above or (payer.rpartition(":")[0] == above and payer != owner and above != "")


def _may_lend(payer: str, envelope: Envelope, run: Run) -> bool:
    sponsors, lending = run.funding.sponsors, envelope.lending
    if not run.funding.allow_borrow or not sponsors or not lending.allow:
        return False
    if not any(_glob(glob, run.owner) for glob in lending.to):
        return False
    above = {sponsor.rpartition(":")[0] for sponsor in sponsors}
    aunt, mother = payer.rpartition(":")[0], run.owner.rpartition(":")[0]
    cousin = aunt not in ("", mother) and aunt.rpartition(":")[0] == mother.rpartition(":")[0]
    return payer in sponsors or payer in above or cousin


def _glob(glob: str, owner: str) -> bool:
    return owner.startswith(glob[:-1]) if glob.endswith("*") else owner == glob


def _ahead(run: Run, envelope: Envelope, now: int) -> int:
    if run.duration is not None:
        return run.duration
    return 24 * HOUR if envelope.end_at is None else envelope.end_at - now


def _envelope_holds(envelope: Envelope, run: Run, family: int, loan: int, now: int) -> bool:
    ahead, lending, gpus = _ahead(run, envelope, now), envelope.lending, family + loan
    fits = run.opportunistic or gpus <= envelope.concurrency
    fits = fits and (envelope.gpu_hours_max is None or gpus * ahead <= envelope.gpu_hours_max * HOUR)
    if loan and not run.opportunistic and lending.concurrency_max is not None:
        fits = fits and loan <= lending.concurrency_max
    return fits and (not loan or lending.gpu_hours_max is None or loan * ahead <= lending.gpu_hours_max * HOUR)


def _caps_hold(run: Run, purses: list[tuple[Budget, Envelope]], takes: Iterable[tuple[int, int]], now: int) -> bool:
    rows = [(budget, envelope, family + loan) for (budget, envelope), (family, loan) in zip(purses, takes, strict=True)]
    for budget in {id(budget): budget for budget, _ in purses}.values():
        for cap in budget.caps:
            mine = [
                (envelope, gpus) for owner, envelope, gpus in rows if owner is budget and envelope.name in cap.envelopes
            ]
            gpus = sum(count for _, count in mine)
            seconds = sum(count * _ahead(run, envelope, now) for envelope, count in mine)
            if not run.opportunistic and cap.concurrency_max is not None and gpus > cap.concurrency_max:
                return False
            if cap.gpu_hours_max is not None and seconds > cap.gpu_hours_max * HOUR:
                return False
    return True


def _borrowing_holds(run: Run, takes: Iterable[tuple[int, int]]) -> bool:
    most = run.funding.borrow_gpus_max
    return most is None or sum(loan for _, loan in takes) <= most


def may_sit(nodes: tuple[Node, ...], run: Run, groups: list[int]) -> bool:
    """P2, P4: some seating of these groups (in pods) and their spares exists. Every seating is tried."""
    free = {node.name: node.gpus // run.gpus_per_pod for node in nodes}
    spares = 0 if run.opportunistic else run.spares_per_group
    by_name = {node.name: node for node in nodes}
    homes = sorted({node.domain for node in nodes if node.domain is not None})

    def seat(index: int, left: dict[str, int], chosen: tuple[object, ...]) -> bool:
        if index == len(groups):
            return True
        for home in homes:
            if not run.cross_group_spread and chosen and home != chosen[0]:
                continue
            here = [name for name in sorted(left) if by_name[name].domain == home]
            for work in _spreads(groups[index], here, left):
                rest = {name: left[name] - work.get(name, 0) for name in left}
                near = [name for name in rest if name not in work and _near(by_name[name], work, by_name)]
                for beside in _spreads(spares, near, rest):
                    after = {name: rest[name] - beside.get(name, 0) for name in rest}
                    if seat(index + 1, after, (*chosen, home)):
                        return True
        return False

    return seat(0, free, ())


def _near(node: Node, work: dict[str, int], by_name: dict[str, Node]) -> bool:
    """P4: the same domain, the same rack label, or the same cluster."""
    for name in work:
        other = by_name[name]
        assert node.domain is not None
        assert other.domain is not None
        if node.domain[:2] == other.domain[:2] or (node.rack is not None and node.rack == other.rack):
            return True
    return False


def _spreads(pods: int, names: list[str], room: dict[str, int]) -> Iterator[dict[str, int]]:
    """All ways to put so many pods on these nodes."""
    if not pods:
        yield {}
        return
    if not names:
        return
    first, *others = names
    for count in range(min(pods, room[first]), -1, -1):
        for rest in _spreads(pods - count, others, room):
            yield {first: count, **rest} if count else rest
