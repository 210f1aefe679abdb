"""What the sandbox says of itself. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kubectl_runs.text import plural, span, table
from kubectl_runs.wire.times import rfc3339

if TYPE_CHECKING:
    from kubectl_runs.store.sandbox.world import World


def made(path: str, recipe: World) -> str:
    """A new sandbox: the fleet, who holds how much of it, and what time it is there."""
    lines = [f"sandbox {path} is ready: {_gpus(recipe)}, it is {rfc3339(recipe.begins_at)}", ""]
    islands = [("DOMAIN", "NODES", "GPUS", "FLAVOR")]
    islands += [
        (f"{island.region}/{island.cluster}/{island.domain}", str(island.nodes), str(island.gpus), island.flavor)
        for island in recipe.islands
    ]
    teams = [("NAMESPACE", "OWNER", "GPUS", "LENDS TO")]
    teams += [
        (team.name, team.owner, str(recipe.gpus_of(team)), ", ".join(team.lends_to) or "-") for team in recipe.teams
    ]
    return "\n".join(lines) + "\n" + table(islands, right=(1, 2)) + "\n" + table(teams, right=(2,))


def advanced(now: int, seconds: int, happened: Mapping[str, int]) -> str:
    """The time it is now, and what became of pods on the way."""
    told = [f"{plural(count, 'pod')} {word}" for word, count in sorted(happened.items()) if count]
    return f"it is {rfc3339(now)}, {span(seconds)} later: {', '.join(told) or 'no pod ended'}"


def node_failed(node: str, how: str, pods: int) -> str:
    """What is to be seen of the node, and how many pods were on it."""
    state = {"out-of-service": "is out of service", "removed": "is gone", "not-ready": "is not ready"}[how]
    return f"node {node} {state}, with {plural(pods, 'live pod')} on it"


def completed(namespace: str, run: str, phase: str, pods: int) -> str:
    """How many pods of the run have ended, and how."""
    if not pods:
        return f"run {namespace}/{run} has no running pod"
    return f"run {namespace}/{run}: {plural(pods, 'pod')} {phase.lower()}"


def _gpus(recipe: World) -> str:
    return ", ".join(f"{count} {flavor}" for flavor, count in sorted(recipe.gpus.items()))
