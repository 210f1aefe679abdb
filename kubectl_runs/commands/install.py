"""`install`: puts CRDs, admission policies, roles and the ledger's base into a cluster.

Safe to repeat and to run again after an upgrade: what is as it should be stays untouched, and `base` is created once
and never reset.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kubectl_runs.errors import RunsError, TimedOut, UsageError
from kubectl_runs.flags import with_session

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubectl_runs.apply import Outcome
    from kubectl_runs.session import Session
    from kubectl_runs.store.protocol import Create, Object, Store
    from kubectl_runs.wire.kinds import Kind

PATIENCE_SECONDS = 60
STEP_SECONDS = 0.25
GRANTS = "researcher=GROUP:NAMESPACE | operator=GROUP | auditor=GROUP | daemon=NAMESPACE:SERVICEACCOUNT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """Label keys and the resource's name by which all clients see the same domains (P1); None: as it is."""

    region: str | None = None
    cluster: str | None = None
    fabricDomain: str | None = None  # noqa: N815 - spelled as on the wire
    rack: str | None = None
    flavor: str | None = None
    resource: str | None = None

    def given(self) -> dict[str, str]:
        return {key: word for key, word in asdict(self).items() if word is not None}


DEFAULT_TOPOLOGY = Topology(
    region="region",
    cluster="cluster",
    fabricDomain="fabric.domain",
    rack="rack",
    flavor="gpu.flavor",
    resource="nvidia.com/gpu",
)


def _label(flag: str, meaning: str = "") -> Any:
    """The flag that says under which label nodes state something."""
    return typer.Option(f"--{flag}-label", metavar="KEY", help=f"Label of nodes with the {meaning or flag}")


@with_session
def command(
    session: Session,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would change, and change nothing")] = False,
    grant: Annotated[
        list[str] | None, typer.Option("--grant", metavar="ROLE=WHOM", help=f"Write bindings: {GRANTS}")
    ] = None,
    region: Annotated[str | None, _label("region")] = None,
    cluster: Annotated[str | None, _label("cluster")] = None,
    fabric: Annotated[str | None, _label("fabric", "fabric domain")] = None,
    rack: Annotated[str | None, _label("rack")] = None,
    flavor: Annotated[str | None, _label("flavor", "GPU flavor")] = None,
    resource: Annotated[
        str | None, typer.Option("--gpu-resource", metavar="NAME", help="Resource of nodes that counts GPUs")
    ] = None,
) -> None:
    """Apply CRDs, admission policies and roles, and create the ledger.

    Safe to repeat: what is as it should be stays untouched, and the ledger is never reset.

    Examples:
      kubectl runs install --dry-run
      kubectl runs install
      kubectl runs install --grant researcher=rai-team:rai --grant operator=gpu-ops
      kubectl runs install --grant daemon=kubectl-runs:daemon --fabric-label topology.example.com/island
    """
    from kubectl_runs.render.install import lines

    bindings = [binding for words in grant or () for binding in bindings_of(words)]
    topology = Topology(
        region=region, cluster=cluster, fabricDomain=fabric, rack=rack, flavor=flavor, resource=resource
    )
    if session.is_file:
        raise UsageError("install changes a cluster and takes no --from")
    if bindings and session.sandbox_file is not None:
        raise UsageError("--grant needs a cluster: everybody may do everything in a sandbox")
    outcomes = install(
        session.store, bindings=bindings, topology=topology, dry_run=dry_run, sandbox=session.sandbox_file is not None
    )
    if session.format == "name":
        session.out(lines(outcomes, names_only=True))
    elif not session.data(outcomes_json(outcomes, dry_run=dry_run)):
        session.out(lines(outcomes, dry_run=dry_run))


def install(
    store: Store, *, bindings: list[Object], topology: Topology, dry_run: bool = False, sandbox: bool = False
) -> list[Outcome]:
    """Everything in the order in which it depends on each other. A sandbox has its kinds built in, and no rights."""
    if sandbox:
        return [_ledger(store, topology, dry_run)]
    from kubectl_runs.apply import Result, apply_all, combined
    from kubectl_runs.store.protocol import Forbidden, NotFound
    from kubectl_runs.wire.crds import definitions
    from kubectl_runs.wire.policies import policies
    from kubectl_runs.wire.roles import roles

    try:
        crds = apply_all(store, definitions(), dry_run=dry_run)
        if not dry_run:
            _wait_until_served(store, crds)
        rights = apply_all(store, [*policies(), *roles()], dry_run=dry_run)
        granted = apply_all(store, combined(bindings), dry_run=dry_run)
        ledger = _ledger(store, topology, dry_run)
        if not dry_run and any(outcome.result is not Result.UNCHANGED for outcome in (*crds, *rights, ledger)):
            _wait_until_in_force(store)
    except Forbidden as error:
        raise RunsError(
            f"install needs the rights of a cluster administrator: {error.message}",
            hint="kubectl auth can-i create customresourcedefinitions",
        ) from error
    except NotFound as error:
        missing = str(error.details.get("name", "")) or "NAMESPACE"
        raise RunsError(error.message, hint=f"kubectl create namespace {missing}") from error
    return [*crds, *rights, *granted, ledger]


