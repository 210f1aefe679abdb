"""The sandbox's own ways: its worlds, its rights, and many processes on one file."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kubectl_runs.store.protocol import (
    Create,
    Delete,
    Forbidden,
    Get,
    List,
    MayI,
    Object,
    Patch,
    Reply,
)
from kubectl_runs.store.sandbox import SandboxStore, world
from kubectl_runs.store.sandbox.database import Database, SandboxError
from kubectl_runs.store.selectors import SELECTABLE
from kubectl_runs.wire.kinds import BUDGET, LEASE, LEDGER, LEDGER_ENTRY, NODE, POD, RUN, Kind
from kubectl_runs.wire.times import rfc3339
from tests.store.sandboxes import look, make, pod, run, start

PROCESSES = 8
WRITES = 25


@pytest.fixture
def store() -> SandboxStore:
    return SandboxStore.open(":memory:")


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


def test_kinds_of_one_name_in_two_groups_are_kept_apart() -> None:
    store = SandboxStore.open(":memory:")
    builtin = Kind("Lease", "leases", "coordination.k8s.io/v1", namespaced=True, has_status=False)
    spec = {"holderIdentity": "me", "leaseTransitions": 0}
    make(store, builtin, {"metadata": {"name": "leader", "namespace": "rai"}, "spec": spec})
    assert store.perform(List(kind=LEASE)).items == []
    assert [item["spec"] for item in store.perform(List(kind=builtin)).items] == [spec]
    store.perform(Delete(kind=builtin, name="leader", namespace="rai"))
    assert store.perform(List(kind=builtin)).items == []


def test_selectable_fields_are_those_of_the_crds() -> None:
    from kubectl_runs.wire.schema.catalog import RESOURCES

    for resource in RESOURCES:
        shipped = {path.removeprefix(".") for path in resource.selectable}
        assert set(SELECTABLE.get(resource.kind, ())) == shipped, resource.kind.name


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
        logged = [change.version for change in tx.changes(version, RUN)]
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


def test_reading_imports_nothing_heavy_and_waits_for_no_writer(tmp_path: Path) -> None:
    path = str(tmp_path / "sandbox.db")
    store = SandboxStore.open(path)
    code = (
        "import sys\nfrom kubectl_runs.store import open_sandbox\nfrom kubectl_runs.store.protocol import List\n"
        "from kubectl_runs.wire.kinds import NODE\n"
        f"assert len(open_sandbox({path!r}).perform(List(kind=NODE)).items) == 18\n"
        "assert not {'pydantic', 'kubernetes', 'rich', 'asyncio', 'yaml', 'http.client'} & set(sys.modules)"
    )
    root = str(Path(__file__).parents[2])
    with store.database.writing():
        assert subprocess.run([sys.executable, "-c", code], cwd=root, timeout=20).returncode == 0


def test_state_survives_as_plain_json(tmp_path: Path) -> None:
    """Anybody can look into the file with sqlite3."""
    import sqlite3

    path = str(tmp_path / "sandbox.db")
    SandboxStore.open(path).close()
    rows = (
        sqlite3.connect(path).execute("SELECT data FROM objects WHERE kind = 'Budget.rq.davidlangworthy.io'").fetchall()
    )
    assert {json.loads(data)["metadata"]["name"] for (data,) in rows} == {"ai", "mm", "nlp", "rai"}
