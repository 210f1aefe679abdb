"""The files of `crds/`, applied with kubectl alone: the API server and our own validation agree on every sample."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kubectl_runs.wire.kinds import BY_NAME
from kubectl_runs.wire.schema import with_defaults
from tests.controlplane.client import Object, Refused, path_of, wait_for
from tests.controlplane.plane import ControlPlane
from tests.docs_examples import parse
from tests.wire.samples import Sample, invalid, valid

CRDS = sorted(str(path) for path in (Path(__file__).parents[2] / "crds").glob("*.yaml"))
KINDS = "budgets runs leases reservations ledgerentries ledgers"


@pytest.fixture(scope="module")
def plane(fresh_control_plane: Callable[..., ControlPlane]) -> Iterator[ControlPlane]:
    """A server with the CRDs and nothing else, put there by kubectl: no plugin, no policy."""
    with fresh_control_plane(kwok=False, install=False) as plane:
        definitions = [path for path in CRDS if Path(path).stem in KINDS.split()]
        assert len(definitions) == len(KINDS.split())
        applied = plane.kubectl("apply", *(word for path in definitions for word in ("-f", path)))
        assert applied.returncode == 0, applied.stderr
        wait_for("all kinds to be served", lambda: all(served(plane, plural) for plural in KINDS.split()))
        yield plane


def served(plane: ControlPlane, plural: str) -> bool:
    try:
        plane.client().list(plural)
    except Refused:
        return False
    return True


def submit(plane: ControlPlane, document: Object) -> Object:
    """Create the object, or replace it where it exists; then its status, which goes its own way."""
    plural = BY_NAME[document["kind"]].plural
    metadata = document["metadata"]
    namespace, name = metadata.get("namespace", ""), metadata["name"]
    live = plane.client().find(plural, name, namespace)
    stored = send(plane, "PUT" if live else "POST", path_of(plural, namespace, name if live else ""), document, live)
    if "status" in document:
        stored = send(plane, "PUT", path_of(plural, namespace, name, "status"), document, stored)
    return stored


def send(plane: ControlPlane, method: str, path: str, document: Object, live: Object | None) -> Object:
    metadata = dict(document["metadata"])
    if live is not None:
        metadata["resourceVersion"] = live["metadata"]["resourceVersion"]
    return plane.client().request(method, f"{path}?fieldValidation=Strict", {**document, "metadata": metadata})


@pytest.mark.parametrize("sample", valid(), ids=lambda sample: sample.name)
def test_valid_sample_is_stored_as_we_say(plane: ControlPlane, sample: Sample) -> None:
    for document in sample.documents:
        stored = submit(plane, document)
    expected = with_defaults(document["kind"], document)
    assert stored["spec"] == expected["spec"]
    assert stored.get("status") == expected.get("status")


@pytest.mark.parametrize("sample", invalid(), ids=lambda sample: sample.name)
def test_invalid_sample_is_refused_with_its_words(plane: ControlPlane, sample: Sample) -> None:
    *before, last = sample.documents
    for document in before:
        submit(plane, document)
    with pytest.raises(Refused) as refused:
        submit(plane, last)
    assert refused.value.status in (400, 422)
    assert sample.refused in str(refused.value)


def test_entry_is_stored_to_the_letter_but_for_nulls(plane: ControlPlane) -> None:
    """What a digest is taken over must come back as it was sent; hence no null is ever sent (section 6)."""
    (start,) = next(sample for sample in valid() if sample.name == "entry-start").documents
    sent = {**start["spec"], "seq": 900, "plan": None, "trace": [{"act": "took", "note": None, "order": ["b", "a"]}]}
    stored = plane.client().create("ledgerentries", {**start, "metadata": {"name": f"{900:012d}"}, "spec": sent})
    assert "plan" not in stored["spec"]
    assert stored["spec"]["trace"] == sent["trace"]
    assert stored["spec"] == {key: part for key, part in sent.items() if part is not None}


def test_lease_of_an_open_run_is_found_by_every_selectable_field(plane: ControlPlane) -> None:
    client = plane.client()
    (lease,) = next(sample for sample in valid() if sample.name == "lease").documents
    for name, closed in (("l-910-0", False), ("l-910-1", True)):
        spec = {**lease["spec"], "runRef": {"name": "selected", "uid": "u"}, "paidByBudget": "mine"}
        client.create("leases", {**lease, "metadata": {"name": name}, "spec": spec}, "default")
        if closed:
            status = {"closed": True, "endTime": "2026-01-05T13:00:00Z", "closureReason": "Completed"}
            client.patch("leases", name, {"status": status}, "default", "status")
    mine = "spec.runRef.name=selected,spec.paidByBudget=mine,spec.node=n17-04"
    assert names(client.list("leases", fields=f"{mine},status.closed!=true")) == ["l-910-0"]
    assert names(client.list("leases", fields=f"{mine},status.closed=true")) == ["l-910-1"]


def names(objects: list[Object]) -> list[str]:
    return [each["metadata"]["name"] for each in objects]


@pytest.mark.parametrize("field", ["run.spec", "run.spec.malleable", "budget.spec.envelopes", "ledgerentry.spec.opens"])
def test_kubectl_explains_every_field(plane: ControlPlane, field: str) -> None:
    explained = plane.kubectl("explain", field, "--api-version=rq.davidlangworthy.io/v1")
    assert explained.returncode == 0, explained.stderr
    assert "<no description>" not in explained.stdout
    assert "DESCRIPTION" in explained.stdout


def test_every_field_has_a_description(plane: ControlPlane) -> None:
    undescribed = []
    for plural in KINDS.split():
        crd = plane.client().get("apiextensions.k8s.io/v1/customresourcedefinitions", f"{plural}.rq.davidlangworthy.io")
        schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        undescribed += [f"{plural}{path}" for path in without_description(schema, "")]
    assert undescribed == []


def without_description(schema: dict[str, Any], path: str) -> list[str]:
    found = []
    for name, part in schema.get("properties", {}).items():
        if (path, name) == ("", "metadata"):
            continue
        if "description" not in part:
            found.append(f"{path}.{name}")
        found += without_description(part, f"{path}.{name}")
    return found + (without_description(schema["items"], f"{path}[]") if "items" in schema else [])


def test_page_about_objects_shows_what_kubectl_says(plane: ControlPlane) -> None:
    page = parse(Path(__file__).parents[2] / "docs" / "concepts" / "objects.md")
    manifests = dict(value.split("\n", 1) for word, value in page.steps if word == "file")
    plane.kubectl("create", "namespace", "rai")
    for name in ("budget.yaml", "train.yaml"):
        applied = plane.kubectl("apply", "-f", "-", stdin=manifests[name])
        assert applied.returncode == 0, applied.stderr
    (example,) = page.examples
    odd = plane.kubectl("apply", "-f", "-", stdin=manifests["odd.yaml"])
    assert odd.stderr.splitlines() == example.expected


def test_short_names_and_columns_show_what_matters(plane: ControlPlane) -> None:
    (lease,) = next(sample for sample in valid() if sample.name == "lease").documents
    submit(plane, {**lease, "metadata": {"name": "l-920-0", "namespace": "default"}})
    shown = plane.kubectl("get", "gl", "l-920-0", "-n", "default").stdout.splitlines()
    assert shown[0].split() == ["NAME", "RUN", "NODE", "GPUS", "ROLE", "BUDGET", "ENVELOPE", "END", "REASON"]
    assert shown[1].split() == ["l-920-0", "sample", "n17-04", "4", "Active", "rai", "west-h100"]
    runs = plane.kubectl("get", "runs", "-n", "default", "-o", "name").stdout.split()
    assert runs
    assert all(name.startswith("run.rq.davidlangworthy.io/") for name in runs)
