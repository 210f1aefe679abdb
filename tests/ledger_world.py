"""A small ledger with a story, as plain Kubernetes objects: what `verify` reads, and what the tests tamper with.

`rai/train` (24 GPUs, 8 of them borrowed) and `nlp/prep` run; `rai/big` needs a node and is promised one; a lottery
over both cuts one; its leases are closed and `big` starts. Digests, seed and picks are computed, never written down.
"""

from __future__ import annotations

from typing import Any

from kubectl_runs.commit.draft import Draft, entry_object
from kubectl_runs.wire import decode, encode
from kubectl_runs.wire.kinds import API_VERSION
from kubectl_runs.wire.times import instant, rfc3339
from planner.digest import digest
from planner.draw import order, reservation_seed
from planner.model import (
    NO_DIGEST,
    Closed,
    DrawRecord,
    Ended,
    EntryKind,
    Freeze,
    FundingClass,
    LedgerBase,
    Opened,
    Opening,
    Payer,
    PayerShare,
    PodRef,
    Reservation,
    Role,
    RunRef,
    Settled,
    SliceGroup,
    SliceNode,
    Token,
)

Json = dict[str, Any]
T0 = instant("2026-01-05T12:00:00Z")
NOW = T0 + 7200
RAI, MM, NLP = Payer("rai", "west"), Payer("mm", "west"), Payer("nlp", "west")


def namespace(name: str, owner: str) -> Json:
    note = {"rq.davidlangworthy.io/owner": owner}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "annotations": note}}


