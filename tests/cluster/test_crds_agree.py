"""Beyond the samples: on random objects and changes the API server and our validation say yes and no alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kubectl_runs.wire.schema import validate
from tests.controlplane.client import Object, Refused, path_of
from tests.controlplane.plane import ControlPlane
from tests.wire.samples import valid

SMALL = st.sampled_from([1, 2, 3, 4, 6, 8, 12, 16, 24])
TIMES = st.sampled_from(
    ["2026-01-05T12:00:00Z", "2026-01-05T14:00:00+02:00", "2026-01-05T12:00:00.5Z", "2026-02-30T00:00:00Z", "soon"]
)
DURATIONS = st.sampled_from(["0s", "90s", "1h30m", "1.5h", "0.0h", "100ms", "2d", "-1s", "", "1h-1m", "9999999h"])
LIKE_CI = settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


def optional(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Object]:
    return st.fixed_dictionaries({}, optional=fields)


MALLEABLE = st.fixed_dictionaries(
    {"minTotalGPUs": SMALL, "maxTotalGPUs": SMALL, "stepGPUs": SMALL}, optional={"desiredTotalGPUs": SMALL}
)
CONTAINER = st.fixed_dictionaries(
    {"name": st.sampled_from(["main", "side"])},
    optional={
        "resources": optional(
            limits=optional(**{"nvidia.com/gpu": st.sampled_from([1, 2, "2", "2k"]), "cpu": st.just(0.5)})
        )
    },
)
POD = st.fixed_dictionaries(
    {"containers": st.lists(CONTAINER, max_size=2)},
    optional={"restartPolicy": st.sampled_from(["Never", "Always"]), "nodeName": st.just("n1"), "volumes": st.just([])},
)
RUN = st.fixed_dictionaries(
    {
        "resources": st.fixed_dictionaries(
            {"gpuType": st.just("H100"), "totalGPUs": SMALL}, optional={"gpusPerPod": st.sampled_from([1, 2, 4])}
        ),
        "template": st.just({"spec": {"containers": [{"name": "main"}]}}),
    },
    optional={
        "locality": optional(
            groupGPUs=SMALL, selector=optional(region=st.sampled_from(["", "*", "us-west", "no good"]))
        ),
        "malleable": MALLEABLE,
        "duration": DURATIONS,
        "canceled": st.booleans(),
        "funding": optional(sponsors=st.lists(st.sampled_from(["org:a", "org:b"]), max_size=2)),
        "runtime": optional(checkpoint=DURATIONS),
    },
)
ENVELOPE = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["a", "b", "c"]),
        "flavor": st.sampled_from(["H100", "A100"]),
        "concurrency": st.sampled_from([0, 8]),
    },
    optional={"start": TIMES, "end": TIMES, "lending": optional(allow=st.booleans(), to=st.just(["org:*"]))},
)
CAP = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["x", "y"]),
        "flavor": st.sampled_from(["H100", "A100"]),
        "envelopes": st.lists(st.sampled_from(["a", "b"]), max_size=2),
    }
)
BUDGET = st.fixed_dictionaries(
    {"owner": st.just("org:a"), "envelopes": st.lists(ENVELOPE, max_size=3)},
    optional={"aggregateCaps": st.lists(CAP, max_size=2)},
)
STATUS = optional(
    closed=st.booleans(), endTime=TIMES, closureReason=st.sampled_from(["Fail", "Swap", "RandomPreempt(a1)", "Bored"])
)


@pytest.fixture(scope="module")
def plane(fresh_control_plane: Callable[..., ControlPlane]) -> Iterator[ControlPlane]:
    with fresh_control_plane(kwok=False) as plane:
        yield plane


def accepted(plane: ControlPlane, method: str, path: str, body: Object) -> str:
    """Empty, or the server's words; nothing is stored."""
    try:
        plane.client().request(method, f"{path}?dryRun=All&fieldValidation=Strict", body)
    except Refused as refused:
        if refused.status in (400, 422):
            return str(refused)
        raise
    return ""


