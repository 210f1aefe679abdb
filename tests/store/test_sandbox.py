"""The sandbox's own ways: its clock, its simulated pods and nodes, its worlds, and many processes on one file."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kubectl_runs.store.protocol import (
    Bind,
    Create,
    Delete,
    Forbidden,
    Get,
    List,
    MayI,
    NotFound,
    Object,
    Patch,
    Reply,
)
from kubectl_runs.store.sandbox import SandboxStore, controls, world
from kubectl_runs.store.sandbox.database import Database, SandboxError
from kubectl_runs.store.sandbox.selectors import SELECTABLE
from kubectl_runs.wire.kinds import (
    API_VERSION,
    BUDGET,
    LEASE,
    LEDGER,
    LEDGER_ENTRY,
    NAMESPACE,
    NODE,
    POD,
    RUN,
    SERVICE,
    Kind,
)
from kubectl_runs.wire.times import rfc3339

SIM = "sim.rq.davidlangworthy.io"
PROCESSES = 8
WRITES = 25


@pytest.fixture
def store() -> SandboxStore:
    return SandboxStore.open(":memory:")


def pod(name: str = "p", *, owner: Object | None = None, spec: Object | None = None, **annotations: str) -> Object:
    metadata: Object = {"name": name, "namespace": "rai"}
    metadata["annotations"] = {f"{SIM}/{key}": value for key, value in annotations.items()}
    if owner:
        metadata["ownerReferences"] = [
            {
                "apiVersion": API_VERSION,
                "kind": "Run",
                "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"],
            }
        ]
    whole = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}], **(spec or {})}
    return {"metadata": metadata, "spec": whole}


def run(name: str = "train") -> Object:
    template = {"spec": {"containers": [{"name": "main", "image": "x"}]}}
    spec = {"resources": {"gpuType": "H100", "totalGPUs": 8}, "template": template}
    return {"metadata": {"name": name, "namespace": "rai"}, "spec": spec}


def make(store: SandboxStore, kind: Kind, value: Object) -> Object:
    return store.perform(Create(kind=kind, object=value)).object


def start(store: SandboxStore, value: Object, node: str = "d1-n1") -> Object:
    made = make(store, POD, value)["metadata"]
    store.perform(Bind(namespace="rai", pod=made["name"], uid=made["uid"], node=node))
    return look(store, made["name"])


def look(store: SandboxStore, name: str = "p", kind: Kind = POD) -> Object:
    return store.perform(Get(kind=kind, name=name, namespace="rai")).object


def is_gone(store: SandboxStore, name: str = "p", kind: Kind = POD) -> bool:
    try:
        look(store, name, kind)
    except NotFound:
        return True
    return False


def test_clock_stands_still_until_time_passes(store: SandboxStore) -> None:
    before = store.now()
    make(store, POD, pod())
    assert store.now() == before
    store.advance(90)
    assert store.now() == before + 90
    store.sleep(0.4)
    store.sleep(0.7)
    assert store.now() == before + 91
    assert make(store, POD, pod("q"))["metadata"]["creationTimestamp"] == rfc3339(before + 91)


def test_bound_pod_runs_at_once_and_without_annotations_runs_on(store: SandboxStore) -> None:
    assert start(store, pod())["status"]["phase"] == "Running"
    store.advance(10 * 24 * 3600)
    assert look(store)["status"]["phase"] == "Running"


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_pod_ends_as_its_annotations_say_at_its_own_second(store: SandboxStore, phase: str) -> None:
    begun = store.now()
    start(store, pod(after="1m30s", phase=phase))
    store.advance(89)
    assert look(store)["status"]["phase"] == "Running"
    store.advance(3600)
    status = look(store)["status"]
    assert status["phase"] == phase
    assert status["containerStatuses"][0]["state"]["terminated"]["finishedAt"] == rfc3339(begun + 90)


def test_deadline_strikes_before_a_later_end(store: SandboxStore) -> None:
    start(store, pod(after="2h", spec={"activeDeadlineSeconds": 60}))
    store.advance(61)
    assert look(store)["status"]["phase"] == "Failed"
    assert look(store)["status"]["reason"] == "DeadlineExceeded"


def test_unbound_pod_never_runs(store: SandboxStore) -> None:
    make(store, POD, pod(after="1s"))
    store.advance(3600)
    assert look(store)["status"]["phase"] == "Pending"


def test_deleted_pod_goes_after_its_grace_as_time_passes(store: SandboxStore) -> None:
    start(store, pod(spec={"terminationGracePeriodSeconds": 20}))
    store.perform(Delete(kind=POD, name="p", namespace="rai"))
    store.sleep(19)
    assert "deletionTimestamp" in look(store)["metadata"]
    store.sleep(1)
    assert is_gone(store)


def test_ended_pod_goes_at_once(store: SandboxStore) -> None:
    start(store, pod(after="1s"))
    store.advance(2)
    store.perform(Delete(kind=POD, name="p", namespace="rai"))
    assert is_gone(store)


def test_pod_on_an_unready_node_neither_ends_nor_goes_until_forced(store: SandboxStore) -> None:
    start(store, pod(after="1m"))
    assert controls.fail_node(store, "d1-n1", controls.Failure.NOT_READY) == 1
    store.advance(24 * 3600)
    assert look(store)["status"]["phase"] == "Running"
    store.perform(Delete(kind=POD, name="p", namespace="rai"))
    store.advance(24 * 3600)
    assert "deletionTimestamp" in look(store)["metadata"]
    store.perform(Delete(kind=POD, name="p", namespace="rai", grace_seconds=0))
    assert is_gone(store)


@pytest.mark.parametrize("how", [controls.Failure.OUT_OF_SERVICE, controls.Failure.REMOVED])
def test_pod_on_a_failed_node_stays_until_it_is_deleted(store: SandboxStore, how: controls.Failure) -> None:
    start(store, pod(after="1m"))
    controls.fail_node(store, "d1-n1", how)
    store.advance(3600)
    assert look(store)["status"]["phase"] == "Running"
    store.perform(Delete(kind=POD, name="p", namespace="rai"))
    store.advance(60)
    assert is_gone(store)


def test_failed_node_carries_the_taint_or_is_absent(store: SandboxStore) -> None:
    controls.fail_node(store, "d1-n1", controls.Failure.OUT_OF_SERVICE)
    controls.fail_node(store, "d1-n2", controls.Failure.REMOVED)
    nodes = {item["metadata"]["name"]: item for item in store.perform(List(kind=NODE)).items}
    assert [taint["key"] for taint in nodes["d1-n1"]["spec"]["taints"]] == ["node.kubernetes.io/out-of-service"]
    assert "d1-n2" not in nodes


def test_pod_bound_to_a_node_that_is_not_there_waits(store: SandboxStore) -> None:
    assert start(store, pod(), node="no-such-node")["status"]["phase"] == "Pending"


def test_what_a_run_owned_goes_with_it(store: SandboxStore) -> None:
    owner = make(store, RUN, run())
    other = make(store, RUN, run("other"))
    make(store, POD, pod("mine", owner=owner))
    make(store, POD, pod("theirs", owner=other))
    make(store, SERVICE, {**pod("gang", owner=owner), "spec": {"clusterIP": "None"}})
    lease = {"apiVersion": API_VERSION, "kind": "Lease", "metadata": {"name": "l-1-0", "namespace": "rai"}}
    lease["spec"] = {
        "owner": "org:ai:rai",
        "runRef": {"name": "train", "uid": owner["metadata"]["uid"]},
        "compPath": ["SHARD[0]"],
        "slice": {"nodes": ["d1-n1"], "gpus": 8, "role": "Active"},
        "interval": {"start": rfc3339(store.now())},
        "paidByBudget": "rai",
        "paidByEnvelope": "h100",
        "class": "owned",
        "reason": "Start",
    }
    make(store, LEASE, lease)
    store.perform(Delete(kind=RUN, name="train", namespace="rai"))
    assert is_gone(store, "mine")
    assert is_gone(store, "gang", SERVICE)
    assert not is_gone(store, "theirs")
    assert not is_gone(store, "l-1-0", LEASE)  # history survives its run


def test_namespace_goes_when_its_last_pod_is_gone(store: SandboxStore) -> None:
    start(store, pod(spec={"terminationGracePeriodSeconds": 5}))
    make(store, POD, pod("unbound"))
    store.perform(Delete(kind=NAMESPACE, name="rai"))
    assert is_gone(store, "unbound")
    assert store.perform(Get(kind=NAMESPACE, name="rai")).object["status"]["phase"] == "Terminating"
    store.advance(5)
    with pytest.raises(NotFound):
        store.perform(Get(kind=NAMESPACE, name="rai"))


def test_complete_ends_the_pods_of_one_run_only(store: SandboxStore) -> None:
    owner, other = make(store, RUN, run()), make(store, RUN, run("other"))
    for number in range(3):
        start(store, pod(f"p{number}", owner=owner))
    start(store, pod("q", owner=other))
    assert controls.complete(store, "rai", "train", "Succeeded") == 3
    assert {look(store, f"p{number}")["status"]["phase"] for number in range(3)} == {"Succeeded"}
    assert look(store, "q")["status"]["phase"] == "Running"
    assert controls.complete(store, "rai", "train", "Failed") == 0


def test_advance_tells_what_became_of_pods(store: SandboxStore) -> None:
    begun = store.now()
    start(store, pod("a", after="10s"))
    start(store, pod("b", after="20s", phase="Failed"))
    start(store, pod("c", after="1h"))
    now, happened = controls.advance(store, 60)
    assert now == begun + 60
    assert dict(happened) == {"succeeded": 1, "failed": 1}


def test_logs_tell_when_a_simulated_pod_began_and_ended(store: SandboxStore) -> None:
    start(store, pod(after="10s"))
    assert len(list(store.logs("rai", "p"))) == 1
    store.advance(10)
    lines = list(store.logs("rai", "p"))
    assert "main runs on d1-n1" in lines[0]
    assert lines[1].endswith("main ended with exit code 0")
    assert list(store.logs("rai", "p", tail=1)) == lines[1:]


def test_watch_in_memory_lets_time_pass_and_ends(store: SandboxStore) -> None:
    started = start(store, pod(after="30s"))
    version = started["metadata"]["resourceVersion"]
    changes = list(store.watch(POD, "rai", resource_version=version, seconds=60))
    assert [change.object["status"]["phase"] for change in changes] == ["Succeeded"]


def test_default_world_has_two_islands_and_budgets_that_add_up(store: SandboxStore) -> None:
    nodes = store.perform(List(kind=NODE)).items
    islands = {node["metadata"]["labels"]["fabric.domain"] for node in nodes}
    gpus = sum(int(node["status"]["allocatable"]["nvidia.com/gpu"]) for node in nodes)
    envelopes = [item for budget in store.perform(List(kind=BUDGET)).items for item in budget["spec"]["envelopes"]]
    assert (len(nodes), len(islands), gpus) == (18, 2, 144)
    assert sum(envelope["concurrency"] for envelope in envelopes) == 144
    assert sum("lending" in envelope for envelope in envelopes) == 1
    assert store.perform(Get(kind=LEDGER, name="base")).object["spec"]["seq"] == 0


@pytest.mark.parametrize("words", [["us/a/d1=4x8"], ["us/a/d1=3x4:A100,eu/b/d1=2x8"], ["r/c/d=1x1"]])
def test_budgets_of_any_fleet_add_up_to_its_gpus(words: list[str]) -> None:
    recipe = world.World(islands=world.fleet(words))
    assert sum(recipe.gpus_of(team) for team in recipe.teams) == sum(recipe.gpus.values())
    store = SandboxStore(Database(":memory:"))
    store.fill(recipe)
    assert store.recipe() == recipe
    assert len(store.perform(List(kind=NODE)).items) == sum(island.nodes for island in recipe.islands)


@pytest.mark.parametrize("word", ["", "us/a=4x8", "us/a/d1=4", "us/a/d1=0x8", "us/a/d1=1x1,us/a/d1=2x2"])
def test_fleet_that_is_none_is_refused(word: str) -> None:
    with pytest.raises(ValueError, match=r"island|twice|GPUs"):
        world.fleet([word])


def test_same_commands_make_the_same_world(tmp_path: Path) -> None:
    def story(path: Path) -> list[Object]:
        store = SandboxStore.open(str(path))
        start(store, {**pod(), "metadata": {"generateName": "p-", "namespace": "rai"}})
        store.advance(5)
        return [item for kind in (NODE, POD, BUDGET) for item in store.perform(List(kind=kind)).items]

    assert story(tmp_path / "a.db") == story(tmp_path / "b.db")


def test_reset_makes_the_world_anew_and_tells_watchers(store: SandboxStore) -> None:
    before = [item["metadata"]["name"] for item in store.perform(List(kind=NODE)).items]
    store.perform(Delete(kind=NODE, name="d1-n1"))
    store.advance(3600)
    store.fill(store.recipe())
    assert [item["metadata"]["name"] for item in store.perform(List(kind=NODE)).items] == before
    assert store.now() == world.BEGINNING


def test_file_keeps_everything_when_it_is_opened_again(tmp_path: Path) -> None:
    path = str(tmp_path / "sandbox.db")
    first = SandboxStore.open(path)
    start(first, pod(after="1m"))
    first.close()
    second = SandboxStore.open(path)
    second.advance(60)
    assert look(second)["status"]["phase"] == "Succeeded"


def test_file_that_is_no_sandbox_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database, but long enough to look at " * 50)
    with pytest.raises(SandboxError):
        SandboxStore.open(str(path))


def test_user_without_the_verb_resolve_cuts_nobody(tmp_path: Path) -> None:
    path = str(tmp_path / "sandbox.db")
    operator, researcher = SandboxStore.open(path), SandboxStore.open(path, user="rita")
    spec = {
        "seq": 1,
        "prev": "sha256:" + "0" * 64,
        "nonce": "0" * 32,
        "readAt": rfc3339(operator.now()),
        "kind": "Freeze",
        "freeze": {
            "algorithm": "two-stage/1",
            "scope": {"flavor": "H100", "nodes": ["d1-n1"]},
            "deficitGPUs": 8,
            "tokens": [],
        },
    }
    freeze = Create(kind=LEDGER_ENTRY, object={"metadata": {"name": f"{1:012}"}, "spec": spec}, dry_run=True)
    assert isinstance(operator.perform(freeze), Reply)
    with pytest.raises(Forbidden):
        researcher.perform(freeze)
    assert not researcher.perform(MayI(verb="resolve", kind=LEDGER_ENTRY)).allowed
    assert researcher.perform(MayI(verb="create", kind=POD, subresource="binding")).allowed
    with pytest.raises(Forbidden):
        researcher.perform(Patch(kind=LEDGER, name="base", patch={"spec": {"floor": 0, "topology": {"rack": "r"}}}))


def test_selectable_fields_are_those_of_the_crds() -> None:
    from kubectl_runs.wire.schema.catalog import RESOURCES

    for resource in RESOURCES:
        shipped = {path.removeprefix(".") for path in resource.selectable}
        assert set(SELECTABLE.get(resource.kind.name, ())) == shipped, resource.kind.name


def test_policies_are_those_that_are_shipped() -> None:
    """Every message of a shipped policy can be heard in the sandbox, word for word."""
    from kubectl_runs.store.sandbox import admission
    from kubectl_runs.wire import policies

    source = Path(admission.__file__).read_text()
    shipped = [value for value in vars(policies).values() if isinstance(value, policies.Policy)]
    assert shipped
    for policy in shipped:
        for check in policy.checks:
            told = check.message.replace(str(policies.BASE_STEP_MAX), "{BASE_STEP_MAX}")
            assert told in source, f"{policy.name}: {check.message}"


COUNTER = """
import sys
from kubectl_runs.store.protocol import Conflict, Get, Replace
from kubectl_runs.store.sandbox import SandboxStore
from kubectl_runs.wire.kinds import RUN
store = SandboxStore.open(sys.argv[1])
refused = 0
for _ in range(int(sys.argv[2])):
    while True:
        run = store.perform(Get(kind=RUN, name="train", namespace="rai")).object
        labels = run["metadata"].get("labels") or {"count": "0"}
        run["metadata"]["labels"] = {"count": str(int(labels["count"]) + 1)}
        try:
            store.perform(Replace(kind=RUN, object=run))
            break
        except Conflict:
            refused += 1
