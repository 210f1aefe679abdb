"""The actions of the matrix of rights: what is asked, who may, and what the others hear.

Users: researcher (of namespace team-a), rival (a researcher of team-b), operator, daemon, auditor, stranger.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tests.controlplane import fleet
from tests.controlplane.client import Object, path_of

API = "rq.davidlangworthy.io/v1"
USERS = ("researcher", "rival", "operator", "daemon", "auditor", "stranger")
RESOLVERS = "operator daemon"
EVERYBODY = "researcher rival operator daemon auditor"
TEAM = "researcher operator daemon"
ZEROS = "sha256:" + "0" * 64
FLOOR = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One request. `words` are in the refusal of those who have the right but ask for what nobody may."""

    name: str
    method: str
    path: str
    body: Object | Callable[[], Object] | None = None
    may: str = ""
    words: str = ""


def stamp(seconds_ago: int = 0) -> str:
    return (datetime.now(tz=UTC) - timedelta(seconds=seconds_ago)).strftime("%Y-%m-%dT%H:%M:%SZ")


def entry(kind: str, *, seq: int = 500, namespace: str = "team-a", read_at: str = "", **parts: object) -> Object:
    run = {"namespace": namespace, "name": "train", "uid": "u-1", "attempt": 1}
    spec = {"seq": seq, "prev": ZEROS, "nonce": "a" * 32, "readAt": read_at or stamp(), "kind": kind, "run": run}
    metadata = {"name": f"{seq:012d}"}
    return {"apiVersion": API, "kind": "LedgerEntry", "metadata": metadata, "spec": {**spec, **parts}}


def opens(budget: str = "rai") -> list[Object]:
    who = {"owner": "org:a", "budget": budget, "envelope": "main", "class": "owned", "reason": "Start"}
    return [{"lease": "l-500-0", "node": "n1", "gpus": 8, "role": "Active", "group": 0, **who}]


def ends(namespace: str) -> list[Object]:
    return [{"namespace": namespace, "lease": "l-40-0", "reason": "Canceled"}]


def closes(namespace: str) -> list[Object]:
    paid = {"gpuSeconds": 80, "budget": "rai", "envelope": "main", "class": "owned", "spec": ZEROS}
    return [{"namespace": namespace, "lease": "l-40-0", "at": stamp(60), "reason": "Completed", **paid}]


def lease(name: str, *, owner: str = "org:a") -> Object:
    spec = {
        "owner": owner,
        "runRef": {"name": "train", "uid": "u-1", "attempt": 1},
        "compPath": ["SHARD[0]"],
        "slice": {"nodes": ["n1"], "gpus": 8, "role": "Active"},
        "interval": {"start": "2026-01-05T12:00:00Z"},
        "paidByBudget": "rai",
        "paidByEnvelope": "main",
        "class": "owned",
        "reason": "Start",
    }
    return {"apiVersion": API, "kind": "Lease", "metadata": {"name": name}, "spec": spec}


def run(name: str, **spec: object) -> Object:
    template = {"spec": {"containers": [{"name": "main", "image": "example/train:1"}]}}
    asked = {"resources": {"gpuType": "H100", "totalGPUs": 8}, "template": template, **spec}
    return {"apiVersion": API, "kind": "Run", "metadata": {"name": name}, "spec": asked}


def reservation(name: str) -> Object:
    spec = {"runRef": {"name": "train", "uid": "u-1"}, "gpus": 8}
    return {"apiVersion": API, "kind": "Reservation", "metadata": {"name": name}, "spec": spec}


def budget(concurrency: int) -> Object:
    purse = {"name": "main", "flavor": "H100", "concurrency": concurrency}
    spec = {"owner": "org:a", "envelopes": [purse]}
    return {"apiVersion": API, "kind": "Budget", "metadata": {"name": "rai"}, "spec": spec}


def pod(name: str) -> Object:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "main", "image": "example/train:1"}]}}


def settled(gpu_seconds: int) -> list[Object]:
    return [{"budget": "rai", "envelope": "main", "class": "owned", "gpuSeconds": gpu_seconds}]


