"""Files that people write: what is refused, and that every complaint has file, line, column and the line itself."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml as reference
from hypothesis import given, settings
from hypothesis import strategies as st

from kubectl_runs.asked import manifest_of
from kubectl_runs.errors import ManifestError
from kubectl_runs.flags import Flags
from kubectl_runs.session import Session
from kubectl_runs.wire import manifest, yaml

RUN = """\
apiVersion: rq.davidlangworthy.io/v1
kind: Run
metadata:
  name: train
  namespace: rai
spec:
  owner: org:ai:rai
  resources:
    gpuType: H100
    totalGPUs: 24
    gpusPerPod: 4
  locality:
    selector:
      fabric.domain: d1
  duration: 4h
  template:
    spec:
      containers:
      - name: main
        image: example/train:1
"""


def read(folder: Path, text: str) -> yaml.Document:
    path = folder / "train.yaml"
    path.write_text(text)
    with Session(Flags(source="unused")) as session:
        return manifest_of(session, str(path))


def complaint(folder: Path, text: str) -> tuple[str, str]:
    with pytest.raises(ManifestError) as caught:
        read(folder, text)
    return caught.value.message.removeprefix(f"{folder}/"), caught.value.detail


def test_manifest_that_is_right_is_read(tmp_path: Path) -> None:
    assert read(tmp_path, RUN).value["spec"]["resources"]["totalGPUs"] == 24


@pytest.mark.parametrize(
    ("old", "new", "message", "shown"),
    [
        ("totalGPUs: 24", "totalGPUs: 2x4", "train.yaml:10:16: spec.resources.totalGPUs: must be a whole number, not '2x4'", "totalGPUs: 2x4"),
        ("totalGPUs: 24", "totalGPUs: 26", "train.yaml:11:17: spec.resources.gpusPerPod: 4 does not divide totalGPUs 26", "gpusPerPod: 4"),
        ("gpusPerPod: 4", "gpuPerPod: 4", "train.yaml:11:5: spec.resources.gpuPerPod: unknown field, did you mean gpusPerPod", "gpuPerPod: 4"),
        ("fabric.domain: d1", "fabric.domain: 1", "train.yaml:14:22: spec.locality.selector.fabric.domain: must be a text, not 1", "fabric.domain: 1"),
        ("duration: 4h", "duration: *d", "train.yaml:15:13: aliases are refused (*d)", "duration: *d"),
        ("duration: 4h", "duration: !!str 4h", "train.yaml:15:13: tags are refused (tag:yaml.org,2002:str)", "!!str 4h"),
        ("duration: 4h", "duration: 4h\n  duration: 5h", "train.yaml:16:3: duration: duplicate", None),
        ("duration: 4h", "<<: {duration: 4h}", "train.yaml:15:3: merge keys are refused (<<)", "<<"),
        ("kind: Run", "kind: Rum", "train.yaml:2:7: kind: unknown kind 'Rum', ours are Budget, Run", "kind: Rum"),
        ("kind: Run", "kind: Budget", "train.yaml:2:7: kind: a Run (rq.davidlangworthy.io/v1) is wanted, not a Budget", "Budget"),
        ("io/v1", "io/v2", "train.yaml:1:13: apiVersion: must be rq.davidlangworthy.io/v1 for a Run", "io/v2"),
        ("  name: train\n", "", "train.yaml:4:3: metadata.name: is required", "namespace: rai"),
        ("spec:\n  owner", "spek: {}\nspec:\n  owner", "train.yaml:6:1: spek: unknown field, did you mean spec", "spek"),
        ("    spec:\n", "    spec:\n      nodeName: n1\n", "train.yaml:18:17: spec.template.spec.nodeName: nodeName is set by the plugin", "nodeName"),
        ("    spec:\n", "    spec:\n      restartPolicy: Always\n", "train.yaml:18:22: spec.template.spec.restartPolicy: Always is refused", "Always"),
        ("duration: 4h", "duration: [4h", "train.yaml:16:11: not YAML:", "template:"),
        ("duration: 4h", "duration: 010s\n  sparesPerGroup: 01", "train.yaml:16:19: spec.sparesPerGroup: must be a whole number, not '01'", "01"),
    ],
)  # fmt: skip
def test_manifest_that_is_wrong_is_refused_at_its_place(
    tmp_path: Path, old: str, new: str, message: str, shown: str | None
) -> None:
    got, detail = complaint(tmp_path, RUN.replace(old, new, 1))
    if shown is None:
        assert got == "train.yaml:16:3: duplicate key duration"
        return
    assert got.startswith(message), got
    line = detail.splitlines()[0]
    assert shown in line
    assert line.startswith(message.split(":")[1] + " | ")


def test_manifest_pointer_stands_under_the_value(tmp_path: Path) -> None:
    _, detail = complaint(tmp_path, RUN.replace("totalGPUs: 24", "totalGPUs: 0"))
    assert detail == "10 |     totalGPUs: 0\n   |                ^"


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n---\n"])
def test_manifest_without_an_object_is_refused(tmp_path: Path, text: str) -> None:
    assert complaint(tmp_path, text)[0] == "train.yaml: holds no object"


def test_manifest_with_two_runs_is_refused_at_the_second(tmp_path: Path) -> None:
    got, _ = complaint(tmp_path, RUN + "---\n" + RUN)
    assert got.startswith("train.yaml:22:1: a second Run")


def test_manifest_as_json_or_as_a_list_is_read_and_located(tmp_path: Path) -> None:
    import json

    run = reference.safe_load(RUN)
    run["spec"]["resources"]["totalGPUs"] = -4
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": [run]}, indent=1)
    got, detail = complaint(tmp_path, listed)
    assert "spec.resources.totalGPUs: must be at least 1, not -4" in got
    assert '"totalGPUs": -4' in detail


def test_manifest_bombs_end_in_a_complaint(tmp_path: Path) -> None:
    for text in (
        "[" * 200_000,
        "{a: " * 200_000,
        "\n".join(" " * i + "a:" for i in range(500)),
        "a: &a [1]\nb: [*a, *a]\n",
    ):
        got, _ = complaint(tmp_path, text)
        assert "nested deeper than 100" in got or "aliases are refused" in got


def test_manifest_too_large_or_not_utf8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(b"#" * (manifest.BYTES_MAX + 1))
    with pytest.raises(ManifestError, match="larger than 4 MiB"):
        manifest.objects(str(path))
    path.write_bytes(b"a: \xff")
    with pytest.raises(ManifestError, match="not UTF-8 at byte 3"):
        manifest.objects(str(path))


# The reader against PyYAML's own, and against whatever comes

PLAIN = st.one_of(st.none(), st.booleans(), st.integers(-(10**12), 10**12), st.text(max_size=12))
VALUES = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(min_size=1, max_size=8), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=40)
@given(st.dictionaries(st.text(min_size=1, max_size=8), VALUES, min_size=1, max_size=4))
def test_yaml_written_by_others_reads_back_the_same(value: dict[str, object]) -> None:
    text = reference.safe_dump(value, allow_unicode=False)
    (document,) = yaml.documents(text, "x")
    assert document.value == value


@given(st.text(alphabet=st.sampled_from("ab: -[]{}&*!|>'\"\n\t#,?%@<\x00\x85é0~"), max_size=60))
def test_yaml_of_any_text_gives_values_or_a_complaint_with_a_place(text: str) -> None:
    try:
        said = [f"x:{document.marks[()][0] + 1}:" for document in yaml.documents(text, "x")]
    except ManifestError as error:
        said = [error.message]
    assert all(message.startswith("x:") and message.split(":")[1].isdecimal() for message in said)
