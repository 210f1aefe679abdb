"""Several clients, the real protocol, one store in memory, and a seeded scheduler that lets everything go wrong.

Any reply may be lost, any request may arrive late, twice or never, any client may die between two requests, and time
passes as it likes. After each write the audit of section 6 is asked, and what was acknowledged is looked up in the
ledger. Everything follows from the seed: a failing one replays.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kubectl_runs.commit.change import cancel, shrink
from kubectl_runs.commit.start import Begun
from kubectl_runs.commit.steps import Batch, Means, Outcome, Steps, Wait, drive
from kubectl_runs.commit.submit import Submitted, submit
from kubectl_runs.commit.sweep import sweep
from kubectl_runs.errors import RunsError
from kubectl_runs.evidence import evidence, read_everything
from kubectl_runs.read import read
from kubectl_runs.store.protocol import (
    Create,
    Get,
    List,
    MayI,
    Object,
    Request,
    StoreError,
    Unavailable,
    Unknown,
)
from kubectl_runs.store.sandbox import SandboxStore
from kubectl_runs.wire.kinds import API_VERSION, BUDGET, LEDGER_ENTRY, NAMESPACE, NODE, POD, RESERVATION, RUN
from planner.audit import Severity, audit

NAMESPACE_NAME = "team"
OWNER = "org:team"
FLAVOR = "H100"
READS = (Get, List, MayI)
STEPS_MAX = 6000

Command = Callable[[Means], Steps[object]]


Scene = Callable[[int], tuple[list[list[Command]], list[Object]]]


class Broken(AssertionError):
    """Something that must hold did not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """How often a write goes wrong, in each of the ways it can, and how often a client dies at a step."""

    lost_reply: float = 0.02
    lost_request: float = 0.02
    late: float = 0.02
    twice: float = 0.01
    crash: float = 0.01
    read_fails: float = 0.002


NO_FAULTS = Faults(lost_reply=0, lost_request=0, late=0, twice=0, crash=0, read_fails=0)


@dataclass(slots=True)
class Client:
    """One user at one terminal: a script of commands, one after another."""

    name: str
    script: list[Command]
    means: Means
    running: Steps[object] | None = None
    asked: list[tuple[int, Request]] = field(default_factory=list)  # what is left of the batch
    outcomes: list[Outcome | None] = field(default_factory=list)
    wakes_at: float = 0.0

    @property
    def idle(self) -> bool:
        return self.running is None and not self.script


