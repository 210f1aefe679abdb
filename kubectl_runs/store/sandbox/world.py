"""What a new sandbox holds: a fleet of your choice and the budgets of a small organisation.

Decides names and numbers, all derived from the fleet, so that the caps add up to the GPUs there are. Pure: the store
creates what stands here.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from kubectl_runs.store.protocol import Object
from kubectl_runs.wire.kinds import API_VERSION, BUDGET, GROUP, LEDGER, NAMESPACE, NODE, Kind
from kubectl_runs.wire.times import rfc3339
from planner.values import dataclass

BEGINNING = 1_767_600_000  # 2026-01-05T08:00:00Z, a Monday morning
FLEET = re.compile(r"([^/=\s]+)/([^/=\s]+)/([^/=\s]+)=(\d{1,4})x(\d{1,2})(?::([A-Za-z0-9][A-Za-z0-9._-]*))?")
NO_DIGEST = "sha256:" + "0" * 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Island:
    """Equal nodes on one fast fabric."""

    region: str
    cluster: str
    domain: str
    nodes: int
    gpus_per_node: int
    flavor: str = "H100"

    @property
    def gpus(self) -> int:
        return self.nodes * self.gpus_per_node


@dataclass(frozen=True, slots=True, kw_only=True)
class Team:
    """One owner: its namespace and budget, and its part of each flavor in ninths of the fleet."""

    name: str
    owner: str
    ninths: int
    lends_to: tuple[str, ...] = ()


# The parent keeps a reserve that its teams share; `mm` is no family of theirs, and lends half of what it has.
TEAMS = (
    Team(name="rai", owner="org:ai:rai", ninths=4),
    Team(name="nlp", owner="org:ai:nlp", ninths=2),
    Team(name="ai", owner="org:ai", ninths=1),
    Team(name="mm", owner="org:lab:mm", ninths=2, lends_to=("org:ai:*",)),
)
GPU_HOURS_EACH = 24 * 30  # a month of every GPU in the envelope


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A recipe: kept in the sandbox, so that `reset` can follow it again."""

    begins_at: int = BEGINNING
    islands: tuple[Island, ...] = ()
    teams: tuple[Team, ...] = TEAMS

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    def to_value(self) -> Object:
        """For `-o json`: what there is, in the words of the objects."""
        islands = [
            {
                "domain": f"{island.region}/{island.cluster}/{island.domain}",
                "nodes": island.nodes,
                "gpusPerNode": island.gpus_per_node,
                "flavor": island.flavor,
            }
            for island in self.islands
        ]
        teams = [{"namespace": team.name, "owner": team.owner, "gpus": self.gpus_of(team)} for team in self.teams]
        return {"now": rfc3339(self.begins_at), "islands": islands, "teams": teams}

    def gpus_of(self, team: Team) -> int:
        """What a team's envelopes allow at once, all flavors together."""
        return sum(self._share(team, gpus) for gpus in self.gpus.values())

    def _share(self, team: Team, gpus: int) -> int:
        """A team's part of a flavor; what whole numbers leave over is the first team's."""
        if team != self.teams[0]:
            return gpus * team.ninths // 9
        return gpus - sum(self._share(other, gpus) for other in self.teams[1:])

    @classmethod
    def from_json(cls, text: str) -> World:
        raw = json.loads(text)
        teams = tuple(Team(**{**team, "lends_to": tuple(team["lends_to"])}) for team in raw["teams"])
        islands = tuple(Island(**island) for island in raw["islands"])
        return cls(begins_at=raw["begins_at"], islands=islands, teams=teams)

    @property
    def namespace(self) -> str:
        """Where commands work without `-n`."""
        return self.teams[0].name if self.teams else "default"

    @property
    def gpus(self) -> Counter[str]:
        """GPUs by flavor."""
        total: Counter[str] = Counter()
        for island in self.islands:
            total[island.flavor] += island.gpus
        return total

    def objects(self) -> Iterator[tuple[Kind, Object]]:
        """Everything to create, in an order in which it can be."""
        yield NAMESPACE, {"metadata": {"name": "default"}}
        for team in self.teams:
            annotations = {f"{GROUP}/owner": team.owner}
            yield NAMESPACE, {"metadata": {"name": team.name, "annotations": annotations}}
        for node in self._nodes():
            yield NODE, node
        for team in self.teams:
            if budget := self._budget(team):
                yield BUDGET, budget
        spec = {"seq": 0, "digest": NO_DIGEST, "floor": 0}
        yield LEDGER, {"apiVersion": API_VERSION, "kind": "Ledger", "metadata": {"name": "base"}, "spec": spec}

    def _nodes(self) -> Iterator[Object]:
        named_alike = Counter(island.domain for island in self.islands)
        for island in self.islands:
            short = named_alike[island.domain] == 1
            prefix = island.domain if short else f"{island.region}-{island.cluster}-{island.domain}"
            digits = len(str(island.nodes))
            for number in range(1, island.nodes + 1):
                yield _node(island, f"{prefix}-n{number:0{digits}}")

    def _budget(self, team: Team) -> Object | None:
        shares = [(flavor, self._share(team, gpus)) for flavor, gpus in sorted(self.gpus.items())]
        envelopes = [_envelope(team, flavor, share) for flavor, share in shares if share]
        if not envelopes:
            return None
        spec = {"owner": team.owner, "envelopes": envelopes}
        return {"apiVersion": API_VERSION, "kind": "Budget", "metadata": {"name": team.name}, "spec": spec}