def agree(plane: ControlPlane, method: str, path: str, body: Object, old: Object | None = None) -> None:
    said = accepted(plane, method, path, body)
    ours = [str(problem) for problem in validate(body["kind"], body, old)]
    assert bool(said) == bool(ours), f"server: {said or 'yes'}\nours: {ours or 'yes'}\n{body}"


def made(kind: str, spec: Object, **metadata: str) -> Object:
    return {
        "apiVersion": "rq.davidlangworthy.io/v1",
        "kind": kind,
        "metadata": {"name": "random", **metadata},
        "spec": spec,
    }


@LIKE_CI
@given(spec=RUN)
def test_random_run_is_judged_alike(plane: ControlPlane, spec: Object) -> None:
    agree(plane, "POST", path_of("runs", "default"), made("Run", spec))


@LIKE_CI
@given(pod=POD, per_pod=st.sampled_from([1, 2]))
def test_random_template_is_judged_alike(plane: ControlPlane, pod: Object, per_pod: int) -> None:
    resources = {"gpuType": "H100", "totalGPUs": 8, "gpusPerPod": per_pod}
    agree(plane, "POST", path_of("runs", "default"), made("Run", {"resources": resources, "template": {"spec": pod}}))


@LIKE_CI
@given(spec=BUDGET)
def test_random_budget_is_judged_alike(plane: ControlPlane, spec: Object) -> None:
    agree(plane, "POST", path_of("budgets"), made("Budget", spec))


@pytest.fixture(scope="module")
def stored_run(plane: ControlPlane) -> Object:
    full = next(sample for sample in valid() if sample.name == "run-full").documents[0]
    return plane.client().create("runs", {**full, "metadata": {"name": "stored"}}, "default")


CHANGES = st.dictionaries(
    st.sampled_from(
        [
            ("canceled",),
            ("duration",),
            ("owner",),
            ("locality", "groupGPUs"),
            ("malleable", "desiredTotalGPUs"),
            ("malleable", "maxTotalGPUs"),
            ("malleable",),
            ("funding", "maxBorrowGPUs"),
            ("funding",),
            ("runtime", "maxRetries"),
            ("template", "spec", "nodeSelector"),
            ("sparesPerGroup",),
        ]
    ),
    st.sampled_from([None, 0, 1, 8, 16, 40, True, "9h", "org:ai", {}, {"disk": "slow"}]),
    max_size=2,
)


def change(spec: Object, path: tuple[str, ...], value: object) -> None:
    """Put a value at a path, or with None take away what is there; a path through no object is left alone."""
    place: Any = spec
    for key in path[:-1]:
        place = place.get(key) if isinstance(place, dict) else None
    if not isinstance(place, dict):
        return
    if value is None:
        place.pop(path[-1], None)
    else:
        place[path[-1]] = value


@LIKE_CI
@given(changes=CHANGES)
def test_random_change_of_a_run_is_judged_alike(
    plane: ControlPlane, stored_run: Object, changes: dict[Any, Any]
) -> None:
    body = deepcopy(stored_run)
    for path, value in changes.items():
        change(body["spec"], path, value)
    body.pop("status", None)
    agree(plane, "PUT", path_of("runs", "default", "stored"), body, {**stored_run, "status": {}})


@pytest.mark.parametrize("closed", [False, True])
@LIKE_CI
@given(status=STATUS)
def test_random_status_of_a_lease_is_judged_alike(plane: ControlPlane, closed: bool, status: Object) -> None:
    client = plane.client()
    name = f"l-{70 + closed}-0"
    stored = client.find("leases", name, "default")
    if stored is None:
        (lease,) = next(sample for sample in valid() if sample.name == "lease").documents
        stored = client.create("leases", {**lease, "metadata": {"name": name}}, "default")
        if closed:
            end = {"closed": True, "endTime": "2026-01-05T12:00:00Z", "closureReason": "Fail"}
            stored = client.patch("leases", name, {"status": end}, "default", "status")
    agree(plane, "PUT", path_of("leases", "default", name, "status"), {**stored, "status": status}, stored)