class Simulation:
    """One seed's world. `run` carries it to its end, `settle` heals it, `check` asks the audit."""

    def __init__(self, seed: int, scripts: Iterable[list[Command]], objects: Iterable[Object], faults: Faults) -> None:
        self.random = random.Random(seed)
        self.faults = faults
        self.store = SandboxStore.empty(":memory:")
        for obj in objects:
            self.store.perform(Create(kind=_KINDS[obj["kind"]], object=obj))
        self.clients = [Client(name=f"c{i}", script=list(s), means=self._means()) for i, s in enumerate(scripts)]
        self.late: list[tuple[int, Request]] = []
        self.steps = 0
        self.history: list[str] = []

    def _means(self) -> Means:
        return Means(nonce=lambda: f"{self.random.getrandbits(128):032x}", jitter=self.random.random)

    def run(self) -> None:
        """Until every script is through. Bounded: a protocol that never ends is broken too."""
        while not all(client.idle for client in self.clients):
            self.steps += 1
            if self.steps > STEPS_MAX:
                raise Broken(f"not done after {STEPS_MAX} steps")
            self._arrivals()
            if self.random.random() < 0.01:
                self.store.advance(self.random.choice((1, 5, 40)))
            self._turn(self.random.choice([client for client in self.clients if not client.idle]))

    def settle(self) -> None:
        """Whatever was late arrives; then somebody with all rights settles twice, undisturbed."""
        for _, request in self.late:
            self._apply(request)
        self.late.clear()
        for seconds in (40, 40, 1000):
            self.store.advance(seconds)
            reading = drive(read(), self.store)
            drive(sweep(reading, self._means()), self.store)
        self.check("settled")
        self._check_rest()

    def check(self, when: str) -> None:
        objects = read_everything(self.store)
        snapshot, proof = evidence(objects)
        found = [each for each in audit(snapshot, self.store.now(), proof) if each.severity is Severity.ERROR]
        if found:
            raise Broken(f"step {self.steps}, {when}: " + "; ".join(f"{each.object}: {each.message}" for each in found))

    def _check_rest(self) -> None:
        """At rest nothing is left over: no prepared pod, no half-bound gang, no run that nobody will look at."""
        for pod in self.store.perform(List(kind=POD)).items:
            if not pod["spec"].get("nodeName"):
                raise Broken(f"pod {pod['metadata']['name']} was prepared and forgotten")
        promised = {made["metadata"]["name"] for made in self.store.perform(List(kind=RESERVATION)).items}
        for run in self.store.perform(List(kind=RUN)).items:
            name, status = run["metadata"]["name"], run.get("status") or {}
            if status.get("leases", {}).get("open") and status["phase"] == "Pending":
                raise Broken(f"run {name} holds leases and does not run")
            if status.get("pendingReservation") and name not in promised:
                raise Broken(f"run {name} waits for a reservation that is not there")

    # One step

    def _turn(self, client: Client) -> None:
        if client.running is not None and self.random.random() < self.faults.crash:
            return self._crash(client)
        if client.running is None:
            command = client.script.pop(0)
            client.running = command(client.means)
            return self._go_on(client, None)
        if client.wakes_at:
            self.store.advance(max(0.0, client.wakes_at - self.store.now()))
            client.wakes_at = 0.0
            return self._go_on(client, ())
        return self._carry_out(client)

    def _carry_out(self, client: Client) -> None:
        """One request of the batch, in any order; the client hears when all are answered."""
        position, request = client.asked.pop(self.random.randrange(len(client.asked)))
        client.outcomes[position] = self._answer(client, request)
        if not client.asked:
            outcomes = tuple(outcome for outcome in client.outcomes if outcome is not None)
            self._go_on(client, outcomes)

    def _answer(self, client: Client, request: Request) -> Outcome:
        chance = self.random.random()
        faults = self.faults
        if isinstance(request, READS):
            return Unavailable("no answer") if chance < faults.read_fails else self._apply(request)
        if chance < faults.lost_reply:
            self._apply(request)
            return Unknown("lost reply")
        if (chance := chance - faults.lost_reply) < faults.lost_request:
            return Unknown("lost request")
        if (chance := chance - faults.lost_request) < faults.late:
            self.late.append((self.steps + self.random.randrange(1, 60), request))
            return Unknown("late request")
        outcome = self._apply(request)
        if chance - faults.late < faults.twice:
            self.late.append((self.steps + self.random.randrange(1, 60), request))
        self.history.append(f"{self.steps} {client.name} {_words(request)} -> {_outcome(outcome)}")
        return outcome

    def _apply(self, request: Request) -> Outcome:
        try:
            reply = self.store.perform(request)
        except StoreError as error:
            return error
        if not isinstance(request, READS):
            self.check(_words(request))
        return reply

    def _arrivals(self) -> None:
        due = [request for step, request in self.late if step <= self.steps]
        self.late = [(step, request) for step, request in self.late if step > self.steps]
        for request in due:
            outcome = self._apply(request)
            self.history.append(f"{self.steps} late {_words(request)} -> {_outcome(outcome)}")

    def _go_on(self, client: Client, outcomes: tuple[Outcome, ...] | None) -> None:
        assert client.running is not None
        try:
            asked = next(client.running) if outcomes is None else client.running.send(outcomes)
        except StopIteration as ended:
            client.running = None
            return self._acknowledged(client, ended.value)
        except (RunsError, StoreError) as error:
            client.running = None
            self.history.append(f"{self.steps} {client.name} ends: {error}")
            return None
        return self._ask(client, asked)

    def _ask(self, client: Client, asked: Batch | Wait) -> None:
        if isinstance(asked, Wait):
            client.wakes_at = self.store.now() + max(asked.seconds, 0.001)
            return
        client.asked = list(enumerate(asked))
        client.outcomes = [None] * len(asked)
        if not asked:
            self._go_on(client, ())

    def _acknowledged(self, client: Client, value: object) -> None:
        """Acknowledged means in the ledger: the entry that a command reports is there, with its nonce."""
        begun = value.begun if isinstance(value, Submitted) else value
        if isinstance(begun, Begun) and begun.entry is not None:
            name = f"{begun.entry.seq:012d}"
            found = self.store.perform(Get(kind=LEDGER_ENTRY, name=name)).object
            mine = begun.run["metadata"]["uid"] == found["spec"]["run"]["uid"]
            if found["spec"]["nonce"] != begun.entry.nonce or not mine:
                raise Broken(f"{client.name} was told that entry {name} is its own, and it is not")

    def _crash(self, client: Client) -> None:
        """It dies. Of what it had just sent, anything may have arrived, or arrive later."""
        self.history.append(f"{self.steps} {client.name} dies")
        assert client.running is not None
        client.running.close()
        client.running = None
        client.wakes_at = 0.0
        for _, request in client.asked:
            if not isinstance(request, READS):
                fate = self.random.randrange(3)
                if fate == 0:
                    self._apply(request)
                elif fate == 1:
                    self.late.append((self.steps + self.random.randrange(1, 60), request))
        client.asked = []


_KINDS = {kind.name: kind for kind in (BUDGET, NAMESPACE, NODE, POD)}


def _words(request: Request) -> str:
    name = getattr(request, "name", "") or getattr(request, "pod", "")
    if not name and isinstance(request, Create):
        name = request.object["metadata"].get("name", "")
    kind = getattr(request, "kind", None)
    return f"{type(request).__name__} {kind.name if kind else ''} {name}"


def _outcome(outcome: Outcome) -> str:
    return type(outcome).__name__


# Worlds and scripts


