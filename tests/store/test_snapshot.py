"""A snapshot file as a store: what it accepts, whose clock it has, and that saving and redacting keep the decision."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from kubectl_runs import saving
from kubectl_runs.errors import RunsError
from kubectl_runs.redact import redacted
from kubectl_runs.store.protocol import Create, Get, List, MayI, NotFound, ReadOnly
from kubectl_runs.store.snapshot import SnapshotStore, load
from kubectl_runs.wire.kinds import LEASE, NODE, POD, RUN
from planner.digest import digest
from planner.model import NO_DIGEST, Decision, Snapshot
from planner.plan import plan_run

Json = dict[str, Any]
API = "rq.davidlangworthy.io/v1"
FILES = Path(__file__).parents[1] / "golden" / "files"
NOON = 1767614400


def node(name: str) -> Json:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}


def write(folder: Path, value: Any) -> str:
    path = folder / "state.json"
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return str(path)


def listed(items: list[Json], **metadata: Any) -> Json:
    return {"apiVersion": "v1", "kind": "List", "metadata": metadata, "items": items}


def test_file_of_documents_list_or_typed_list_is_read(tmp_path: Path) -> None:
    for value in (
        json.dumps(node("n1")) + "\n---\n" + json.dumps(node("n2")),
        listed([node("n1"), node("n2")]),
        {"apiVersion": "v1", "kind": "NodeList", "items": [{"metadata": {"name": "n1"}}, {"metadata": {"name": "n2"}}]},
    ):
        store = SnapshotStore.open(write(tmp_path, value))
        assert [item["metadata"]["name"] for item in store.perform(List(kind=NODE)).items] == ["n1", "n2"]


def test_clock_is_now_else_when_it_was_saved(tmp_path: Path) -> None:
    stamped = listed([node("n1")], annotations={"rq.davidlangworthy.io/saved-at": "2026-01-05T12:00:00Z"})
    path = write(tmp_path, stamped)
    assert SnapshotStore.open(path).now() == NOON
    assert SnapshotStore.open(path, now=7).now() == 7


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ('{"apiVersion": "v1", "kind": "Node", "kind": "Node", "metadata": {"name": "n"}}', "duplicate key kind"),
        (
            listed([{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}}]),
            "Deployment d: kind: unknown kind",
        ),
        (listed([{"apiVersion": f"{API}beta", "kind": "Run", "metadata": {"name": "r"}}]), "unknown kind"),
        (listed([{"apiVersion": "v1", "kind": "Node", "metadata": {}}]), "a Node: metadata.name: is required"),
        (listed(["x"]), "items of a List must be objects"),
        ("[1, 2]", "is no object with apiVersion and kind"),
        ('{"apiVersion": ', "not YAML"),
    ],
)
def test_file_that_is_wrong_is_refused_with_its_name(tmp_path: Path, value: Any, message: str) -> None:
    path = write(tmp_path, value)
    with pytest.raises(RunsError) as caught:
        SnapshotStore.open(path)
    assert caught.value.message.startswith(path)
    assert message in caught.value.message


def test_strange_node_and_pod_never_refuse_the_file(tmp_path: Path) -> None:
    strange = {**node("n1"), "spec": {"taints": 7}, "status": ["?"]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": None}, "unknown": 1}
    store = SnapshotStore.open(write(tmp_path, listed([strange, pod])))
    assert store.perform(Get(kind=POD, name="p", namespace="default")).object["unknown"] == 1


def test_lists_follow_namespace_labels_and_fields() -> None:
    store = SnapshotStore.open(str(FILES / "busy.yaml"), now=NOON)
    names = lambda request: [item["metadata"]["name"] for item in store.perform(request).items]  # noqa: E731
    assert names(List(kind=RUN, namespace="nlp")) == ["fixed", "old"]
    assert names(List(kind=RUN, labels="team=rai")) == ["big", "eval", "idea", "wide"]
    assert names(List(kind=LEASE, fields="status.closed!=true")) == ["l-4-0", "l-2-0", "l-2-1", "l-3-0"]
    assert names(List(kind=LEASE, fields="spec.runRef.name=wide")) == ["l-2-0", "l-2-1"]


def test_writes_are_refused_and_reads_allowed() -> None:
    store = SnapshotStore.open(str(FILES / "busy.yaml"), now=NOON)
    with pytest.raises(ReadOnly):
        store.perform(Create(kind=NODE, object=node("x")))
    with pytest.raises(NotFound):
        store.perform(Get(kind=RUN, name="nobody", namespace="rai"))
    assert store.perform(MayI(verb="list", kind=RUN)).allowed
    assert not store.perform(MayI(verb="create", kind=RUN)).allowed


def entry(seq: int, prev: str, **spec: Any) -> Json:
    run = {"namespace": "rai", "name": "r", "uid": "u", "attempt": 1}
    made = {
        "seq": seq,
        "prev": prev,
        "nonce": "0" * 32,
        "readAt": "2026-01-05T12:00:00Z",
        "kind": "End",
        "run": run,
        **spec,
    }
    meta = {"name": f"{seq:012d}", "creationTimestamp": f"2026-01-05T12:00:{60 - seq:02d}Z"}
    return {"apiVersion": API, "kind": "LedgerEntry", "metadata": meta, "spec": made}


def test_entries_are_linked_from_the_base_up_to_the_first_missing_number() -> None:
    first = entry(1, NO_DIGEST)
    second = entry(2, "sha256:" + "f" * 64)  # does not follow
    third = entry(3, digest(second["spec"]))
    store = SnapshotStore("f", [first, third, second, entry(5, NO_DIGEST)], now=NOON)
    seen = store.snapshot.entries
    assert [item.seq for item in seen] == [1, 2, 3]
    assert [bool(item.void) for item in seen] == [False, True, False]
    assert [item.time for item in seen] == [seen[0].created_at] * 3  # never before the entry before


def test_entries_behind_the_base_count_only_while_pending() -> None:
    entries = [entry(1, NO_DIGEST)]
    for seq in (2, 3, 4):
        entries.append(entry(seq, digest(entries[-1]["spec"])))
    spec = {"seq": 3, "digest": digest(entries[2]["spec"]), "pending": [2]}
    base = {"apiVersion": API, "kind": "Ledger", "metadata": {"name": "base"}, "spec": spec}
    store = SnapshotStore("f", [*entries, base], now=NOON)
    assert [item.seq for item in store.snapshot.entries] == [2, 4]


# Saving


def test_saved_file_holds_the_same_planning_state_and_no_secrets(tmp_path: Path) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "rai", "managedFields": [1], "annotations": {"note": "secret"}},
        "spec": {"nodeName": "d1-n1", "containers": [{"name": "c", "env": [{"name": "KEY", "value": "secret"}], "args": ["secret"], "resources": {"requests": {"nvidia.com/gpu": "2"}}}]},
        "status": {"phase": "Running", "podIP": "secret"},
    }  # fmt: skip
    objects, _ = load(str(FILES / "busy.yaml"))
    store = SnapshotStore("f", [*objects, pod], now=NOON)
    path = str(tmp_path / "saved.json")
    saving.write(path, saving.as_list(saving.collect(store), saved_at=NOON))
    again = SnapshotStore.open(path)
    assert again.now() == NOON
    for part in fields(Snapshot):
        before, after = getattr(store.snapshot, part.name), getattr(again.snapshot, part.name)
        # Order inside the tuples never matters.
        assert after == before or sorted(map(repr, after)) == sorted(map(repr, before)), part.name
    assert "secret" not in Path(path).read_text()


def test_saved_without_history_leaves_closed_leases_out() -> None:
    store = SnapshotStore.open(str(FILES / "busy.yaml"), now=NOON)
    kept = saving.collect(store, history=False)
    assert "l-1-0" not in {item["metadata"]["name"] for item in kept}
    assert len([item for item in kept if item["kind"] == "Lease"]) == 4


def shape_of(decision: Decision) -> tuple[Any, ...]:
    seats = [(seat.group, seat.rank, seat.gpus, seat.role, seat.funding) for seat in decision.seats]
    cuts = sorted((cut.kind, cut.group, cut.gpus) for cut in decision.cuts)
    return decision.verdict, decision.reason, decision.width, decision.earliest_start, seats, cuts


def words_of(value: Any) -> set[str]:
    """Every text in a value but UIDs, which are no names."""
    if isinstance(value, dict):
        return {word for key, part in value.items() if key != "uid" for word in words_of(part)}
    if isinstance(value, list):
        return {word for part in value for word in words_of(part)}
    return {value} if isinstance(value, str) else set()


def test_redacted_file_shows_no_name() -> None:
    objects, _ = load(str(FILES / "busy.yaml"))
    for word in words_of(redacted(objects)):
        for name in ("wide", "eval", "idea", "org:", "nlp", "rai", "us-west", "d1", "example/train"):
            assert name not in word, word


@pytest.mark.parametrize("run", ["big", "idea", "wide", "fixed"])
def test_redacted_file_decides_the_same(run: str) -> None:
    objects, _ = load(str(FILES / "busy.yaml"))
    plain, veiled = (SnapshotStore("f", some, now=NOON).snapshot for some in (objects, redacted(objects)))
    before = next(made for made in plain.runs if made.name == run)
    after = next(made for made in veiled.runs if made.uid == before.uid)
    assert shape_of(plan_run(plain, before, NOON)) == shape_of(plan_run(veiled, after, NOON))


def test_redacted_ledger_keeps_its_chain() -> None:
    objects, _ = load(str(FILES / "ledger.json"))
    hidden = redacted(objects)
    assert len(SnapshotStore("f", hidden, now=NOON).snapshot.entries) == len(
        SnapshotStore("f", objects, now=NOON).snapshot.entries
    )
    assert not [entry.void for entry in SnapshotStore("f", hidden, now=NOON).snapshot.entries if entry.void]
