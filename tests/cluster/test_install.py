"""`kubectl runs install` on a real API server: from nothing, again, after drift, and with grants."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from kubectl_runs.wire.crds import files
from tests.controlplane import fleet
from tests.controlplane.client import Object
from tests.controlplane.plane import ControlPlane
from tests.docs_examples import matches, parse

RBAC = "rbac.authorization.k8s.io/v1"
POLICIES = "admissionregistration.k8s.io/v1/validatingadmissionpolicies"
SHIPPED = sum(len(objects) for objects in files().values())


@pytest.fixture(scope="module")
def plane(fresh_control_plane: Callable[..., ControlPlane]) -> Iterator[ControlPlane]:
    with fresh_control_plane(kwok=False, install=False) as plane:
        yield plane


@pytest.fixture(scope="module")
def first(plane: ControlPlane) -> tuple[Object, Object]:
    """What a dry run on an empty cluster says, and then the first real installation."""
    return install(plane, "--dry-run"), install(plane, "--flavor-label", "example.com/gpu")


def install(plane: ControlPlane, *flags: str) -> Object:
    return dict(json.loads(fleet.run_cli(plane, "install", "-o", "json", *flags, user="admin").ok().stdout))


def results(answer: Object) -> dict[str, int]:
    return dict(Counter(each["result"] for each in answer["objects"]))


def result_of(answer: Object, kind: str, name: str) -> str:
    (found,) = (each["result"] for each in answer["objects"] if (each["kind"], each["name"]) == (kind, name))
    return str(found)


def test_first_install_creates_everything_and_its_dry_run_said_so(first: tuple[Object, Object]) -> None:
    planned, done = first
    assert planned["dryRun"]
    assert not done["dryRun"]
    assert planned["objects"] == done["objects"]
    assert results(done) == {"created": SHIPPED + 1}


def test_base_begins_at_nothing_with_the_labels_asked_for(plane: ControlPlane, first: tuple[Object, Object]) -> None:
    assert first
    spec = plane.client().get("ledgers", "base")["spec"]
    assert (spec["seq"], spec["floor"], spec["digest"]) == (0, 0, "sha256:" + "0" * 64)
    assert spec["topology"] == {
        "region": "region",
        "cluster": "cluster",
        "fabricDomain": "fabric.domain",
        "rack": "rack",
        "flavor": "example.com/gpu",
        "resource": "nvidia.com/gpu",
    }


def test_second_install_changes_nothing(plane: ControlPlane, first: tuple[Object, Object]) -> None:
    assert first
    assert results(install(plane)) == {"unchanged": SHIPPED + 1}


def test_install_after_work_was_done_keeps_base(plane: ControlPlane, first: tuple[Object, Object]) -> None:
    assert first
    moved = plane.client().patch("ledgers", "base", {"spec": {"seq": 7, "pending": [6]}})
    answer = install(plane, "--rack-label", "example.com/rack")
    assert result_of(answer, "Ledger", "base") == "configured"
    kept = plane.client().get("ledgers", "base")["spec"]
    assert {**kept, "topology": {}} == {**moved["spec"], "topology": {}}
    assert (kept["topology"]["rack"], kept["topology"]["flavor"]) == ("example.com/rack", "example.com/gpu")


def test_weakened_policy_is_repaired_and_foreign_labels_stay(plane: ControlPlane, first: tuple[Object, Object]) -> None:
    assert first
    never = [{"name": "never", "expression": "false"}]
    patch = {"metadata": {"labels": {"team": "ops"}}, "spec": {"matchConditions": never}}
    plane.client().patch(POLICIES, "kubectl-runs-base", patch)
    planned = install(plane, "--dry-run")
    assert result_of(planned, "ValidatingAdmissionPolicy", "kubectl-runs-base") == "configured"
    assert plane.client().get(POLICIES, "kubectl-runs-base")["spec"]["matchConditions"] == never
    answer = install(plane)
    assert results(answer) == {"configured": 1, "unchanged": SHIPPED}
    repaired = plane.client().get(POLICIES, "kubectl-runs-base")
    assert "matchConditions" not in repaired["spec"]
    assert repaired["metadata"]["labels"] == {"team": "ops"}


def test_grants_add_subjects_and_keep_earlier_ones(plane: ControlPlane, first: tuple[Object, Object]) -> None:
    assert first
    fleet.add_namespace(plane, "team-x")
    both = install(plane, "--grant", "researcher=oidc:readers:team-x", "--grant", "auditor=finance")
    assert results(both) == {"created": 3, "unchanged": SHIPPED + 1}
    answer = install(plane, "--grant", "researcher=others:team-x", "--grant", "daemon=gpu-system:bot")
    assert result_of(answer, "RoleBinding", "kubectl-runs-researcher") == "configured"
    client = plane.client()
    in_namespace = client.get(f"{RBAC}/rolebindings", "kubectl-runs-researcher", "team-x")
    everywhere = client.get(f"{RBAC}/clusterrolebindings", "kubectl-runs-researcher-cluster")
    for binding in (in_namespace, everywhere):
        assert [subject["name"] for subject in binding["subjects"]] == ["oidc:readers", "others"]
    daemon = client.get(f"{RBAC}/clusterrolebindings", "kubectl-runs-daemon")["subjects"]
    assert daemon == [{"kind": "ServiceAccount", "name": "bot", "namespace": "gpu-system"}]
    assert client.find(f"{RBAC}/rolebindings", "kubectl-runs-daemon-election", "gpu-system")
    again = install(plane, "--grant", "researcher=others:team-x")
    assert results(again) == {"unchanged": SHIPPED + 3}


def test_grant_in_a_missing_namespace_names_it(plane: ControlPlane, first: tuple[Object, Object]) -> None:
    assert first
    done = fleet.run_cli(plane, "install", "--grant", "researcher=team:nowhere", user="admin")
    assert done.exit_code == 1
    assert done.stderr == 'error: namespaces "nowhere" not found\n\nhint: kubectl create namespace nowhere\n'


def test_install_by_a_stranger_says_what_is_needed(plane: ControlPlane, first: tuple[Object, Object]) -> None:
    assert first
    done = fleet.run_cli(plane, "install", user="stranger")
    assert done.exit_code == 1
    assert done.stdout == ""
    assert done.stderr.startswith("error: install needs the rights of a cluster administrator: ")
    assert "hint: kubectl auth can-i create customresourcedefinitions" in done.stderr


def test_install_prints_a_line_for_each_object(plane: ControlPlane, first: tuple[Object, Object]) -> None:
    assert first
    *lines, last = fleet.run_cli(plane, "install", "--dry-run", user="admin").ok().stdout.splitlines()
    assert len(lines) == SHIPPED + 1
    assert lines[-1] == "ledger/base unchanged (dry run)"
    assert last == f"{SHIPPED + 1} unchanged (dry run)"


def test_page_about_installing_shows_what_comes_out(fresh_control_plane: Callable[..., ControlPlane]) -> None:
    """The page's examples need a cluster, so they run here and not with the other pages."""
    page = parse(fleet.ROOT / "docs" / "user-guide" / "install.md")
    assert len(page.examples) >= 7
    with fresh_control_plane(kwok=False, install=False) as plane:
        for example in page.examples:
            words = shlex.split(example.command)
            assert words[0] == "kubectl"
            if words[1] == "runs":
                printed = fleet.run_cli(plane, *words[2:], user="admin").ok().stdout
            else:
                printed = plane.kubectl(*words[1:]).stdout
            assert matches(example.expected, printed.splitlines()), f"$ {example.command}\n{printed}"
