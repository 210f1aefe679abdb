"""`make demo`: a story that a stranger follows in a minute, on a fresh sandbox, each command before its output.

Every line is what the real commands print. Nothing is prepared but an empty sandbox, three manifests and a clock that
stands still until it is moved; the folder goes when the story ends.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from kubectl_runs.main import run

TRAIN = """\
apiVersion: rq.davidlangworthy.io/v1
kind: Run
metadata:
  name: train
spec:
  resources: {gpuType: H100, totalGPUs: 64, gpusPerPod: 8}
  malleable: {minTotalGPUs: 32, maxTotalGPUs: 64, stepGPUs: 16}
  duration: 6h
  template:
    spec:
      containers:
      - name: main
        image: example/train:1
"""
SWEEP = """\
apiVersion: rq.davidlangworthy.io/v1
kind: Run
metadata:
  name: sweep
spec:
  resources: {gpuType: H100, totalGPUs: 64, gpusPerPod: 8}
  duration: 2h
  template:
    metadata:
      annotations: {sim.rq.davidlangworthy.io/after: 90m, sim.rq.davidlangworthy.io/phase: Succeeded}
    spec:
      containers:
      - name: main
        image: example/sweep:1
"""
JOINT = SWEEP.replace("  duration: 2h", "  funding: {allowBorrow: true, sponsors: [org:lab:mm]}\n  duration: 2h")

# What is said, then what is typed.
STORY = (
    ("A sandbox: two islands of 72 H100 and four budgets. Our team is rai.", "sandbox init"),
    ("A run is the user's own container, and how many GPUs it can live with.", "cat train.yaml"),
    ("It starts: 64 GPUs, all paid by its own budget.", "submit -f train.yaml"),
    ("One that must wait: the family has 48 left to pay for 64. Each remedy was tried.", "plan -f sweep.yaml"),
    ("Co-funded: the same run names a sponsor, who lends 16. Now it starts.", "submit -f joint.yaml"),
    ("Both at a glance.", "list"),
    ("Why it could start, as it was recorded.", "explain sweep"),
    ("We need less: train gives up its highest groups.", "shrink train --to 48 --yes"),
    ("Two hours later sweep has ended; somebody settles.", "sandbox advance 2h"),
    ("", "settle"),
    ("Who paid for sweep? It adds up to the GPU-second.", "who-pays sweep"),
    ("And the ledger: chain, caps, conservation.", "verify"),
)
NEXT = """\
# Your turn, no cluster needed:
#   export PATH=$PWD/.venv/bin:$PATH KUBECTL_RUNS_SANDBOX=1
#   kubectl runs sandbox init
#   kubectl runs budgets
#   kubectl runs --help
"""


def main() -> int:
    """Tells the story; the exit code is that of the first command that does not do what it should."""
    with _stage() as folder:
        for name, text in (("train.yaml", TRAIN), ("sweep.yaml", SWEEP), ("joint.yaml", JOINT)):
            (folder / name).write_text(text)
        for said, typed in STORY:
            _say(f"# {said}\n" if said else "")
            code = _type(typed, folder)
            _say("\n")
            if code:
                return code
    _say(NEXT)
    return 0


def _type(typed: str, folder: Path) -> int:
    """One line of the story: the command, then what it prints."""
    words = shlex.split(typed)
    if words[0] == "cat":
        _say(f"$ {typed}\n{(folder / words[1]).read_text()}")
        return 0
    _say(f"$ kubectl runs {typed}\n")
    return run(words)


def _say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


@contextlib.contextmanager
def _stage() -> Iterator[Path]:
    """A folder of our own with an own sandbox; afterwards everything is as it was."""
    before, here = dict(os.environ), Path.cwd()
    with tempfile.TemporaryDirectory(prefix="kubectl-runs-demo-") as folder:
        os.environ["KUBECTL_RUNS_SANDBOX"] = "demo.db"
        os.chdir(folder)
        try:
            yield Path(folder)
        finally:
            os.chdir(here)
            os.environ.clear()
            os.environ.update(before)


if __name__ == "__main__":
    sys.exit(main())
