"""Test worlds in a line notation: one object a line, its kind first, then what it is, then `key=value` extras.

    nodes   us-west/a/d1  3x8                        d1-n1, d1-n2, d1-n3 of 8 GPUs; `8,4` two of those sizes
    node    d1-n9 us-west/a/d1 8  cordoned notready rack=r1 cpu=4 memory=16 pods=3 taint=k:NoSchedule label=k:v
    budget  rai org:ai:rai  parents=org:pool,org:x
    env     rai/west 16  flavor=A100 region=us-west hours=100 from=0 until=3600 sharing=none fifo=strict
                         lends=org:ai:*,org:x lend-max=8 lend-hours=10
    cap     rai/both west,east  gpus=20 hours=40
    run     rai/train 24  owner=... per=4 group=8 spares=1 duration=3600 sponsors=a,b borrow=8 together opportunistic
                          min=8 max=64 step=8 desired=32 region=us-west
    lease   rai/old d1-n1 8 rai/west  role=Spare class=borrowed group=1 start=-3600 end=0 name=l-3-0 pod=p1 attempt=2
    pod     rai/p1 d1-n1 8  uid=u phase=Succeeded terminating cpu=2 memory=4
    reserve rai/later at=7200  nodes=d1-n1:8,d1-n2:4 pays=rai/west:12 made=-60 state=Released
    settled rai/west 3600  class=borrowed

`now` is 0 unless a test says otherwise; instants are seconds from it, GPU-hours are whole hours. The owner of a run
is `org:ai:rai` and its flavor `H100` unless it says so. Runs without leases stand in the snapshot too.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field, replace

from planner.model import (
    AggregateCap,
    Budget,
    Domain,
    Envelope,
    Funding,
    FundingClass,
    Lease,
    LedgerBase,
    Lending,
    Malleable,
    Node,
    Payer,
    PayerShare,
    Pod,
    PodRef,
    Reservation,
    ReservationState,
    Role,
    Run,
    Selector,
    Settled,
    SliceGroup,
    SliceNode,
    Snapshot,
    Taint,
)
from planner.world import World

NOW = 0
OWNER = "org:ai:rai"
FLAVOR = "H100"
GIB = 1 << 30


@dataclass
class Parts:
    """The objects read so far."""

    nodes: list[Node] = field(default_factory=list)
    budgets: dict[str, Budget] = field(default_factory=dict)
    runs: dict[str, Run] = field(default_factory=dict)
    leases: list[Lease] = field(default_factory=list)
    pods: list[Pod] = field(default_factory=list)
    reservations: list[Reservation] = field(default_factory=list)
    settled: list[Settled] = field(default_factory=list)


def snapshot(text: str) -> Snapshot:
    """The snapshot that the lines describe."""
    parts = Parts()
    for line in text.splitlines():
        words = shlex.split(line, comments=True)
        if words:
            _READERS[words[0]](parts, words[1:])
    return Snapshot(
        nodes=tuple(parts.nodes),
        budgets=tuple(parts.budgets.values()),
        runs=tuple(parts.runs.values()),
        leases=tuple(parts.leases),
        pods=tuple(parts.pods),
        reservations=tuple(parts.reservations),
        base=LedgerBase(settled=tuple(parts.settled)) if parts.settled else None,
    )


def world(text: str, now: int = NOW) -> World:
    return World.of(snapshot(text), now)


def run_of(text: str) -> Run:
    """A run that is in no snapshot yet, from the words after `run`."""
    parts = Parts()
    _run(parts, shlex.split(text))
    return next(iter(parts.runs.values()))


def _split(words: list[str]) -> tuple[list[str], dict[str, str]]:
    """Plain words and extras; an extra without a value is set to its own name."""
    plain = [word for word in words if "=" not in word and word not in _FLAGS]
    extras = {word: word for word in words if word in _FLAGS}
    for word in words:
        key, equals, value = word.partition("=")
        if equals:
            extras[key] = value
    return plain, extras


_FLAGS = ("cordoned", "notready", "together", "opportunistic", "terminating", "canceled")


def _domain(text: str) -> Domain:
    region, cluster, fabric = text.split("/")
    return Domain(region, cluster, fabric)


def _payer(text: str) -> Payer:
    budget, envelope = text.split("/")
    return Payer(budget, envelope)


def _number(extras: dict[str, str], key: str) -> int | None:
    return int(extras[key]) if key in extras else None


def _nodes(parts: Parts, words: list[str]) -> None:
    (where, fleet), extras = _split(words)
    count, times, each = fleet.partition("x")
    sizes = [int(each)] * int(count) if times else [int(size) for size in fleet.split(",")]
    flavor = extras.get("flavor", FLAVOR)
    for number, gpus in enumerate(sizes, 1):
        domain = _domain(where)
        parts.nodes.append(Node(name=f"{domain.fabric}-n{number}", domain=domain, flavor=flavor, gpus=gpus))


def _node(parts: Parts, words: list[str]) -> None:
    (name, where, gpus), extras = _split(words)
    taints: tuple[Taint, ...] = ()
    labels = {}
    if "taint" in extras:
        key, effect = extras["taint"].split(":")
        taints = (Taint(key=key, value="", effect=effect),)
    if "label" in extras:
        key, value = extras["label"].split(":")
        labels = {key: value}
    cpu, memory = _number(extras, "cpu"), _number(extras, "memory")
    node = Node(
        name=name,
        domain=None if where == "-" else _domain(where),
        flavor=extras.get("flavor", FLAVOR),
        rack=extras.get("rack"),
        gpus=int(gpus),
        cpu_milli=None if cpu is None else cpu * 1000,
        memory_bytes=None if memory is None else memory * GIB,
        pods=_number(extras, "pods"),
        cordoned="cordoned" in extras,
        ready="notready" not in extras,
        taints=taints,
        labels=labels,
    )
    parts.nodes.append(node)


def _budget(parts: Parts, words: list[str]) -> None:
    (name, owner), extras = _split(words)
    parents = tuple(extras["parents"].split(",")) if "parents" in extras else None
    parts.budgets[name] = Budget(name=name, owner=owner, parents=parents)


def _env(parts: Parts, words: list[str]) -> None:
    (payer, concurrency), extras = _split(words)
    budget, name = _payer(payer)
    lends = extras.get("lends")
    lending = Lending(
        allow=lends is not None,
        to=tuple(lends.split(",")) if lends else (),
        concurrency_max=_number(extras, "lend-max"),
        gpu_hours_max=_number(extras, "lend-hours"),
    )
    envelope = Envelope(
        name=name,
        flavor=extras.get("flavor", FLAVOR),
        selector=Selector(region=extras.get("region", "*"), fabric=extras.get("fabric", "*")),
        concurrency=int(concurrency),
        gpu_hours_max=_number(extras, "hours"),
        start_at=_number(extras, "from"),
        end_at=_number(extras, "until"),
        sharing=extras.get("sharing", "family"),
        queueing="StrictFIFO" if extras.get("fifo") == "strict" else "BestEffortFIFO",
        lending=lending,
    )
    old = parts.budgets[budget]
    parts.budgets[budget] = replace(old, envelopes=(*old.envelopes, envelope))


def _cap(parts: Parts, words: list[str]) -> None:
    (where, names), extras = _split(words)
    budget, name = where.split("/")
    cap = AggregateCap(
        name=name,
        flavor=extras.get("flavor", FLAVOR),
        envelopes=tuple(names.split(",")),
        concurrency_max=_number(extras, "gpus"),
        gpu_hours_max=_number(extras, "hours"),
    )
    old = parts.budgets[budget]
    parts.budgets[budget] = replace(old, caps=(*old.caps, cap))


def _run(parts: Parts, words: list[str]) -> None:
    (key, gpus), extras = _split(words)
    namespace, name = key.split("/")
    sponsors = tuple(extras["sponsors"].split(",")) if "sponsors" in extras else ()
    borrows = "borrow" in extras or ("sponsors" in extras and extras.get("borrows") != "no")
    most = None if extras.get("borrow", "any") == "any" else int(extras["borrow"])
    parts.runs[key] = Run(
        namespace=namespace,
        name=name,
        uid=f"uid-{name}",
        owner=extras.get("owner", OWNER),
        flavor=extras.get("flavor", FLAVOR),
        gpus_total=int(gpus),
        gpus_per_pod=int(extras.get("per", "1")),
        group_gpus=_number(extras, "group"),
        cross_group_spread="together" not in extras,
        selector=Selector(region=extras.get("region", "*")),
        malleable=_malleable(int(gpus), extras),
        spares_per_group=int(extras.get("spares", "0")),
        canceled="canceled" in extras,
        funding=Funding(allow_borrow=borrows, borrow_gpus_max=most, sponsors=sponsors),
        duration=_number(extras, "duration"),
        opportunistic="opportunistic" in extras,
    )


def _malleable(gpus: int, extras: dict[str, str]) -> Malleable | None:
    if "min" not in extras:
        return None
    return Malleable(
        gpus_min=int(extras["min"]),
        gpus_max=int(extras.get("max", gpus)),
        gpus_step=int(extras.get("step", "1")),
        gpus_desired=int(extras.get("desired", gpus)),
    )


def _lease(parts: Parts, words: list[str]) -> None:
    (run_key, node, gpus, payer), extras = _split(words)
    namespace, run_name = run_key.split("/")
    known = parts.runs.get(run_key)
    pod, end = extras.get("pod"), _number(extras, "end")
    lease = Lease(
        namespace=namespace,
        name=extras.get("name", f"lease-{len(parts.leases):03}"),
        owner=known.owner if known else OWNER,
        run_name=run_name,
        run_uid=f"uid-{run_name}",
        attempt=int(extras.get("attempt", "1")),
        pod=PodRef(name=pod, uid=f"uid-{pod}") if pod else None,
        group=int(extras.get("group", "0")),
        node=node,
        gpus=int(gpus),
        role=Role(extras.get("role", "Active")),
        start_at=int(extras.get("start", "-3600")),
        payer=_payer(payer),
        funding=FundingClass(extras.get("class", "owned")),
        closed=end is not None,
        end_at=end,
        closure="Completed" if end is not None else None,
    )
    parts.leases.append(lease)


def _pod(parts: Parts, words: list[str]) -> None:
    (key, node, gpus), extras = _split(words)
    namespace, name = key.split("/")
    pod = Pod(
        namespace=namespace,
        name=name,
        uid=extras.get("uid", f"uid-{name}"),
        node="" if node == "-" else node,
        gpus=int(gpus),
        cpu_milli=int(extras.get("cpu", "0")) * 1000,
        memory_bytes=int(extras.get("memory", "0")) * GIB,
        phase=extras.get("phase", "Running"),
        terminating="terminating" in extras,
    )
    parts.pods.append(pod)


def _reserve(parts: Parts, words: list[str]) -> None:
    (key,), extras = _split(words)
    namespace, name = key.split("/")
    at = _number(extras, "at")
    nodes = tuple(_slice_node(text) for text in extras.get("nodes", "").split(",") if text)
    shares = tuple(_share(text) for text in extras.get("pays", "").split(",") if text)
    homes = {node.name: node.domain for node in parts.nodes}
    home = homes[nodes[0].name] if nodes else None
    default = ReservationState.BLOCKED if at is None else ReservationState.PENDING
    made = Reservation(
        namespace=namespace,
        name=name,
        run_name=name,
        run_uid=f"uid-{name}",
        gpus=sum(share.gpus for share in shares),
        groups=(SliceGroup(index=0, domain=home.name, nodes=nodes),) if home else (),
        payers=shares,
        earliest_start=at,
        state=ReservationState(extras["state"]) if "state" in extras else default,
        created_at=int(extras.get("made", "-60")),
    )
    parts.reservations.append(made)


def _slice_node(text: str) -> SliceNode:
    name, gpus = text.split(":")
    return SliceNode(name=name, gpus=int(gpus))


def _share(text: str) -> PayerShare:
    payer, gpus = text.split(":")
    return PayerShare(payer=_payer(payer), gpus=int(gpus))


def _settled(parts: Parts, words: list[str]) -> None:
    (payer, seconds), extras = _split(words)
    funding = FundingClass(extras.get("class", "owned"))
    parts.settled.append(Settled(payer=_payer(payer), funding=funding, gpu_seconds=int(seconds)))


_READERS = {
    "nodes": _nodes,
    "node": _node,
    "budget": _budget,
    "env": _env,
    "cap": _cap,
    "run": _run,
    "lease": _lease,
    "pod": _pod,
    "reserve": _reserve,
    "settled": _settled,
}