def world(*, nodes: int = 2, gpus: int = 4, concurrency: int = 6, cap: int | None = None) -> list[Object]:
    """A team with a few nodes and a budget that holds less than the fleet; two envelopes under a cap, if one is set."""
    objects: list[Object] = [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": NAMESPACE_NAME, "annotations": {"rq.davidlangworthy.io/owner": OWNER}},
        }
    ]
    objects += [_node(f"n{index}", gpus) for index in range(nodes)]
    envelopes = [{"name": "main", "flavor": FLAVOR, "concurrency": concurrency}]
    spec: Object = {"owner": OWNER, "envelopes": envelopes}
    if cap is not None:
        envelopes.append({"name": "more", "flavor": FLAVOR, "concurrency": concurrency})
        names = [envelope["name"] for envelope in envelopes]
        spec["aggregateCaps"] = [{"name": "all", "flavor": FLAVOR, "envelopes": names, "maxConcurrency": cap}]
    objects.append({"apiVersion": API_VERSION, "kind": "Budget", "metadata": {"name": "team"}, "spec": spec})
    return objects


def _node(name: str, gpus: int) -> Object:
    labels = {"region": "r", "cluster": "c", "fabric.domain": "d", "gpu.flavor": FLAVOR}
    resources = {"nvidia.com/gpu": str(gpus), "cpu": "64", "memory": "256Gi", "pods": "64"}
    ready = [{"type": "Ready", "status": "True"}]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": resources, "conditions": ready},
    }


def manifest(name: str, gpus: int, *, after: str = "", phase: str = "Succeeded", **spec: object) -> Object:
    annotations = {"sim.rq.davidlangworthy.io/after": after, "sim.rq.davidlangworthy.io/phase": phase} if after else {}
    template = {
        "metadata": {"annotations": annotations},
        "spec": {"terminationGracePeriodSeconds": 5, "containers": [{"name": "main", "image": "x"}]},
    }
    return {
        "apiVersion": API_VERSION,
        "kind": "Run",
        "metadata": {"name": name, "namespace": NAMESPACE_NAME},
        "spec": {"resources": {"gpuType": FLAVOR, "totalGPUs": gpus}, "template": template, **spec},
    }


def submits(*args: object, **spec: object) -> Command:
    return lambda means: submit(manifest(*args, **spec), means)  # type: ignore[arg-type]


def cancels(name: str) -> Command:
    return lambda means: cancel(f"{NAMESPACE_NAME}/{name}", means, wait=False)


def shrinks(name: str, to: int) -> Command:
    return lambda means: shrink(f"{NAMESPACE_NAME}/{name}", to, means, wait=False)


def settles() -> Command:
    def steps(means: Means) -> Steps[object]:
        reading = yield from read()
        return (yield from sweep(reading, means))

    return steps


MALLEABLE = {"minTotalGPUs": 1, "maxTotalGPUs": 4, "stepGPUs": 1}


def scenario(seed: int) -> tuple[list[list[Command]], list[Object]]:
    """Clients that want the same things at the same time; which, follows from the seed."""
    choice = random.Random(seed * 7919 + 1)
    objects = world(nodes=choice.choice((2, 3)), concurrency=choice.choice((4, 6)), cap=choice.choice((None, 5)))
    wanted: list[Command] = [
        submits("a", choice.choice((2, 4)), after=choice.choice(("", "20s"))),
        submits("b", choice.choice((1, 3)), after="30s", phase=choice.choice(("Succeeded", "Failed"))),
        submits("c", 4, malleable=MALLEABLE),
        submits("d", 2, duration="1m", after="10s"),
        submits("e", 2, after="10s", phase="Failed", runtime={"maxRetries": 1}),
    ]
    others: list[Command] = [cancels("a"), cancels("c"), shrinks("c", 2), settles(), settles(), cancels("d")]
    scripts = []
    for _ in range(choice.choice((2, 3))):
        script = [choice.choice(wanted), choice.choice(wanted + others), choice.choice(others), settles()]
        scripts.append(script)
    return scripts, objects


def crowd(seed: int) -> tuple[list[list[Command]], list[Object]]:
    """Many submits at once, each with room for it on a node of its own, and a budget that only some fit."""
    choice = random.Random(seed)
    scripts = [[submits(f"r{index}", choice.choice((2, 3, 4)), after="20s"), settles()] for index in range(4)]
    return scripts, world(nodes=4, concurrency=5, cap=choice.choice((None, 5)))


def changed_minds(seed: int) -> tuple[list[list[Command]], list[Object]]:
    """A run that is submitted, cancelled and settled at the same time, by different people."""
    choice = random.Random(seed)
    scripts = [[submits("a", choice.choice((3, 4)))], [cancels("a")] * 3, [settles(), cancels("a"), settles()]]
    return scripts, world()


def simulate(seed: int, faults: Faults | None = None, scene: Scene = scenario) -> Simulation:
    """One seed to its end."""
    scripts, objects = scene(seed)
    simulation = Simulation(seed, scripts, objects, faults or Faults())
    simulation.run()
    simulation.faults = NO_FAULTS
    simulation.settle()
    return simulation
