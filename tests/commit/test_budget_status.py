"""A budget's status follows from the books, and is written only where it says something new."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kubectl_runs.store.protocol import Get, Replace
from kubectl_runs.store.sandbox import SandboxStore
from kubectl_runs.wire.kinds import BUDGET
from tests.docs_examples import captured, in_folder

RUN = """
apiVersion: rq.davidlangworthy.io/v1
kind: Run
metadata: {name: train, namespace: rai}
spec:
  resources: {gpuType: H100, totalGPUs: 16, gpusPerPod: 8}
  template: {spec: {containers: [{name: main, image: example/train:1}]}}
"""


def budget(file: Path) -> Any:
    return SandboxStore.open(str(file)).perform(Get(kind=BUDGET, name="rai")).object


def settle(file: Path) -> Any:
    code, out, err = captured(["settle", "-A", f"--sandbox={file}"])
    assert code == 0, out + err
    return budget(file)


def test_settle_of_all_namespaces_writes_how_budgets_stand(tmp_path: Path) -> None:
    file = tmp_path / "s.db"
    with in_folder(tmp_path, sandbox=False):
        (tmp_path / "run.yaml").write_text(RUN)
        for line in (f"sandbox init {file}", f"submit -f run.yaml --sandbox={file}"):
            code, out, err = captured(line.split())
            assert code == 0, out + err

        first = settle(file)

        (envelope,) = first["status"]["envelopes"]
        assert (envelope["held"], envelope["headroom"], envelope["lent"]) == (16, 48, 0)
        (condition,) = first["status"]["conditions"]
        assert (condition["type"], condition["status"]) == ("OverCap", "False")
        assert settle(file)["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]

        lowered = budget(file)
        lowered["spec"]["envelopes"][0]["concurrency"] = 10
        SandboxStore.open(str(file)).perform(Replace(kind=BUDGET, object=lowered))
        over = settle(file)["status"]

        assert over["envelopes"][0]["headroom"] == -6
        assert over["conditions"][0]["status"] == "True"
        assert "rai/h100" in over["conditions"][0]["message"]
