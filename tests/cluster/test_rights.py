"""Who may do what on a real API server: every role of section 7 tries every action, as a dry run.

`may` names those who must succeed; everybody else must be refused, by RBAC or by the policy or rule whose words are
given.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from tests.cluster.rights import (
    ACTIONS,
    CLOSING,
    FLOOR,
    LEASES,
    USERS,
    Action,
    base,
    budget,
    entry,
    lease,
    pod,
    run,
    settled,
    stamp,
)
from tests.controlplane import fleet
from tests.controlplane.client import Refused, path_of, wait_for
from tests.controlplane.fixtures import make_island
from tests.controlplane.plane import ControlPlane

ROLES = "rbac.authorization.k8s.io/v1/clusterroles"
GRANTS = ("researcher=researchers:team-a", "researcher=rivals:team-b")


@pytest.fixture(scope="module")
def plane(fresh_control_plane: Callable[..., ControlPlane]) -> Iterator[ControlPlane]:
    """A ledger of its own: entries up to 4, base at 10, the floor at 3, open and closed leases."""
    with fresh_control_plane(kwok=False, controllers=True, install=False) as plane:
        fleet.add_namespace(plane, "team-a", owner="org:a")
        fleet.add_namespace(plane, "team-b", owner="org:b")
        fleet.install(plane, grants=GRANTS)
        furnish(plane)
        yield plane


def furnish(plane: ControlPlane) -> None:
    admin = plane.client()
    admin.create("budgets", budget(16))
    admin.create("nodes", fleet.node("n1"))
    admin.create("runs", run("train"), "team-a")
    admin.create("pods", pod("worker"), "team-a")
    for seq in (1, 2, 3, 4):
        admin.create("ledgerentries", entry("End", seq=seq))
    for name in ("l-1-0", "l-2-0", "l-40-0", "l-41-0"):
        admin.create("leases", lease(name), "team-a")
    for name in ("l-2-0", "l-41-0"):
        admin.patch("leases", name, CLOSING, "team-a", "status")
    admin.patch("ledgers", "base", base(seq=10, floor=FLOOR, floorAt=stamp(), settled=settled(8)))
    # Policies read their parameter from a cache, which follows the write by a moment.
    low = Action(name="write below the floor", method="POST", path=LEASES, body=lease(f"l-{FLOOR}-9"))
    wait_for("the policies to see the floor", lambda: "floor" in attempt(plane, "admin", low))


def attempt(plane: ControlPlane, user: str, action: Action) -> str:
    """Empty if it succeeds, else what the server said."""
    body = action.body() if callable(action.body) else action.body
    content = "application/merge-patch+json" if action.method == "PATCH" else "application/json"
    query = "" if action.method == "GET" else "?dryRun=All"
    try:
        plane.client(user).request(action.method, action.path + query, body, content)
    except Refused as refused:
        return str(refused)
    return ""


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.name.replace(" ", "-"))
def test_rights_of_every_role(plane: ControlPlane, action: Action) -> None:
    answers = {user: attempt(plane, user, action) for user in USERS}
    allowed = [user for user in USERS if not answers[user]]
    assert allowed == [user for user in USERS if user in action.may.split()], answers
    refusals = {user: answer for user, answer in answers.items() if answer}
    assert all(answer.startswith(("403", "422", "409", "400")) for answer in refusals.values()), refusals
    # RBAC alone does not show that the policy or rule works: somebody with the right must have heard its words.
    assert action.words in " ".join(refusals.values()), refusals


def test_matrix_of_rights_has_thirty_different_actions() -> None:
    assert len({action.name for action in ACTIONS}) == len(ACTIONS) >= 30


def test_open_leases_go_with_their_namespace(plane: ControlPlane) -> None:
    admin = plane.client()
    fleet.add_namespace(plane, "leaving", owner="org:a")
    admin.create("leases", lease("l-60-0"), "leaving")
    with pytest.raises(Refused, match="cannot be deleted"):
        admin.delete("leases", "l-60-0", "leaving")
    admin.delete("namespaces", "leaving")
    wait_for("the namespace to be gone", lambda: admin.find("namespaces", "leaving") is None)


def test_entry_appended_within_two_minutes_of_its_read_is_accepted(plane: ControlPlane) -> None:
    made = plane.client("researcher").create("ledgerentries", entry("End", seq=5, read_at=stamp(100)))
    assert made["spec"]["seq"] == 5


def test_researcher_who_may_not_list_all_pods_plans_and_is_told(
    fresh_control_plane: Callable[..., ControlPlane],
) -> None:
    """Section 7: planning then goes by leases and entries alone, says so, and calls no plan exact."""
    with fresh_control_plane() as plane:
        island = make_island(plane)
        island.add_nodes(1)
        island.add_budget(concurrency=8)
        manifest = json.dumps(island.run("train", 8, duration="1h"))
        before = island.cli("plan", "-f", "-", "-o", "json", stdin=manifest).ok()
        role = plane.client().get(ROLES, "kubectl-runs-researcher-cluster")
        rules = [rule for rule in role["rules"] if rule["resources"] != ["pods"]]
        assert len(rules) == len(role["rules"]) - 1
        plane.client().replace(ROLES, {**role, "rules": rules})
        hidden = Action(name="list all pods", method="GET", path=path_of("pods"))
        wait_for("the right to be gone", lambda: attempt(plane, "researcher", hidden))
        after = island.cli("plan", "-f", "-", "-o", "json", stdin=manifest).ok()
        assert "foreign pods not visible" not in before.stderr
        assert "foreign pods not visible" in after.stderr
        assert [json.loads(each.stdout)["decision"] for each in (before, after)] == ["start", "start"]
        submitted = island.cli("submit", "-f", "-", stdin=manifest).ok()
        assert "foreign pods not visible" in submitted.stderr
        assert sum(lease["spec"]["slice"]["gpus"] for lease in island.leases(open_only=True)) == 8