print(refused)
"""


def test_eight_processes_write_one_file_without_a_lost_update(tmp_path: Path) -> None:
    path = str(tmp_path / "sandbox.db")
    store = SandboxStore.open(path)
    version = int(store.perform(Create(kind=RUN, object=run())).resource_version)
    command = [sys.executable, "-c", COUNTER, path, str(WRITES)]
    root = str(Path(__file__).parents[2])
    writers = [subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) for _ in range(PROCESSES)]
    assert [writer.wait(timeout=120) for writer in writers] == [0] * PROCESSES
    assert look(store, "train", RUN)["metadata"]["labels"] == {"count": str(PROCESSES * WRITES)}
    with store.database.reading() as tx:
        logged = [change.version for change in tx.changes(version, RUN.name)]
    assert logged == list(range(version + 1, version + 1 + PROCESSES * WRITES))  # each write is one change, none hidden


def test_two_processes_that_open_a_new_file_at_once_make_one_world(tmp_path: Path) -> None:
    path = str(tmp_path / "sandbox.db")
    code = f"from kubectl_runs.store.sandbox import SandboxStore; print(SandboxStore.open({path!r}).now())"
    root = str(Path(__file__).parents[2])
    openers = [
        subprocess.Popen([sys.executable, "-c", code], cwd=root, stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]
    assert [opener.wait(timeout=60) for opener in openers] == [0] * 4
    store = SandboxStore.open(path)
    assert len(store.perform(List(kind=NODE)).items) == 18


def test_state_survives_as_plain_json(tmp_path: Path) -> None:
    """Anybody can look into the file with sqlite3."""
    import sqlite3

    path = str(tmp_path / "sandbox.db")
    SandboxStore.open(path).close()
    rows = sqlite3.connect(path).execute("SELECT data FROM objects WHERE kind = 'Budget'").fetchall()
    assert {json.loads(data)["metadata"]["name"] for (data,) in rows} == {"ai", "mm", "nlp", "rai"}
