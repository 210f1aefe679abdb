"""Black-box cases: a small world, one command on it, and what the design says must come out.

Each document of `cases/*.yaml` is written in a shorthand that this file expands to the plain Kubernetes objects of a
snapshot file; the CLI then runs on that file like any user's. Only what a case names under `expect` is compared.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.case_ledger import ledger

CASES = Path(__file__).parent / "cases"
API = "rq.davidlangworthy.io/v1"
NOW = "2026-01-05T12:00:00Z"
EARLIER = "2026-01-05T10:00:00Z"
DEFAULT_OWNER = "org:ai:rai"


def load_cases() -> list[Any]:
    cases = []
    for path in sorted(CASES.glob("*.yaml")):
        cases += [pytest.param(case, id=f"{path.stem}:{case['case']}") for case in cases_of(path)]
    return cases


def cases_of(path: Path) -> Iterator[dict[str, Any]]:
    """The cases of one file; `world: same` is the world of the case before."""
    world: Any = {}
    for case in yaml.safe_load_all(path.read_text()):
        world = world if case.get("world") == "same" else case.get("world", {})
        yield {**case, "world": world}


def node(name: str, where: str, gpus: int, extra: dict[str, Any]) -> dict[str, Any]:
    region, cluster, fabric = where.split("/")
    labels = {"region": region, "cluster": cluster, "fabric.domain": fabric, "gpu.flavor": extra.get("flavor", "H100")}
    labels.update(extra.get("labels", {}))
    for key in extra.get("unlabelled", []):
        del labels[key]
    allocatable = {"nvidia.com/gpu": str(gpus), "cpu": "128", "memory": "1024Gi", "pods": "110"}
    allocatable.update(extra.get("allocatable", {}))
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"unschedulable": extra.get("cordoned", False), "taints": extra.get("taints", [])},
        "status": {
            "allocatable": allocatable,
            "conditions": [{"type": "Ready", "status": "True" if extra.get("ready", True) else "False"}],
        },
    }


def nodes(world: dict[str, Any]) -> list[dict[str, Any]]:
    """`us-west/a/d1: 3x8` is three nodes d1-n1, d1-n2, d1-n3 of 8 GPUs; `8,4` two of these sizes."""
    out = []
    for where, fleet in world.get("nodes", {}).items():
        count, _, each = str(fleet).partition("x")
        sizes = [int(each)] * int(count) if each else [int(size) for size in str(fleet).split(",")]
        for number, gpus in enumerate(sizes, 1):
            name = f"{where.split('/')[-1]}-n{number}"
            out.append(node(name, where, gpus, world.get("node", {}).get(name, {})))
    return out


def lease(number: int, row: dict[str, Any], runs: dict[str, Any]) -> dict[str, Any]:
    namespace, run = row["run"].split("/")
    budget, envelope = row["payer"].split("/")
    role = row.get("role", "Active")
    name = row.get("name", f"lease-{number:03}")
    spec = {
        "owner": runs.get(row["run"], {}).get("owner", DEFAULT_OWNER),
        "runRef": {"name": run, "uid": f"uid-{run}", "attempt": row.get("attempt", 1)},
        "compPath": [f"SHARD[{row.get('group', 0)}]"],
        "slice": {"nodes": [row["node"]], "gpus": row["gpus"], "role": role},
        "interval": {"start": row.get("start", EARLIER)},
        "paidByBudget": budget,
        "paidByEnvelope": envelope,
        "class": row.get("class", "owned"),
        "reason": "Start",
    }
    if role != "Spare":
        spec["podRef"] = {"name": f"{run}-{number}", "uid": f"uid-pod-{number}"}
    out: dict[str, Any] = {
        "apiVersion": API,
        "kind": "Lease",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }
    if "end" in row:
        out["status"] = {"closed": True, "endTime": row["end"], "closureReason": row.get("closure", "Completed")}
    return out


def run_object(key: str, spec: dict[str, Any]) -> dict[str, Any]:
    """`gpus`, `per_pod` and `group` are short for the resources and the group; all else is the spec's own."""
    namespace, name = key.split("/")
    full = {k: v for k, v in spec.items() if k not in ("gpus", "per_pod", "group", "flavor")}
    resources = {"gpuType": spec.get("flavor", "H100"), "totalGPUs": spec["gpus"]}
    if "per_pod" in spec:
        resources["gpusPerPod"] = spec["per_pod"]
    full["resources"] = resources
    if "group" in spec:
        full["locality"] = {**full.get("locality", {}), "groupGPUs": spec["group"]}
    full.setdefault("owner", DEFAULT_OWNER)
    full.setdefault("template", {"spec": {"containers": [{"name": "main", "image": "example/train:1"}]}})
    return {"apiVersion": API, "kind": "Run", "metadata": {"name": name, "namespace": namespace}, "spec": full}