def base(**spec: object) -> Object:
    return {"spec": spec}


CLOSING = {"status": {"closed": True, "endTime": "2026-01-05T13:00:00Z", "closureReason": "Completed"}}
TIED = {"metadata": {"name": f"{500:012d}", "finalizers": ["example.com/never"]}}
REOPENING = {"status": {"closed": False, "endTime": None, "closureReason": None}}
ENTRIES = path_of("ledgerentries")
BASE = path_of("ledgers", "", "base")
LEASES = path_of("leases", "team-a")
POLICIES = "admissionregistration.k8s.io/v1/validatingadmissionpolicies"


def at(*parts: str) -> str:
    return path_of("leases", "team-a", *parts)


def reading() -> list[Action]:
    return [
        Action(name="read entries", method="GET", path=ENTRIES, may=EVERYBODY),
        Action(name="read base", method="GET", path=BASE, may=EVERYBODY),
        Action(name="read budgets", method="GET", path=path_of("budgets"), may=EVERYBODY),
        Action(name="read nodes", method="GET", path=path_of("nodes"), may=EVERYBODY),
        Action(name="read namespaces", method="GET", path=path_of("namespaces"), may=EVERYBODY),
        Action(name="list all leases", method="GET", path=path_of("leases"), may=EVERYBODY),
        Action(name="list all runs", method="GET", path=path_of("runs"), may=EVERYBODY),
        Action(name="list all reservations", method="GET", path=path_of("reservations"), may=EVERYBODY),
        Action(name="list all pods", method="GET", path=path_of("pods"), may=EVERYBODY),
        Action(name="read policies", method="GET", path=path_of(POLICIES), may="operator daemon auditor"),
        Action(name="read a log", method="GET", path=path_of("pods", "team-a", "worker", "log"), may=TEAM),
        Action(name="read secrets", method="GET", path="/api/v1/namespaces/team-a/secrets", may=""),
    ]


def appending() -> list[Action]:
    def append(name: str, may: str, made: Callable[[], Object], words: str = "") -> Action:
        return Action(name=name, method="POST", path=ENTRIES, body=made, may=may, words=words)

    others = "right to create pods"
    own_only = "only in its run's namespace"
    needs_resolve = "need the verb resolve"
    return [
        append("start a run", TEAM, lambda: entry("Start", opens=opens()), others),
        append("end a run", TEAM, lambda: entry("End", ends=ends("team-a")), others),
        append("end nothing", TEAM, lambda: entry("End"), others),
        append("close a lease", TEAM, lambda: entry("Close", closes=closes("team-a")), others),
        append("reserve", TEAM, lambda: entry("Reserve", reserve=reservation("train")["spec"]), others),
        append(
            "start a run elsewhere",
            "rival operator daemon",
            lambda: entry("Start", namespace="team-b", opens=opens()),
            others,
        ),
        append("end leases elsewhere", "", lambda: entry("End", ends=ends("team-b")), own_only),
        append("close leases elsewhere", "", lambda: entry("Close", closes=closes("team-b")), own_only),
        append("cut", RESOLVERS, lambda: entry("Cut", ends=ends("team-b")), needs_resolve),
        append("swap", RESOLVERS, lambda: entry("Swap", ends=ends("team-a"), opens=opens()), needs_resolve),
        append("freeze", RESOLVERS, lambda: entry("Freeze", freeze=frozen()), needs_resolve),
        append("append an old plan", "", lambda: entry("End", read_at=stamp(125)), "at most 2 minutes"),
        append("append from the future", "", lambda: entry("End", read_at=stamp(-60)), "at most 2 minutes"),
        append("append below the floor", "", lambda: entry("End", seq=FLOOR), "floor"),
        append("reuse a number", "", lambda: entry("End", seq=4), "already exists"),
        append("tie an entry to a run", "", lambda: entry("End") | TIED, "no owner and no finalizer"),
        append("misname an entry", "", lambda: entry("End") | {"metadata": {"name": "000000000499"}}, "12 digits"),
        Action(
            name="change an entry",
            method="PATCH",
            path=path_of("ledgerentries", "", f"{4:012d}"),
            body={"spec": {"nonce": "b" * 32}},
        ),
        Action(
            name="label an entry",
            method="PATCH",
            path=path_of("ledgerentries", "", f"{4:012d}"),
            body={"metadata": {"labels": {"a": "b"}}},
        ),
        Action(name="delete an entry", method="DELETE", path=path_of("ledgerentries", "", f"{4:012d}"), words="floor"),
        Action(
            name="delete an archived entry",
            method="DELETE",
            path=path_of("ledgerentries", "", f"{2:012d}"),
            may=RESOLVERS,
        ),
    ]