def node(name: str, gpus: int = 8, fabric: str = "d1") -> Json:
    labels = {"region": "us-west", "cluster": "a", "fabric.domain": fabric, "gpu.flavor": "H100"}
    resources = {"nvidia.com/gpu": str(gpus), "cpu": "128", "memory": "1Ti", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": resources, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def budget(name: str, owner: str, concurrency: int, **envelope: Any) -> Json:
    west = {"name": "west", "flavor": "H100", "concurrency": concurrency, **envelope}
    return {
        "apiVersion": API_VERSION,
        "kind": "Budget",
        "metadata": {"name": name, "generation": 1},
        "spec": {"owner": owner, "envelopes": [west]},
    }


def run(key: str, owner: str, gpus: int, phase: str = "Running", **spec: Any) -> Json:
    where, name = key.split("/")
    template = {"spec": {"containers": [{"name": "main", "image": "example/train:1"}]}}
    return {
        "apiVersion": API_VERSION,
        "kind": "Run",
        "metadata": {"name": name, "namespace": where, "uid": f"uid-{name}", "creationTimestamp": rfc3339(T0 - 60)},
        "spec": {
            "owner": owner,
            "resources": {"gpuType": "H100", "totalGPUs": gpus, "gpusPerPod": 8},
            **spec,
            "template": template,
        },
        "status": {"phase": phase},
    }


class World:
    """Objects by kind and key; `append` adds an entry and carries it out."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Json] = {}
        self.seq = 0
        self.prev = NO_DIGEST
        self.time = T0

    def add(self, *objects: Json) -> None:
        for obj in objects:
            metadata = obj["metadata"]
            self.objects[obj["kind"], "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))] = obj

    def list(self) -> list[Json]:
        return [self.objects[key] for key in sorted(self.objects)]

    def append(self, at: int, draft: Draft) -> int:
        """One entry, created at `at`, and the leases and closes it asks for."""
        self.seq += 1
        obj = entry_object(draft, seq=self.seq, prev=self.prev, nonce=f"{self.seq:032x}", read_at=at)
        obj["metadata"] |= {"uid": f"uid-entry-{self.seq}", "creationTimestamp": rfc3339(at)}
        self.prev = digest(obj["spec"])
        self.time = max(self.time, at)
        self.add(obj)
        self._carry_out(obj)
        return self.seq

    def entry(self, seq: int) -> Json:
        return self.objects["LedgerEntry", f"{seq:012d}"]

    def lease(self, key: str) -> Json:
        return self.objects["Lease", key]

    def opens(self, run_name: str, *seats: tuple[str, int, Payer, FundingClass], **more: Any) -> tuple[Opened, ...]:
        """One lease a seat (node, GPUs, payer, class), each with a pod of its own."""
        owner = self.objects["Run", run_name]["spec"]["owner"]
        short = more.get("pods", run_name.split("/")[1])
        return tuple(
            Opened(
                lease="",
                pod=PodRef(name=f"{short}-{index}", uid=f"uid-{short}-{index}"),
                node=where,
                gpus=gpus,
                group=more.get("group", 0),
                role=more.get("role", Role.ACTIVE),
                owner=owner,
                payer=payer,
                funding=funding,
                reason=more.get("reason", Opening.START),
            )
            for index, (where, gpus, payer, funding) in enumerate(seats)
        )

    def ref(self, key: str, attempt: int = 1) -> RunRef:
        where, name = key.split("/")
        return RunRef(namespace=where, name=name, uid=f"uid-{name}", attempt=attempt)

    def close(self, at: int, reason: str, *keys: str) -> tuple[Closed, ...]:
        closes = []
        for key in keys:
            lease = decode.lease(self.lease(key))
            closes.append(
                Closed(
                    namespace=lease.namespace,
                    lease=lease.name,
                    at=at,
                    reason=reason,
                    gpu_seconds=lease.gpus * (at - lease.start_at),
                    payer=lease.payer,
                    funding=lease.funding,
                    spec=digest(self.lease(key)["spec"]),
                )
            )
        return tuple(closes)

    def records(self, *names: str) -> tuple[Json, ...]:
        return tuple(encode.budget_record(self.objects["Budget", name]) for name in names)

    def advance_base(self, pending: tuple[int, ...] = ()) -> None:
        """`base` at the last entry, with what the closes so far add up to."""
        sums: dict[tuple[Payer, FundingClass], int] = {}
        for seq in range(1, self.seq + 1):
            for closed in decode.entry(self.entry(seq)).closes:
                key = (closed.payer, closed.funding)
                sums[key] = sums.get(key, 0) + closed.gpu_seconds
        settled = tuple(Settled(payer=p, funding=f, gpu_seconds=s) for (p, f), s in sorted(sums.items()))
        base = LedgerBase(seq=self.seq, digest=self.prev, time=self.time, pending=pending, settled=settled)
        spec = encode.base_spec(base, {})
        self.add({"apiVersion": API_VERSION, "kind": "Ledger", "metadata": {"name": "base"}, "spec": spec})

    def _carry_out(self, obj: Json) -> None:
        entry = decode.entry(obj)
        for opened in entry.opens:
            self.add(encode.lease_object(entry, opened))
            if opened.pod and entry.run:
                self.add(_pod(entry.run, opened))
        for closed in entry.closes:
            lease = self.lease(f"{closed.namespace}/{closed.lease}")
            lease |= encode.lease_closing(closed)
            pod = lease["spec"].get("podRef", {}).get("name")
            self.objects.pop(("Pod", f"{closed.namespace}/{pod}"), None)


def _pod(owner: RunRef, opened: Opened) -> Json:
    assert opened.pod is not None
    resources = {"limits": {"nvidia.com/gpu": str(opened.gpus)}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": opened.pod.name,
            "namespace": owner.namespace,
            "uid": opened.pod.uid,
            "ownerReferences": [{"apiVersion": API_VERSION, "kind": "Run", "name": owner.name, "uid": owner.uid}],
        },
        "spec": {"nodeName": opened.node, "containers": [{"name": "main", "resources": resources}]},
        "status": {"phase": "Running"},
    }


def bare() -> World:
    """Four nodes, three budgets, three runs that want them; nothing has happened yet."""
    world = World()
    world.add(namespace("rai", "org:ai:rai"), namespace("nlp", "org:ai:nlp"))
    world.add(*(node(f"n{index}") for index in (1, 2, 3, 4)))
    world.add(
        budget("rai", "org:ai:rai", 24),
        budget("nlp", "org:ai:nlp", 8, sharing="none"),
        budget("mm", "org:lab:mm", 64, lending={"allow": True, "to": ["org:ai:*"], "maxConcurrency": 8}),
    )
    borrow = {"allowBorrow": True, "maxBorrowGPUs": 8, "sponsors": ["org:lab:mm"]}
    world.add(
        run("rai/train", "org:ai:rai", 24, funding=borrow),
        run("nlp/prep", "org:ai:nlp", 8),
        run("rai/big", "org:ai:rai", 8),
    )
    return world


def start(world: World, at: int, key: str, *seats: tuple[str, int, Payer, FundingClass], attempt: int = 1) -> int:
    names = sorted({payer.budget for _, _, payer, _ in seats})
    draft = Draft(
        kind=EntryKind.START,
        run=world.ref(key, attempt),
        budgets=world.records(*names),
        plan="sha256:" + "5" * 64,
        opens=world.opens(key, *seats),
    )
    return world.append(at, draft)


def promise(world: World, at: int) -> Reservation:
    """The Reservation of `rai/big`: one node, due in an hour."""
    made = Reservation(
        namespace="rai",
        name="big",
        uid="uid-res-big",
        run_name="big",
        run_uid="uid-big",
        gpus=8,
        groups=(SliceGroup(index=0, domain="us-west/a/d1", nodes=(SliceNode(name="n4", gpus=8),)),),
        payers=(PayerShare(payer=RAI, gpus=8),),
        earliest_start=T0 + 3600,
    )
    world.append(
        at, Draft(kind=EntryKind.RESERVE, run=world.ref("rai/big"), reserve=made, budgets=world.records("rai"))
    )
    obj = encode.reservation_object("rai", "big", encode.reservation_spec(made))
    obj["metadata"] |= {"uid": made.uid, "creationTimestamp": rfc3339(at)}
    obj["status"] = {"state": "Pending"}
    world.add(obj)
    return made


def whole() -> World:
    """The whole story, base at its end."""
    world = bare()
    owned, borrowed = FundingClass.OWNED, FundingClass.BORROWED
    start(world, T0, "rai/train", ("n1", 8, RAI, owned), ("n2", 8, RAI, owned), ("n3", 8, MM, borrowed))
    start(world, T0 + 60, "nlp/prep", ("n4", 8, NLP, owned))
    made = promise(world, T0 + 120)
    tokens = (Token(owner="org:ai:nlp", run="nlp/prep", gpus=8), Token(owner="org:ai:rai", run="rai/train", gpus=24))
    frozen = Freeze(
        algorithm="two-stage/1", flavor="H100", nodes=("n1", "n2", "n3", "n4"), deficit_gpus=8, tokens=tokens
    )
    reservation = RunRef(namespace="rai", name="big", uid=made.uid)
    freeze = world.append(
        T0 + 3600, Draft(kind=EntryKind.FREEZE, run=world.ref("rai/big"), reservation=reservation, freeze=frozen)
    )
    seed = reservation_seed(decode.entry(world.entry(freeze)), made)
    loser = order(seed, tokens)[0].run
    _cut(world, made, reservation, seed.hex(), loser, freeze)
    keys = [f"rai/l-1-{index}" for index in range(3)] if loser == "rai/train" else ["nlp/l-2-0"]
    closes = world.close(T0 + 3660, f"RandomPreempt({seed.hex()})", *keys)
    world.append(T0 + 3661, Draft(kind=EntryKind.CLOSE, run=world.ref(loser), closes=closes))
    world.objects["Run", loser]["status"]["phase"] = "Failed"
    start(world, T0 + 3700, "rai/big", ("n4" if loser == "nlp/prep" else "n1", 8, RAI, owned))
    world.objects["Reservation", "rai/big"]["status"]["state"] = "Released"
    world.advance_base()
    return world


def _cut(world: World, made: Reservation, reservation: RunRef, seed: str, loser: str, freeze: int) -> None:
    count = 3 if loser == "rai/train" else 1
    where, number = loser.split("/")[0], 1 if count == 3 else 2
    ends = tuple(
        Ended(namespace=where, lease=f"l-{number}-{index}", reason=f"RandomPreempt({seed})") for index in range(count)
    )
    draw = DrawRecord(freeze=freeze, seed=seed, picks=(loser,))
    world.append(
        T0 + 3605,
        Draft(
            kind=EntryKind.CUT,
            run=world.ref("rai/big"),
            reservation=reservation,
            ends=ends,
            reserve=made,
            draw=draw,
        ),
    )


def as_list(world: World) -> Json:
    """The objects as one List, as `snapshot save` writes them."""
    return {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": world.list()}
