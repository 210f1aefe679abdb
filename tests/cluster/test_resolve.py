"""When it does not fit, on a real API server: promises, cuts in the published order, draws that anybody can check."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from kubectl_runs.wire.times import instant
from tests.controlplane.client import Object, wait_for
from tests.controlplane.fixtures import Island


def manifest(folder: Path, run: Object) -> str:
    path = folder / f"{run['metadata']['name']}.json"
    path.write_text(json.dumps(run))
    return str(path)


def submit(island: Island, folder: Path, run: Object) -> Any:
    return answer(island, "submit", "-f", manifest(folder, run))


def answer(island: Island, *arguments: str, user: str = "researcher") -> Any:
    return json.loads(island.cli(*arguments, "-o", "json", user=user).ok().stdout)


def phases(island: Island) -> dict[str, str]:
    runs = island.admin.list("runs", island.namespace)
    return {run["metadata"]["name"]: run.get("status", {}).get("phase", "") for run in runs}


def active_gpus(island: Island) -> dict[str, int]:
    held: dict[str, int] = {}
    for lease in island.leases(open_only=True):
        name = lease["spec"]["runRef"]["name"]
        held[name] = held.get(name, 0) + lease["spec"]["slice"]["gpus"]
    return held


def lower_budget(island: Island, concurrency: int) -> None:
    budget = island.admin.get("budgets", island.name)
    budget["spec"]["envelopes"][0]["concurrency"] = concurrency
    island.admin.replace("budgets", budget)


def verified(island: Island, *arguments: str) -> Any:
    return json.loads(island.cli("verify", *arguments, "-o", "json", user="auditor").ok().stdout)


def test_promise_that_needs_only_a_filler_gone_is_due_at_once(island: Island, tmp_path: Path) -> None:
    island.add_nodes(1)
    island.add_budget(concurrency=16)
    submit(island, tmp_path, island.run("filler", 8, resources={"gpusPerPod": 8}, opportunistic=True))
    promised = submit(island, tmp_path, island.run("work", 8, resources={"gpusPerPod": 8}))
    assert (promised["decision"], promised["confidence"]) == ("reserve", "needs-cuts")
    assert [(cut["kind"], cut["run"]) for cut in promised["cuts"]] == [("EndFiller", f"{island.namespace}/filler")]

    # Section 7: a researcher's own command never cuts another's run.
    refused = island.cli("resolve", "work")
    assert refused.exit_code == 1
    assert active_gpus(island) == {"filler": 8}

    done = answer(island, "resolve", "work", user="operator")
    assert (done["decision"], [cut["kind"] for cut in done["cuts"]]) == ("start", ["EndFiller"])
    assert active_gpus(island) == {"work": 8}
    assert phases(island)["filler"] == "Failed"
    reasons = {lease["status"]["closureReason"] for lease in island.leases() if lease.get("status", {}).get("closed")}
    assert reasons == {"EndFiller"}


def test_overdue_promise_makes_room_by_a_lottery_that_verify_redraws(island: Island, tmp_path: Path) -> None:
    """The promise was exact, but the run before it does not end in time: its GPUs are drawn for."""
    island.add_nodes(2)
    island.add_budget(concurrency=64)
    for name in ("one", "two"):
        submit(island, tmp_path, island.run(name, 8, resources={"gpusPerPod": 8}, duration="12s"))
    promised = submit(island, tmp_path, island.run("winner", 8, resources={"gpusPerPod": 8}))
    assert (promised["decision"], promised["confidence"]) == ("reserve", "exact")
    early = island.cli("resolve", "winner", user="operator")
    assert (early.exit_code, "not due" in early.stderr) == (1, True)
    due_at = instant(promised["earliestStart"])
    wait_for("the promise to be due", lambda: time.time() > due_at + 1)

    done = answer(island, "resolve", "winner", user="operator")

    (cut,) = done["cuts"]
    assert (done["decision"], cut["kind"], cut["provisional"]) == ("start", "RandomPreempt", False)
    assert done["lottery"]["provisional"] is False
    assert {token["chance"] for token in done["lottery"]["tokens"]} == {"1/2"}
    loser = cut["run"].partition("/")[2]
    survivor = ({"one", "two"} - {loser}).pop()
    assert active_gpus(island) == {"winner": 8, survivor: 8}
    assert phases(island)[loser] == "Failed"

    seed = done["lottery"]["seed"]
    closed = [lease for lease in island.leases() if lease.get("status", {}).get("closed")]
    assert {lease["status"]["closureReason"] for lease in closed} == {f"RandomPreempt({seed})"}
    (promise,) = island.admin.list("reservations", island.namespace)
    resolution = promise["status"]["resolution"]
    assert (resolution["seed"], resolution["draws"]) == (seed, [{"pick": cut["run"]}])
    assert [token["run"] for token in resolution["conflictSet"]] == [
        token["run"] for token in done["lottery"]["tokens"]
    ]
    assert verified(island, "--draw", seed)["ok"] is True
    assert "winner" in island.cli("explain", loser).ok().stdout.splitlines()[0]
    told = [event for event in island.admin.list("events", island.namespace) if event["reason"] == "RandomPreempt"]
    assert any("winner" in event["message"] and seed in event["message"] for event in told)


def test_tightened_budget_yields_spares_then_shrinks_then_draws(island: Island, tmp_path: Path) -> None:
    island.add_nodes(6)
    island.add_budget(concurrency=48)
    per_pod = {"gpusPerPod": 8}
    submit(island, tmp_path, island.run("spare", 8, resources=per_pod, sparesPerGroup=1))
    elastic = {"minTotalGPUs": 8, "maxTotalGPUs": 16, "stepGPUs": 8}
    submit(island, tmp_path, island.run("elastic", 16, resources=per_pod, malleable=elastic))
    submit(island, tmp_path, island.run("fixed", 16, resources=per_pod))
    lower_budget(island, 16)

    shown = answer(island, "resolve", "--budget", island.name, "--dry-run", user="operator")
    assert [cut["kind"] for cut in shown["cuts"]] == ["DropSpare", "Shrink", "RandomPreempt"]
    assert shown["lottery"]["provisional"] is True
    assert sum(active_gpus(island).values()) == 48, "a dry run cuts nobody"

    done = answer(island, "resolve", "--budget", island.name, "--yes", user="operator")

    assert done["decision"] == "cut"
    assert sum(active_gpus(island).values()) <= 16
    assert active_gpus(island)["elastic"] >= 8
    assert done["lottery"]["provisional"] is False
    assert verified(island, "--draw", done["lottery"]["seed"])["ok"] is True
    again = answer(island, "resolve", "--budget", island.name, "--dry-run", user="operator")
    assert (again["decision"], again["cuts"]) == ("none", [])


def test_family_of_two_islands_pays_where_its_own_envelope_is_full(island: Island, tmp_path: Path) -> None:
    """Two domains, a sibling's budget beside the own one: the second run is shared, the third is blocked."""
    island.add_nodes(2, fabric="d1")
    island.add_nodes(2, fabric="d2")
    island.add_budget(concurrency=16)
    sibling = f"org:{island.name}-sibling"
    island.add_budget(concurrency=8, name=f"{island.name}-sibling", owner=sibling)
    submit(island, tmp_path, island.run("own", 16, resources={"gpusPerPod": 8}))
    shared = submit(island, tmp_path, island.run("shared", 8, resources={"gpusPerPod": 8}))
    assert [(payer["class"], payer["gpus"]) for payer in shared["payers"]] == [("shared", 8)]
    blocked = submit(island, tmp_path, island.run("blocked", 8, resources={"gpusPerPod": 8}))
    assert (blocked["decision"], blocked["earliestStart"], blocked["reason"]) == ("reserve", None, "ConcurrencyCap")

    # A Blocked one starts when a budget allows, by whichever command settles next.
    lower_budget(island, 24)
    island.cli("settle").ok()
    assert active_gpus(island) == {"own": 16, "shared": 8, "blocked": 8}


def test_short_run_backfills_and_an_endless_one_does_not(island: Island, tmp_path: Path) -> None:
    island.add_nodes(1)
    island.add_budget(concurrency=64)
    submit(island, tmp_path, island.run("first", 4, resources={"gpusPerPod": 4}, duration="1h"))
    promised = submit(island, tmp_path, island.run("whole", 8, resources={"gpusPerPod": 8}))
    assert (promised["decision"], promised["confidence"]) == ("reserve", "exact")

    endless = answer(island, "plan", "-f", manifest(tmp_path, island.run("endless", 4, resources={"gpusPerPod": 4})))
    assert endless["decision"] == "reserve"
    short = submit(island, tmp_path, island.run("short", 4, resources={"gpusPerPod": 4}, duration="30m"))
    assert short["decision"] == "start"
    assert active_gpus(island) == {"first": 4, "short": 4}