def frozen() -> Object:
    token = {"owner": "org:b", "run": "team-b/x", "gpus": 8}
    scope = {"flavor": "H100", "nodes": ["n1"]}
    return {"algorithm": "two-stage/1", "scope": scope, "deficitGPUs": 8, "tokens": [token]}


def leasing() -> list[Action]:
    forged = lease("l-77-0", owner="org:b")
    reference = {"apiVersion": API, "kind": "Run", "name": "train", "uid": "u-1"}
    owned = lease("l-78-0") | {"metadata": {"name": "l-78-0", "ownerReferences": [reference]}}
    return [
        Action(name="write a lease", method="POST", path=LEASES, body=lease("l-77-0"), may=TEAM),
        Action(name="write a lease for another owner", method="POST", path=LEASES, body=forged, words="spec.owner"),
        Action(name="write a lease that dies with its run", method="POST", path=LEASES, body=owned, words="no owner"),
        Action(name="write an archived lease", method="POST", path=LEASES, body=lease("l-2-9"), words="floor"),
        Action(name="change a lease", method="PATCH", path=at("l-40-0"), body={"spec": {"paidByBudget": "mm"}}),
        Action(name="close a lease object", method="PATCH", path=at("l-40-0", "status"), body=CLOSING, may=TEAM),
        Action(
            name="close a lease without a reason",
            method="PATCH",
            path=at("l-40-0", "status"),
            body={"status": {"closed": True}},
            words="must be written together",
        ),
        Action(
            name="reopen a lease",
            method="PATCH",
            path=at("l-41-0", "status"),
            body=REOPENING,
            words="never opens again",
        ),
        Action(
            name="reopen a lease by taking its status away",
            method="PATCH",
            path=at("l-41-0", "status"),
            body={"status": None},
            words="never opens again",
        ),
        Action(
            name="change why a lease ended",
            method="PATCH",
            path=at("l-41-0", "status"),
            body={"status": {"closureReason": "Fail"}},
            words="never changes",
        ),
        Action(name="delete an open lease", method="DELETE", path=at("l-1-0"), words="open lease"),
        Action(name="delete a closed lease", method="DELETE", path=at("l-41-0"), words="floor"),
        Action(name="delete an archived lease", method="DELETE", path=at("l-2-0"), may=RESOLVERS),
        Action(name="delete all leases", method="DELETE", path=LEASES),
    ]


def moving_base() -> list[Action]:
    def move(name: str, spec: Object, may: str = "", words: str = "") -> Action:
        return Action(name=name, method="PATCH", path=BASE, body=spec, may=may, words=words)

    researchers = f"researcher rival {RESOLVERS}"
    return [
        move("move base", base(seq=74, digest="sha256:" + "1" * 64, pending=[73], settled=settled(9)), researchers),
        move("move base by a million", base(seq=1_000_010), words="at most 64"),
        move("move base down", base(seq=9), RESOLVERS, "downward"),
        move("move the floor", base(floor=4, floorAt=stamp()), RESOLVERS, "moving the floor"),
        move("change the topology", base(topology={"region": "zone"}), RESOLVERS, "topology"),
        move("rewrite the digest", base(digest="sha256:" + "2" * 64), RESOLVERS, "only with seq"),
        move("lower what is settled", base(seq=11, settled=settled(7)), RESOLVERS, "lowering what is settled"),
        move("forget what is settled", base(seq=11, settled=[]), RESOLVERS, "lowering what is settled"),
        move("make an entry pending again", base(seq=11, pending=[5]), RESOLVERS, "pending"),
        Action(name="delete base", method="DELETE", path=BASE),
        Action(
            name="make a second ledger",
            method="POST",
            path=path_of("ledgers"),
            body={
                "apiVersion": API,
                "kind": "Ledger",
                "metadata": {"name": "mine"},
                "spec": {"seq": 0, "digest": ZEROS},
            },
            words="named base",
        ),
    ]