def budgets(world: dict[str, Any]) -> list[dict[str, Any]]:
    out = []
    for name, spec in world.get("budgets", {}).items():
        envelopes = [{"flavor": "H100", **envelope} for envelope in spec.get("envelopes", [])]
        full = {**spec, "envelopes": envelopes}
        out.append({"apiVersion": API, "kind": "Budget", "metadata": {"name": name, "generation": 1}, "spec": full})
    return out


def reservation(key: str, row: dict[str, Any]) -> dict[str, Any]:
    namespace, name = key.split("/")
    meta = {
        "name": name,
        "namespace": namespace,
        "uid": f"uid-res-{name}",
        "creationTimestamp": row.pop("created", EARLIER),
    }
    state = row.pop("state", "Pending")
    spec = {"runRef": {"name": name, "uid": f"uid-{name}"}, **row}
    return {"apiVersion": API, "kind": "Reservation", "metadata": meta, "spec": spec, "status": {"state": state}}


def objects(case: dict[str, Any]) -> list[dict[str, Any]]:
    world = case["world"]
    runs = world.get("runs", {})
    out = nodes(world) + budgets(world) + list(world.get("objects", []))
    for name, owner in world.get("namespaces", {"rai": DEFAULT_OWNER}).items():
        meta = {"name": name, "annotations": {"rq.davidlangworthy.io/owner": owner}}
        out.append({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
    for key, spec in runs.items():
        made = run_object(key, spec)
        made["metadata"] |= {"uid": f"uid-{key.split('/')[1]}", "creationTimestamp": EARLIER}
        out.append(made)
    out += [lease(number, row, runs) for number, row in enumerate(world.get("leases", []), 1)]
    out += [reservation(key, dict(row)) for key, row in world.get("reservations", {}).items()]
    return out + ledger(world.get("ledger", {}), DEFAULT_OWNER)


def compare(want: Any, got: Any, path: str) -> list[str]:
    """Differences between what a case names and what came out; a dict names a part, a list names it all."""
    if isinstance(want, dict) and isinstance(got, dict):
        return list(itertools.chain.from_iterable(compare(v, got.get(k), f"{path}.{k}") for k, v in want.items()))
    if isinstance(want, list) and isinstance(got, list) and len(want) == len(got):
        pairs = enumerate(zip(want, got, strict=True))
        return list(itertools.chain.from_iterable(compare(a, b, f"{path}[{i}]") for i, (a, b) in pairs))
    return [] if want == got else [f"{path}: want {want!r}, got {got!r}"]


def shorthand(answer: dict[str, Any]) -> dict[str, Any]:
    """Views of the answer that cases are written in: `pays` and `places` as one-line texts, kinds of remedies."""
    pays = [f"{p['budget']}/{p['envelope']} {p['gpus']} {p['class']}" for p in answer.get("payers", [])]
    places = [
        f"{g['index']} {g['domain']}: "
        + ", ".join(f"{p['node']} {p['gpus']} {p['role']} {p['payer']}" for p in g["placements"])
        for g in answer.get("groups", [])
    ]
    domains = [g["domain"].split("/")[-1] for g in answer.get("groups", [])]
    cuts = [
        f"{c['kind']} {c['run']} {'-' if c['group'] is None else c['group']} {c['gpus']}"
        for c in answer.get("cuts", [])
    ]
    remedies = [r["message"] for r in answer.get("remedies", [])]
    return {**answer, "pays": pays, "places": places, "domains": domains, "cut": cuts, "remedy": remedies}


def run_case(case: dict[str, Any], tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """The command of a case on its snapshot file, as a user would run it."""
    snapshot = tmp_path / "snapshot.yaml"
    snapshot.write_text(case.get("file") or yaml.safe_dump_all(objects(case), sort_keys=False))
    args = [str(part) for part in case.get("args", ["plan", "-f", "RUN"])]
    if "run" in case:
        (tmp_path / "run.yaml").write_text(yaml.safe_dump(run_object("rai/ask", case["run"])))
    args = [str(tmp_path / "run.yaml") if part == "RUN" else part for part in args]
    args += ["--from", str(snapshot), "--now", case.get("now", NOW), "-o", "json"]
    env = {**os.environ, "KUBECONFIG": str(tmp_path / "none"), "PYTHONHASHSEED": "random"}
    return subprocess.run(
        [sys.executable, "-m", "kubectl_runs", *args], capture_output=True, text=True, env=env, timeout=60
    )


@pytest.mark.parametrize("case", load_cases())
def test_case_on_a_snapshot_file_comes_out_as_the_design_says(case: dict[str, Any], tmp_path: Path) -> None:
    done = run_case(case, tmp_path)
    if "stderr" in case:
        assert case["stderr"] in done.stderr, done.stderr
    assert done.returncode == case.get("exit", 0), done.stdout + done.stderr
    if "expect" in case:
        answer = shorthand(json.loads(done.stdout))
        wrong = compare(case["expect"], answer, "")
        wrong += [
            f"remedies: no {kind}"
            for kind in case.get("remedies", [])
            if kind not in [r["kind"] for r in answer["remedies"]]
        ]
        assert not wrong, "\n".join(wrong) + "\n" + done.stdout