def bindings_of(words: str) -> list[Object]:
    """The bindings that one `--grant` asks for, and the namespace of a daemon."""
    from kubectl_runs.wire import roles

    role, separator, whom = words.partition("=")
    if not separator or not whom:
        raise UsageError(f"--grant {words}: not of the form {GRANTS}")
    first, colon, last = whom.rpartition(":")
    if role == "researcher":
        if not (colon and first and last):
            raise UsageError(f"--grant {words}: a researcher works in a namespace: researcher=GROUP:NAMESPACE")
        group = roles.group(first)
        return [roles.binding(roles.RESEARCHER, group, last), roles.binding(roles.RESEARCHER_CLUSTER, group)]
    if role == "daemon":
        subject = roles.service_account(first, last) if colon else roles.group(whom)
        home = [_namespace(first), roles.binding(roles.DAEMON_ELECTION, subject, first)] if colon else []
        return [roles.binding(roles.DAEMON, subject), *home]
    known = {"operator": roles.OPERATOR, "auditor": roles.AUDITOR}
    if role not in known:
        raise UsageError(f"--grant {words}: unknown role {role}, allowed are researcher, operator, auditor and daemon")
    return [roles.binding(known[role], roles.group(whom))]


def _namespace(name: str) -> Object:
    """The daemon's own namespace is made where it is missing: nobody else has work there."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def _ledger(store: Store, topology: Topology, dry_run: bool) -> Outcome:
    """The one Ledger: created once at number 0; later only a topology that was asked for changes it."""
    from kubectl_runs.apply import Outcome, Result
    from kubectl_runs.store.protocol import Create, Get, NotFound, Patch
    from kubectl_runs.wire.kinds import LEDGER

    try:
        live = store.perform(Get(kind=LEDGER, name="base")).object
    except NotFound:
        if not dry_run:
            first = _first_base(topology, store.now())
            _until("base to be created", store, lambda: _created(store, Create(kind=LEDGER, object=first)))
        return Outcome(kind=LEDGER, name="base", result=Result.CREATED)
    has = live["spec"].get("topology") or {}
    wants = {**has, **topology.given()}
    if wants == has:
        return Outcome(kind=LEDGER, name="base", result=Result.UNCHANGED)
    store.perform(Patch(kind=LEDGER, name="base", patch={"spec": {"topology": wants}}, dry_run=dry_run))
    return Outcome(kind=LEDGER, name="base", result=Result.CONFIGURED)


def _first_base(topology: Topology, now: int) -> Object:
    from kubectl_runs.wire.kinds import API_VERSION
    from kubectl_runs.wire.times import rfc3339
    from planner.model import NO_DIGEST

    labels = {**DEFAULT_TOPOLOGY.given(), **topology.given()}
    spec = {"seq": 0, "digest": NO_DIGEST, "time": rfc3339(now), "floor": 0, "topology": labels}
    return {"apiVersion": API_VERSION, "kind": "Ledger", "metadata": {"name": "base"}, "spec": spec}


def _created(store: Store, request: Create) -> bool:
    """Whether the server knows the kind by now: a definition is Established a moment before it is served."""
    from kubectl_runs.store.protocol import AlreadyExists, NotFound

    try:
        store.perform(request)
    except NotFound:
        return False
    except AlreadyExists:
        pass  # two installs at once: the other one's base counts
    return True


def _wait_until_served(store: Store, crds: list[Outcome]) -> None:
    from kubectl_runs.apply import Result
    from kubectl_runs.wire.kinds import OURS

    for crd in crds:
        _until(f"{crd.name} to be established", store, partial(_established, store, crd))
    new = {crd.name.partition(".")[0] for crd in crds if crd.result is Result.CREATED}
    for kind in (kind for kind in OURS if kind.plural in new):
        _until(f"{kind.plural} to be served", store, partial(_listable, store, kind))


def _established(store: Store, crd: Outcome) -> bool:
    from kubectl_runs.store.protocol import Get

    definition = store.perform(Get(kind=crd.kind, name=crd.name)).object
    conditions = definition.get("status", {}).get("conditions") or []  # null until the server has looked
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


def _listable(store: Store, kind: Kind) -> bool:
    """A new kind is Established a moment before it is found and its storage is ready (404, 429)."""
    from kubectl_runs.store.protocol import List, NotFound, TooMany

    try:
        store.perform(List(kind=kind))
    except (NotFound, TooMany):
        return False
    return True


def _wait_until_in_force(store: Store) -> None:
    """Policies take a moment to act: try an entry that they must refuse, as a dry run."""
    from kubectl_runs.wire.policies import APPEND

    _until("the admission policies to act", store, lambda: APPEND.name in _refusal(store))


def _refusal(store: Store) -> str:
    from kubectl_runs.store.protocol import Create, StoreError
    from kubectl_runs.wire.kinds import API_VERSION, LEDGER_ENTRY
    from planner.model import NO_DIGEST

    run = {"namespace": "default", "name": "none", "uid": "none", "attempt": 1}
    spec = {"seq": 1, "prev": NO_DIGEST, "nonce": "0" * 32, "readAt": "2000-01-01T00:00:00Z", "kind": "End", "run": run}
    stale = {"apiVersion": API_VERSION, "kind": "LedgerEntry", "metadata": {"name": f"{1:012d}"}, "spec": spec}
    try:
        store.perform(Create(kind=LEDGER_ENTRY, object=stale, dry_run=True))
    except StoreError as error:
        return error.message
    return ""


def _until(what: str, store: Store, done: Callable[[], bool]) -> None:
    for _ in range(int(PATIENCE_SECONDS / STEP_SECONDS)):
        if done():
            return
        store.sleep(STEP_SECONDS)
    raise TimedOut(f"waited {PATIENCE_SECONDS} s for {what}", hint="kubectl runs install")


def outcomes_json(outcomes: list[Outcome], *, dry_run: bool) -> Object:
    """The answer of `-o json`."""
    return {
        "dryRun": dry_run,
        "objects": [
            {"kind": each.kind.name, "name": each.name}
            | ({"namespace": each.namespace} if each.namespace else {})
            | {"result": each.result.value}
            for each in outcomes
        ],
    }
