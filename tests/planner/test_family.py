"""The organisation tree: who is family, who is a cousin, and whom a lender admits (C3, C4, C5)."""

from __future__ import annotations

import pytest

from planner.family import Tree, glob_matches, path_parent
from planner.model import Budget


def tree(*rows: str) -> Tree:
    """Budgets from `name owner parent,parent`."""
    budgets = []
    for row in rows:
        name, owner, *parents = row.split()
        budgets.append(Budget(name=name, owner=owner, parents=tuple(parents[0].split(",")) if parents else None))
    return Tree(budgets)


def test_parents_by_path_is_the_owner_without_its_last_part() -> None:
    assert [path_parent(owner) for owner in ("org:ai:rai", "org:ai", "org")] == [("org:ai",), ("org",), ()]


def test_parents_of_an_owner_without_a_budget_come_from_its_path() -> None:
    assert tree("a org:x").parents("org:ai:rai") == ("org:ai",)


def test_parents_named_by_a_budget_replace_the_path() -> None:
    assert tree("a org:ai:rai org:pool,org:two").parents("org:ai:rai") == ("org:pool", "org:two")


def test_parents_of_an_owner_with_two_budgets_are_all_of_theirs() -> None:
    assert tree("a org:ai:rai org:pool", "b org:ai:rai").parents("org:ai:rai") == ("org:ai", "org:pool")


def test_siblings_share_a_parent_in_order_of_name() -> None:
    org = tree("z org:ai:zoo", "n org:ai:nlp", "x org:lab:x", "q org:far:q org:ai", "p org:ai")
    assert org.siblings("org:ai:rai") == ("org:ai:nlp", "org:ai:zoo", "org:far:q")


def test_siblings_of_a_root_are_nobody() -> None:
    assert tree("a org", "b other").siblings("org") == ()


def test_cousins_are_children_of_the_parents_siblings() -> None:
    org = tree("mm org:lab:mm", "lab org:lab", "n org:ai:nlp", "deep org:lab:mm:x", "far other:lab:y")
    assert org.cousins("org:ai:rai") == ("org:lab:mm",)


def test_cousins_need_no_budget_of_their_parent() -> None:
    assert tree("mm org:lab:mm", "f org:bio:fold").cousins("org:ai:rai") == ("org:bio:fold", "org:lab:mm")


def test_cousins_follow_named_parents_too() -> None:
    org = tree("r org:ai:rai org:pool", "aunt x:aunt org", "c y:child x:aunt", "n org:ai:nlp")
    assert org.cousins("org:ai:rai") == ("org:ai:nlp", "y:child")


def test_cousins_leave_out_the_family() -> None:
    org = tree("s org:ai:nlp org:ai,org:lab", "mm org:lab:mm")
    assert org.cousins("org:ai:rai") == ("org:lab:mm",)


@pytest.mark.parametrize(
    ("glob", "owner", "match"),
    [
        ("org:ai:*", "org:ai:rai", True),
        ("org:ai:*", "org:ai:rai:sys", True),
        ("org:ai:*", "org:ai", False),
        ("*", "anything:at:all", True),
        ("org:*:sys", "org:ai:rai:sys", True),
        ("org.ai", "org:ai", False),
        ("org:[a]i", "org:ai", False),
        ("org:ai", "org:ai:rai", False),
        ("org:a?", "org:ai", False),
    ],
)
def test_glob_star_crosses_colons_and_the_rest_is_literal(glob: str, owner: str, match: bool) -> None:
    assert glob_matches(glob, owner) is match
