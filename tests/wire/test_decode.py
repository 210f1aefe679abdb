"""Plain objects as the planner's words: strict on our specs with the path of what is wrong, lenient on all else."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kubectl_runs.errors import RunsError
from kubectl_runs.store.snapshot import SnapshotStore
from kubectl_runs.wire import decode
from kubectl_runs.wire.decode import budgets, entries, leases, runs, shape
from planner.digest import digest
from planner.model import NO_DIGEST, Domain, ReservationState, Role, Taint

Json = dict[str, Any]
API = "rq.davidlangworthy.io/v1"


def run_object(**spec: Any) -> Json:
    resources = {"gpuType": "H100", "totalGPUs": 32, "gpusPerPod": 4}
    return {
        "apiVersion": API,
        "kind": "Run",
        "metadata": {"name": "train", "namespace": "rai"},
        "spec": {"owner": "org:ai:rai", "resources": resources, **spec},
    }


def lease_object(**spec: Any) -> Json:
    return {
        "apiVersion": API,
        "kind": "Lease",
        "metadata": {"name": "l-3-0", "namespace": "rai"},
        "spec": {
            "owner": "org:ai:rai",
            "runRef": {"name": "train", "uid": "u1", "attempt": 2},
            "podRef": {"name": "train-0", "uid": "p1"},
            "compPath": ["SHARD[11]"],
            "slice": {"nodes": ["n1"], "gpus": 8, "role": "Active"},
            "interval": {"start": "2026-01-05T12:00:00Z"},
            "paidByBudget": "rai",
            "paidByEnvelope": "west",
            "class": "shared",
            "reason": "Grow",
            **spec,
        },
    }


def node_object(**more: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": "n1",
            "labels": {"region": "us-west", "cluster": "a", "fabric.domain": "d1", "gpu.flavor": "H100", "rack": "r7"},
        },
        "status": {"allocatable": {"nvidia.com/gpu": "8", "cpu": "127500m", "memory": "1Ti", "pods": "110"}},
        **more,
    }


# Nodes and pods (P1)


def test_node_with_all_labels_has_domain_flavor_and_capacity() -> None:
    node = decode.node(node_object())
    assert (node.domain, node.flavor, node.rack) == (Domain("us-west", "a", "d1"), "H100", "r7")
    assert (node.gpus, node.cpu_milli, node.memory_bytes, node.pods) == (8, 127_500, 1 << 40, 110)
    assert node.ready
    assert not node.cordoned


@pytest.mark.parametrize("label", ["region", "cluster", "fabric.domain"])
def test_node_that_lacks_a_label_has_no_domain(label: str) -> None:
    strange = node_object()
    del strange["metadata"]["labels"][label]
    assert decode.node(strange).domain is None


def test_node_of_strange_types_is_read_and_offers_nothing() -> None:
    node = decode.node({"metadata": {"name": "odd", "labels": "x"}, "spec": [], "status": {"allocatable": {"cpu": []}}})
    assert (node.name, node.domain, node.gpus, node.cpu_milli) == ("odd", None, 0, None)


def test_node_not_ready_and_tainted_says_so() -> None:
    taints = [{"key": "k", "effect": "NoSchedule"}]
    conditions = [{"type": "Ready", "status": "Unknown"}]
    node = decode.node(node_object(spec={"unschedulable": True, "taints": taints}, status={"conditions": conditions}))
    assert node.cordoned
    assert not node.ready
    assert node.taints == (Taint(key="k", value="", effect="NoSchedule"),)


def test_node_labels_follow_the_ledgers_topology() -> None:
    base = {
        "metadata": {"name": "base"},
        "spec": {"seq": 0, "topology": {"fabricDomain": "example.com/nvl", "resource": "amd.com/gpu"}},
    }
    strange = node_object(status={"allocatable": {"amd.com/gpu": 4, "nvidia.com/gpu": "8"}})
    strange["metadata"]["labels"]["example.com/nvl"] = "island-3"
    snapshot, _ = decode.snapshot([strange], base=base)
    assert snapshot.nodes[0].domain == Domain("us-west", "a", "island-3")
    assert snapshot.nodes[0].gpus == 4


def container(requests: Json | None = None, **more: Any) -> Json:
    return {"name": "c", "resources": {"requests": requests or {}}, **more}


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        ({"containers": [container({"cpu": "2"}), container({"cpu": "500m"})]}, 2500),
        ({"containers": [container({"cpu": 1})], "initContainers": [container({"cpu": "3"})]}, 3000),
        (
            {
                "containers": [container({"cpu": "1"})],
                "initContainers": [container({"cpu": "1"}, restartPolicy="Always")],
            },
            2000,
        ),
        ({"containers": [container({"cpu": "1"})], "overhead": {"cpu": "250m"}}, 1250),
        ({"containers": [{"name": "c", "resources": {"limits": {"cpu": "4"}}}]}, 4000),
        ({"containers": "nonsense"}, 0),
    ],
)
def test_pod_requests_count_as_kubernetes_counts_them(spec: Json, cpu: int) -> None:
    assert decode.pod({"metadata": {"name": "p", "namespace": "x"}, "spec": spec}).cpu_milli == cpu


def test_pod_that_is_done_is_not_live_and_says_when_it_finished() -> None:
    ended = [{"state": {"terminated": {"finishedAt": f"2026-01-05T12:0{i}:00Z"}}} for i in (1, 3, 2)]
    pod = decode.pod({"metadata": {"name": "p"}, "status": {"phase": "Succeeded", "containerStatuses": ended}})
    assert not pod.live
    assert pod.finished_at == 1767614580


# Runs


def test_run_owner_defaults_to_the_namespaces() -> None:
    silent = run_object()
    del silent["spec"]["owner"]
    assert decode.run(silent, {"rai": "org:ai:rai"}).owner == "org:ai:rai"
    with pytest.raises(decode.WireError, match=r"Run rai/train: spec.owner: is required: namespace rai has no owner"):
        decode.run(silent)


def test_run_malleable_group_defaults_to_its_step() -> None:
    made = decode.run(run_object(malleable={"minTotalGPUs": 16, "maxTotalGPUs": 64, "stepGPUs": 8}))
    assert made.group_gpus == 8
    assert made.malleable is not None
    assert made.malleable.gpus_desired == 32


@pytest.mark.parametrize(
    ("spec", "path", "problem"),
    [
        ({"resources": {"gpuType": "H100", "totalGPUs": 30, "gpusPerPod": 4}}, "spec.resources.gpusPerPod", "4 does not divide totalGPUs 30"),
        ({"locality": {"groupGPUs": 6}}, "spec.resources.gpusPerPod", "4 does not divide groupGPUs 6"),
        ({"locality": {"groupGPUs": 12}}, "spec.locality.groupGPUs", "12 does not divide totalGPUs 32"),
        ({"malleable": {"minTotalGPUs": 16, "maxTotalGPUs": 60, "stepGPUs": 16}}, "spec.malleable.maxTotalGPUs", "60 is not minTotalGPUs 16 plus whole steps of 16"),
        ({"malleable": {"minTotalGPUs": 40, "maxTotalGPUs": 48, "stepGPUs": 8}}, "spec.resources.totalGPUs", "32 is not between"),
        ({"malleable": {"minTotalGPUs": 16, "maxTotalGPUs": 48, "stepGPUs": 8}, "locality": {"groupGPUs": 16}}, "spec.locality.groupGPUs", "16 does not divide stepGPUs 8"),
        ({"locality": {"groupGPU": 8}}, "spec.locality.groupGPU", "unknown field, did you mean groupGPUs"),
        ({"duration": "4 hours"}, "spec.duration", "'4 hours' is no duration"),
        ({"sparesPerGroup": -1}, "spec.sparesPerGroup", "must be at least 0, not -1"),
        ({"opportunistic": "yes"}, "spec.opportunistic", "must be true or false, not 'yes'"),
        ({"funding": {"sponsors": ["org:x", ""]}}, "spec.funding.sponsors[1]", "must be a text that is not empty"),
        ({"resources": {"gpuType": "H100", "totalGPUs": True}}, "spec.resources.totalGPUs", "must be a whole number, not true"),
        ({"resources": {"gpuType": "H100"}}, "spec.resources.totalGPUs", "is required"),
    ],
)  # fmt: skip
def test_run_that_breaks_a_rule_is_refused_with_its_path(spec: Json, path: str, problem: str) -> None:
    with pytest.raises(decode.WireError) as caught:
        decode.run(run_object(**spec))
    assert caught.value.path == path
    assert problem in caught.value.problem


def test_run_nulls_count_as_absent() -> None:
    assert decode.run(run_object(locality=None, duration=None)) == decode.run(run_object())


def test_run_template_needs_selector_affinity_and_tolerations() -> None:
    terms = [{"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}, {}]
    spec = {
        "containers": [container({"cpu": "2", "memory": "1Gi"})],
        "nodeSelector": {"pool": "a"},
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}},
        "tolerations": [{"operator": "Exists"}],
    }
    needs = decode.run(run_object(template={"spec": spec})).needs
    assert (needs.cpu_milli, needs.memory_bytes, needs.node_selector) == (2000, 1 << 30, (("pool", "a"),))
    assert needs.affinity is not None
    assert [term[0].key for term in needs.affinity] == ["disk", ""]  # an empty term matches nothing
    assert needs.tolerations[0].operator == "Exists"


# Leases


def test_lease_read_has_every_field() -> None:
    made = decode.lease(
        {**lease_object(), "status": {"closed": True, "endTime": "2026-01-05T13:00:00Z", "closureReason": "Shrink"}}
    )
    assert (made.run_key, made.run_uid, made.attempt, made.group) == ("rai/train", "u1", 2, 11)
    assert (made.node, made.gpus, made.role, made.payer.name) == ("n1", 8, Role.ACTIVE, "rai/west")
    assert (made.end_at or 0) - made.start_at == 3600
    assert (made.closed, made.closure) == (True, "Shrink")


@pytest.mark.parametrize("path", [[], ["0"], ["SHARD[x]"], ["SHARD[-1]"], "SHARD[0]", [3]])
def test_lease_without_its_group_is_refused(path: Any) -> None:
    with pytest.raises(decode.WireError, match=r"spec.compPath: must begin with SHARD\[<group index>\]"):
        decode.lease(lease_object(compPath=path))


def test_lease_closed_without_end_is_refused() -> None:
    with pytest.raises(decode.WireError, match=r"status.endTime: is required"):
        decode.lease({**lease_object(), "status": {"closed": True}})


JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.text(max_size=3),
    st.just([]),
    st.just({}),
    st.just({"x": 1}),
    st.just(["n1", "n2"]),
)
PLACES = [
    (key, inner)
    for key, part in lease_object()["spec"].items()
    for inner in [None, *(part if isinstance(part, dict) else ()), *(["extra"] if isinstance(part, dict) else ())]
]


@given(st.lists(st.tuples(st.sampled_from([*PLACES, ("extra", None)]), JUNK), min_size=1, max_size=2))
def test_lease_read_fast_agrees_with_its_shape(changes: list[tuple[tuple[str, str | None], Any]]) -> None:
    """The quick way accepts exactly what the shape accepts, and the shape always finds what was wrong."""
    made = copy.deepcopy(lease_object())
    for (key, inner), junk in changes:
        if inner is None:
            made["spec"][key] = junk
        elif isinstance(made["spec"].get(key), dict):
            made["spec"][key][inner] = junk
    try:
        shape.match(made["spec"], leases.LEASE, "spec")
        fits = made["spec"].get("node") in (None, made["spec"]["slice"]["nodes"][0])
    except shape.Wrong:
        fits = False
    if fits:
        decode.lease(made)
    else:
        with pytest.raises(decode.WireError, match="Lease rai/l-3-0: spec"):
            decode.lease(made)


# The ledger


def entry_object(seq: int = 1, prev: str = NO_DIGEST, **spec: Any) -> Json:
    made = {"seq": seq, "prev": prev, "nonce": "0" * 32, "readAt": "2026-01-05T12:00:00Z", "kind": "End", **spec}
    made.setdefault("run", {"namespace": "rai", "name": "train", "uid": "u1", "attempt": 1})
    meta = {"name": f"{seq:012d}", "uid": f"e{seq}", "creationTimestamp": "2026-01-05T12:00:01Z"}
    return {"apiVersion": API, "kind": "LedgerEntry", "metadata": meta, "spec": made}


def test_entry_digest_is_over_its_spec_as_stored() -> None:
    obj = entry_object()
    assert decode.entry(obj).digest == digest(obj["spec"])


def test_entry_of_wrong_shape_is_void_and_keeps_its_number_and_digest() -> None:
    obj = entry_object(seq=7, closes="none")
    made = decode.entry(obj)
    assert made.void == "spec.closes: must be a list, not 'none'"
    assert (made.seq, made.digest, made.closes) == (7, digest(obj["spec"]), ())


def test_entry_whose_name_is_another_number_is_void() -> None:
    obj = entry_object(seq=7)
    obj["metadata"]["name"] = "000000000008"
    assert "is not the number in the name" in decode.entry(obj).void


# Whole snapshots


def test_snapshot_on_a_cluster_reports_a_bad_lease_and_counts_it_as_held() -> None:
    bad = lease_object(reason="Because")
    snapshot, problems = decode.snapshot([bad, node_object()])
    assert problems == ("Lease rai/l-3-0: spec.reason: must be one of Start, Grow, Swap, not 'Because'",)
    assert [(lease.node, lease.gpus) for lease in snapshot.leases] == [("n1", 8)]
    with pytest.raises(decode.WireError):
        decode.snapshot([bad], strict=True)


def test_reservation_without_status_is_pending_or_blocked() -> None:
    spec = {"runRef": {"name": "r", "uid": "u"}, "gpus": 8}
    obj = {"kind": "Reservation", "metadata": {"name": "r", "namespace": "rai"}, "spec": spec}
    assert decode.reservation(obj).state is ReservationState.BLOCKED
    timed = {**obj, "spec": {**spec, "earliestStart": "2026-01-05T12:00:00Z"}}
    assert decode.reservation(timed).state is ReservationState.PENDING


def test_budget_cap_naming_no_envelope_is_refused() -> None:
    envelope = {"name": "e", "flavor": "H100", "concurrency": 8}
    spec = {
        "owner": "org:a",
        "envelopes": [envelope],
        "aggregateCaps": [{"name": "c", "flavor": "A100", "envelopes": ["e"]}],
    }
    with pytest.raises(decode.WireError, match=r"spec.aggregateCaps\[0\].envelopes: no envelope e of flavor A100"):
        decode.budget({"kind": "Budget", "metadata": {"name": "b"}, "spec": spec})


# The shapes here and the pydantic models are two writings of one wire format


def known_keys(part: Any, path: str = "") -> set[str]:
    if isinstance(part, list):
        return known_keys(part[0], path)
    if not isinstance(part, dict):
        return set()
    found = set()
    for key, inner in part.items():
        here = f"{path}.{key.removesuffix('?')}"
        found |= {here} | known_keys(inner, here)
    return found


def schema_keys(schema: Json, path: str = "") -> set[str]:
    found = set()
    for key, inner in (schema.get("properties") or {}).items():
        found |= {f"{path}.{key}"} | schema_keys(inner, f"{path}.{key}")
    return found | (schema_keys(schema["items"], path) if isinstance(schema.get("items"), dict) else set())


@pytest.mark.parametrize(
    ("kind", "spec"),
    [("Budget", budgets.SPEC), ("Run", runs.SPEC), ("Lease", leases.LEASE), ("Reservation", leases.RESERVATION), ("LedgerEntry", entries.ENTRY), ("Ledger", entries.BASE)],
)  # fmt: skip
def test_shapes_and_models_know_the_same_fields(kind: str, spec: Json) -> None:
    from kubectl_runs.wire.schema.catalog import schema_of

    opaque = {"Lease": {".slice.nodes"}}.get(kind, set())
    modelled = {key for key in schema_keys(schema_of(kind)["properties"]["spec"]) if not key.startswith(".template.")}
    assert known_keys(spec) - opaque == modelled - opaque


# What the API server refuses, a file must not smuggle in

SAMPLES = Path(__file__).parents[2] / "crds" / "samples"
# Status and templates are read leniently (section 8): `submit` and the server look at those.
LENIENT = (
    "status.",
    "spec.template",
    "nodeName",
    "schedulerName",
    "restartPolicy",
    "a container's",
    "only one container",
)


def samples(folder: str) -> list[Any]:
    return [pytest.param(path, id=path.stem) for path in sorted((SAMPLES / folder).glob("*.yaml"))]


def concerns_a_file(path: Path) -> bool:
    """Not about a change from one object to the next, nor about what is read leniently."""
    text = path.read_text()
    refused = text.partition("\n")[0].removeprefix("# refused: ")
    return len(list(yaml.safe_load_all(text))) == 1 and not refused.startswith(LENIENT)


def in_a_file(objects: list[Json]) -> SnapshotStore:
    owner = {"rq.davidlangworthy.io/owner": "org:ai:rai"}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", "annotations": owner}}
    return SnapshotStore("file", [namespace, *objects], now=0)


@pytest.mark.parametrize("path", samples("valid"))
def test_sample_that_the_server_accepts_is_read_from_a_file(path: Path) -> None:
    in_a_file(list(yaml.safe_load_all(path.read_text()))[-1:])


@pytest.mark.parametrize("path", [sample for sample in samples("invalid") if concerns_a_file(sample.values[0])])
def test_sample_that_the_server_refuses_is_refused_in_a_file(path: Path) -> None:
    objects = list(yaml.safe_load_all(path.read_text()))
    with pytest.raises(RunsError):
        in_a_file(objects)
