"""What validation and defaulting do beyond the samples: paths, leniency in files, entries to the letter."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from kubectl_runs.wire.schema import validate, with_defaults

Json = dict[str, Any]


def run(**spec: object) -> Json:
    template = {"spec": {"containers": [{"name": "main", "image": "example/train:1"}]}}
    asked = {"resources": {"gpuType": "H100", "totalGPUs": 8}, "template": template, **spec}
    return {"kind": "Run", "metadata": {"name": "train", "namespace": "rai"}, "spec": asked}


def entry(**spec: object) -> Json:
    ref = {"namespace": "rai", "name": "train", "uid": "u", "attempt": 1}
    zeros = "sha256:" + "0" * 64
    body = {"seq": 7, "prev": zeros, "nonce": "0" * 32, "readAt": "2026-01-05T12:00:00Z", "kind": "End", "run": ref}
    return {"kind": "LedgerEntry", "metadata": {"name": "000000000007"}, "spec": {**body, **spec}}


def said(kind: str, obj: Json, **how: Any) -> list[str]:
    return [str(problem) for problem in validate(kind, obj, **how)]


def test_problem_names_the_field_and_what_is_wrong() -> None:
    wrong = run(resources={"gpuType": "H100", "totalGPUs": "8"}, gpus=3, funding={"sponsors": ["org:a", "b c"]})
    assert sorted(said("Run", wrong)) == [
        "spec.funding.sponsors[1]: 'b c': string should match pattern '^[a-zA-Z0-9._-]+(:[a-zA-Z0-9._-]+)*$'",
        "spec.gpus: unknown field",
        "spec.resources.totalGPUs: must be a whole number",
    ]


def test_run_without_spec_or_name_is_refused() -> None:
    assert said("Run", {"metadata": {"name": "x"}}) == ["spec: is required"]
    assert said("Run", {**run(), "metadata": {}})[0].startswith("metadata.name: ")
    assert said("Run", {**run(), "metadata": {"name": "Train_1"}})[0].startswith("metadata.name: ")


def test_defaults_are_the_designs_and_leave_the_given_alone() -> None:
    given = run(locality={}, malleable={"minTotalGPUs": 4, "maxTotalGPUs": 8, "stepGPUs": 4}, funding={}, runtime={})
    before = deepcopy(given)
    spec = with_defaults("Run", given)["spec"]
    assert given == before
    assert spec["resources"]["gpusPerPod"] == 1
    assert spec["locality"] == {"allowCrossGroupSpread": True}
    assert spec["funding"] == {"allowBorrow": False}
    assert spec["runtime"] == {"maxRetries": 0}
    assert (spec["sparesPerGroup"], spec["opportunistic"]) == (0, False)
    # Another field's value is no default of a schema: absent means totalGPUs.
    assert "desiredTotalGPUs" not in spec["malleable"]


def test_defaults_drop_nulls_where_a_field_is_known() -> None:
    spec = with_defaults("Run", run(duration=None, sparesPerGroup=None))["spec"]
    assert "duration" not in spec
    assert spec["sparesPerGroup"] == 0
    assert said("Run", run(duration=None)) == []


def test_lease_gets_an_attempt_but_never_a_group() -> None:
    lease = {"kind": "Lease", "metadata": {"name": "l-1-0"}, "spec": {"runRef": {"name": "a", "uid": "b"}}}
    assert with_defaults("Lease", lease)["spec"] == {"runRef": {"name": "a", "uid": "b", "attempt": 1}}


def test_entry_keeps_every_letter_and_refuses_nulls() -> None:
    written = entry(plan=None, trace=[{"note": None}], budgets=[{"name": "rai", "generation": 1, "envelopes": []}])
    assert with_defaults("LedgerEntry", written) == written
    assert said("LedgerEntry", written) == ["spec.plan: must not be null", "spec.trace[0].note: must not be null"]


def test_envelope_in_an_entry_has_no_defaults() -> None:
    asked = [{"name": "rai", "generation": 1, "envelopes": [{"name": "w", "flavor": "H100", "concurrency": 8}]}]
    assert with_defaults("LedgerEntry", entry(budgets=asked))["spec"]["budgets"] == asked
    assert said("LedgerEntry", entry(budgets=asked)) == []


def test_long_value_in_a_message_is_cut() -> None:
    (problem,) = said("Run", run(owner="x " * 500))
    assert len(problem) < 200


def test_unchanged_object_passes_every_transition() -> None:
    assert said("Run", run(canceled=True), old=run(canceled=True)) == []
    assert said("LedgerEntry", entry(), old=entry()) == []
