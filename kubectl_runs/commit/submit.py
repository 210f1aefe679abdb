"""Submit: a run that is new starts or waits; one that is known is told how it stands. Idempotent (6.7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kubectl_runs.commit.claims import check_claims
from kubectl_runs.commit.life import Life, Stage, life
from kubectl_runs.commit.over import over
from kubectl_runs.commit.prepare import ranks
from kubectl_runs.commit.record import plan_digest
from kubectl_runs.commit.start import Begun, begin, moved, planned
from kubectl_runs.commit.steps import Means, Steps, Wait, all_of
from kubectl_runs.errors import RunsError
from kubectl_runs.read import Reading, read
from kubectl_runs.store.protocol import Create, Object, StoreError
from kubectl_runs.wire import decode
from kubectl_runs.wire.kinds import POD, RUN
from kubectl_runs.wire.pods import pod_object
from planner.digest import digest
from planner.model import Decision, Entry, Funding, Run, Verdict
from planner.values import dataclass

POLL_SECONDS_FIRST, POLL_SECONDS_MAX = 0.2, 5.0
NO_UID = "00000000-0000-0000-0000-000000000000"


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """What came of it. `decision` is None where the run was known and nothing was decided."""

    run: Object
    life: Life
    reading: Reading
    decision: Decision | None = None
    begun: Begun | None = None
    unfinished: tuple[Entry, ...] = ()  # of a run that was known: what this command had no means to finish either


def submit(manifest: Object, means: Means, *, check_plan: str = "") -> Steps[Submitted]:
    """Start the run, or promise it a start, or say how it stands."""
    key = f"{manifest['metadata']['namespace']}/{manifest['metadata']['name']}"
    reading = yield from read(runs=(key,))
    known = reading.object(RUN, key)
    if known is not None:
        check_same(known, manifest, reading.snapshot.namespace_owners)
        reading = yield from _settle_own(known, reading, means)
        run = decode.run(known, reading.snapshot.namespace_owners)
        lived = life(reading.snapshot, run)
        if not lived.may_start:
            from kubectl_runs.commit.settle import unfinished_of

            return Submitted(run=known, life=lived, reading=reading, unfinished=unfinished_of(reading, run))
    if over(reading, thorough=False):
        # 6.5: a command closes what its own work needs.
        from kubectl_runs.commit.sweep import sweep

        asked = decode.run(known or manifest, reading.snapshot.namespace_owners)
        if planned(reading, asked).verdict is not Verdict.START:
            yield from sweep(reading, means, skip=(key,), thorough=False)
            reading = yield from read(runs=(key,))
    begun = yield from begin(known or manifest, reading, means, planned, check_plan=check_plan)
    return Submitted(run=begun.run, life=begun.life, reading=begun.reading, decision=begun.decision, begun=begun)


def _settle_own(known: Object, reading: Reading, means: Means) -> Steps[Reading]:
    """Finish what an earlier submit of this run began, and close what has ended of it."""
    from kubectl_runs.commit.settle import finish, settle_run

    run = decode.run(known, reading.snapshot.namespace_owners)
    reading = yield from finish(reading, run)
    mine = any(entry.run is not None and entry.run.uid == run.uid for entry in reading.snapshot.entries)
    if mine or life(reading.snapshot, run).held:
        settled = yield from settle_run(reading, run, means)
        reading = settled.reading
    return reading


def check_same(known: Object, manifest: Object, owners: Mapping[str, str]) -> None:
    """A run is submitted once: with another spec it is another run, and needs another name."""
    there, wanted = decode.run(known, owners), decode.run(manifest, owners)
    specs = [_plain(obj["spec"]) for obj in (known, manifest)]
    templates = [digest(spec.get("template") or {}) for spec in specs]
    if _frozen(there) != _frozen(wanted) or templates[0] != templates[1]:
        raise RunsError(
            f"run {there.key} exists with another spec ({', '.join(_differ(*specs))}); another spec needs another name",
            hint=f"kubectl runs get {there.name} -n {there.namespace} -o yaml",
        )


def _differ(there: Object, wanted: Object) -> list[str]:
    """The fields that were changed; what the server filled in by default is no change."""
    from kubectl_runs.wire.schema.run import RunSpec

    known, asked = (RunSpec.model_validate(spec).model_dump() for spec in (there, wanted))
    names = {name: field.alias or name for name, field in RunSpec.model_fields.items()}
    return [
        f"spec.{names[name]}" for name in known if name not in ("canceled", "funding") and known[name] != asked[name]
    ]


def _frozen(run: Run) -> Run:
    """The run without what may change after submit (section 4)."""
    malleable = replace(run.malleable, gpus_desired=run.gpus_total) if run.malleable else None
    return replace(
        run,
        uid="",
        created_at=0,
        deleting=False,
        canceled=False,
        malleable=malleable,
        funding=Funding(),
    )


def _plain(value: Any) -> Any:
    """A spec in one spelling: nulls are absent, and fractions are compared as they are written."""
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items() if part is not None}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return value if isinstance(value, bool | int) else str(value)


def dry_run(manifest: Object, means: Means, *, check_plan: str = "") -> Steps[Submitted]:
    """What submit would do; the server is asked whether it would take the Run and its pods (6.9 asks the same)."""
    key = f"{manifest['metadata']['namespace']}/{manifest['metadata']['name']}"
    reading = yield from read(runs=(key,))
    known = reading.object(RUN, key)
    if known is not None:
        check_same(known, manifest, reading.snapshot.namespace_owners)
    run = decode.run(known or manifest, reading.snapshot.namespace_owners)
    lived = life(reading.snapshot, run)
    if not lived.may_start:
        return Submitted(run=known or manifest, life=lived, reading=reading)
    decision = planned(reading, run)
    if check_plan and plan_digest(decision) != check_plan:
        raise moved(key, plan_digest(decision), check_plan)
    if known is None:
        yield from _try([Create(kind=RUN, object=manifest, dry_run=True)], key)
    if decision.verdict is Verdict.START:
        yield from try_pods(known or manifest, decision, lived.attempt, means)
    return Submitted(run=known or manifest, life=lived, reading=reading, decision=decision)


def try_pods(run: Object, decision: Decision, attempt: int, means: Means) -> Steps[None]:
    """A server dry run of the pods, so that no quota or policy refuses them later."""
    yield from check_claims(run)
    metadata = {**run["metadata"], "uid": run["metadata"].get("uid") or NO_UID}
    bodies = [pod_object({**run, "metadata": metadata}, rank, means.nonce()) for rank in ranks(decision, attempt)]
    yield from _try([Create(kind=POD, object=body, dry_run=True) for body in bodies], metadata["name"])


def _try(requests: list[Create], key: str) -> Steps[None]:
    for outcome in (yield from all_of(requests)):
        if isinstance(outcome, StoreError):
            raise RunsError(f"run {key}: the server would refuse it: {outcome.message}")


def follow(key: str, means: Means, *, until_end: bool, seconds_max: float | None = None) -> Steps[Life | None]:
    """Wait until a run runs, or ends, settling and starting it on the way; None: it took too long."""
    waited, pause = 0.0, POLL_SECONDS_FIRST
    while True:
        reading = yield from read(runs=(key,))
        run_object = reading.object(RUN, key)
        if run_object is None:
            raise RunsError(f"run {key} was deleted")
        reading = yield from _settle_own(run_object, reading, means)
        run = decode.run(run_object, reading.snapshot.namespace_owners)
        lived = life(reading.snapshot, run)
        if lived.over or (lived.stage is Stage.HOLDS and not until_end):
            return lived
        if lived.may_start:
            begun = yield from begin(run_object, reading, means, planned)
            if begun.life.stage is Stage.HOLDS and not until_end:
                return begun.life
        if seconds_max is not None and waited >= seconds_max:
            return None
        means.say(f"run {key} {'runs' if lived.stage is Stage.HOLDS else 'waits'}")
        yield Wait(pause)
        waited += pause
        pause = min(pause * 1.5, POLL_SECONDS_MAX)
