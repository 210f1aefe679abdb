"""`--grant`: words become bindings, and words that mean nothing are refused with what is allowed."""

from __future__ import annotations

import pytest

from kubectl_runs.apply import combined
from kubectl_runs.commands.install import bindings_of
from kubectl_runs.errors import UsageError


def summary(words: str) -> list[tuple[str, str, str, str]]:
    made = [each for each in bindings_of(words) if each["kind"] != "Namespace"]
    return [
        (each["kind"], each["metadata"].get("namespace", ""), each["roleRef"]["name"], subject["name"])
        for each in made
        for subject in each["subjects"]
    ]


def test_researcher_gets_two_bindings_one_of_them_in_its_namespace() -> None:
    assert summary("researcher=oidc:team:rai") == [
        ("RoleBinding", "rai", "kubectl-runs-researcher", "oidc:team"),
        ("ClusterRoleBinding", "", "kubectl-runs-researcher-cluster", "oidc:team"),
    ]


@pytest.mark.parametrize("role", ["operator", "auditor"])
def test_operator_and_auditor_are_groups_with_any_name(role: str) -> None:
    assert summary(f"{role}=oidc:ops") == [("ClusterRoleBinding", "", f"kubectl-runs-{role}", "oidc:ops")]


def test_daemon_is_a_service_account_with_a_namespace_for_its_election() -> None:
    assert summary("daemon=gpu-system:bot") == [
        ("ClusterRoleBinding", "", "kubectl-runs-daemon", "bot"),
        ("RoleBinding", "gpu-system", "kubectl-runs-daemon-election", "bot"),
    ]
    assert {"Namespace"} == {each["kind"] for each in bindings_of("daemon=gpu-system:bot")} - {
        "ClusterRoleBinding",
        "RoleBinding",
    }


def test_daemon_without_namespace_is_a_group() -> None:
    assert summary("daemon=daemons") == [("ClusterRoleBinding", "", "kubectl-runs-daemon", "daemons")]


@pytest.mark.parametrize(
    "words", ["", "operator", "operator=", "king=me", "researcher=team", "researcher=:rai", "researcher=team:"]
)
def test_grant_that_means_nothing_is_refused(words: str) -> None:
    with pytest.raises(UsageError, match="--grant"):
        bindings_of(words)


def test_two_grants_of_one_role_make_one_binding_with_both_subjects() -> None:
    words = ("researcher=a:one", "researcher=b:two", "researcher=a:two")
    made = combined(binding for each in words for binding in bindings_of(each))
    assert [
        (each["metadata"].get("namespace", ""), [subject["name"] for subject in each["subjects"]]) for each in made
    ] == [
        ("one", ["a"]),
        ("", ["a", "b"]),
        ("two", ["b", "a"]),
    ]