def working() -> list[Action]:
    runs = path_of("runs", "team-a")
    theirs = path_of("runs", "team-a", "train")
    pods = path_of("pods", "team-a")
    binding = {"metadata": {"name": "worker"}, "target": {"kind": "Node", "name": "n1"}}
    service = {"metadata": {"name": "train"}, "spec": {"clusterIP": "None", "ports": [{"port": 29500}]}}
    event = {
        "metadata": {"name": "e1", "namespace": "team-a"},
        "involvedObject": {"namespace": "team-a"},
        "reason": "Cut",
    }
    return [
        Action(name="create a run", method="POST", path=runs, body=run("new"), may=TEAM),
        Action(name="create a run as owner", method="POST", path=runs, body=run("new", owner="org:a"), may=TEAM),
        Action(
            name="pay as another owner", method="POST", path=runs, body=run("new", owner="org:b"), words="spec.owner"
        ),
        Action(name="cancel a run", method="PATCH", path=theirs, body={"spec": {"canceled": True}}, may=TEAM),
        Action(
            name="widen a run",
            method="PATCH",
            path=theirs,
            body={"spec": {"resources": {"totalGPUs": 64}}},
            words="may change after a run was created",
        ),
        Action(
            name="write a run's status",
            method="PATCH",
            path=f"{theirs}/status",
            body={"status": {"phase": "Running"}},
            may=TEAM,
        ),
        Action(name="delete a run", method="DELETE", path=theirs, may=TEAM),
        Action(
            name="write a reservation",
            method="POST",
            path=path_of("reservations", "team-a"),
            body=reservation("new"),
            may=TEAM,
        ),
        Action(name="create a pod", method="POST", path=pods, body=pod("new"), may=TEAM),
        Action(name="bind a pod", method="POST", path=f"{pods}/worker/binding", body=binding, may=TEAM),
        Action(name="delete a pod", method="DELETE", path=f"{pods}/worker", may=TEAM),
        Action(name="create a service", method="POST", path=path_of("services", "team-a"), body=service, may=TEAM),
        Action(name="write an event", method="POST", path=path_of("events", "team-a"), body=event, may=TEAM),
    ]


def ruling() -> list[Action]:
    rai = path_of("budgets", "", "rai")
    namespace = path_of("namespaces", "", "team-a")
    raised = {"spec": {"envelopes": [{"name": "main", "flavor": "H100", "concurrency": 999}]}}
    over = {"status": {"lentGPUs": 1}}
    policy = path_of(POLICIES, "", "kubectl-runs-base")
    role = path_of("rbac.authorization.k8s.io/v1/clusterroles", "", "kubectl-runs-researcher")
    return [
        Action(name="raise a budget", method="PATCH", path=rai, body=raised, may="operator"),
        Action(name="delete a budget", method="DELETE", path=rai, may="operator"),
        Action(name="write a budget's status", method="PATCH", path=f"{rai}/status", body=over, may=RESOLVERS),
        Action(
            name="take over a namespace",
            method="PATCH",
            path=namespace,
            body={"metadata": {"annotations": {fleet.OWNER: "org:b"}}},
            may="operator",
        ),
        Action(
            name="cordon a node",
            method="PATCH",
            path=path_of("nodes", "", "n1"),
            body={"spec": {"unschedulable": True}},
        ),
        Action(name="switch a policy off", method="DELETE", path=policy),
        Action(name="widen a role", method="PATCH", path=role, body={"rules": []}),
    ]


ACTIONS = [*reading(), *appending(), *leasing(), *moving_base(), *working(), *ruling()]