def _node(island: Island, name: str) -> Object:
    labels = {
        "kubernetes.io/hostname": name,
        "region": island.region,
        "cluster": island.cluster,
        "fabric.domain": island.domain,
        "gpu.flavor": island.flavor,
    }
    resources = {"nvidia.com/gpu": str(island.gpus_per_node), "cpu": "128", "memory": "1024Gi", "pods": "110"}
    status = {"capacity": resources, "allocatable": resources, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": status}


def _envelope(team: Team, flavor: str, concurrency: int) -> Object:
    name = re.sub(r"[^a-z0-9-]+", "-", flavor.lower()).strip("-")
    envelope: Object = {"name": name, "flavor": flavor, "concurrency": concurrency}
    envelope["maxGPUHours"] = concurrency * GPU_HOURS_EACH
    if team.lends_to:
        half = max(1, concurrency // 2)
        limits = {"maxConcurrency": half, "maxGPUHours": half * GPU_HOURS_EACH}
        envelope["lending"] = {"allow": True, "to": list(team.lends_to), **limits}
    return envelope


DEFAULT = World(
    islands=tuple(
        Island(region="us-west", cluster="a", domain=domain, nodes=9, gpus_per_node=8) for domain in ("d1", "d2")
    )
)


def nothing(begins_at: int) -> World:
    """Only what every cluster has: the namespace `default` and the ledger's base."""
    return World(begins_at=begins_at, teams=())


def fleet(words: Sequence[str]) -> tuple[Island, ...]:
    """Islands from `region/cluster/domain=NODESxGPUS[:FLAVOR]`; `ValueError` says what is wrong with a word."""
    islands = []
    for word in (part for text in words for part in text.split(",")):
        match = FLEET.fullmatch(word.strip())
        if match is None:
            raise ValueError(f"{word!r} is no island such as us-west/a/d1=9x8:H100")
        region, cluster, domain, nodes, gpus, flavor = match.groups()
        if not int(nodes) or not int(gpus):
            raise ValueError(f"{word!r} has no GPUs")
        islands.append(
            Island(
                region=region,
                cluster=cluster,
                domain=domain,
                nodes=int(nodes),
                gpus_per_node=int(gpus),
                flavor=flavor or "H100",
            )
        )
    places = Counter((island.region, island.cluster, island.domain) for island in islands)
    if twice := [place for place, count in places.items() if count > 1]:
        raise ValueError(f"{'/'.join(twice[0])} is named twice")
    return tuple(islands)
