"""Where the control plane's binaries come from: `KUBEBUILDER_ASSETS`, else a cache, else a build from pinned sources.

The cache lies outside the clone and is keyed by the Kubernetes version, so a second run builds nothing. What
`KUBEBUILDER_ASSETS` lacks (it has no KWOK) comes from the cache as well. `python -m tests.controlplane.binaries`
builds everything that is missing; that is `make control-plane`.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

KUBERNETES = "v1.36.3"
KWOK = "v0.8.0"
GO_NEEDED = (1, 26)
MODULE = Path(__file__).parent


class Missing(RuntimeError):
    """A binary that is neither there nor can be built, with the way to get it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Binary:
    """One program of the control plane and the Go package it is built from."""

    name: str
    package: str
    ldflags: str = ""
    minutes: str = "under a minute"

    @property
    def file(self) -> str:
        """Its name in the cache. Our own program changes with its source, so its name carries the source's digest."""
        if not self.package.startswith("./"):
            return self.name
        source = b"".join(path.read_bytes() for path in sorted((MODULE / self.package).glob("*.go")))
        return f"{self.name}-{hashlib.sha256(source).hexdigest()[:8]}"


# Without the stamp clients see v0.0.0 and refuse or warn.
_STAMP = f"-X k8s.io/component-base/version.gitVersion={KUBERNETES}"

BINARIES = {
    binary.name: binary
    for binary in (
        Binary(name="pki", package="./pki"),
        Binary(name="etcd", package="go.etcd.io/etcd/server/v3"),
        Binary(
            name="kube-apiserver",
            package="k8s.io/kubernetes/cmd/kube-apiserver",
            ldflags=_STAMP,
            minutes="about 3 minutes",
        ),
        Binary(name="kubectl", package="k8s.io/kubernetes/cmd/kubectl", ldflags=_STAMP),
        Binary(
            name="kwok", package="sigs.k8s.io/kwok/cmd/kwok", ldflags=f"-X sigs.k8s.io/kwok/pkg/consts.Version={KWOK}"
        ),
        Binary(
            name="kube-controller-manager",
            package="k8s.io/kubernetes/cmd/kube-controller-manager",
            ldflags=_STAMP,
            minutes="about 2 minutes",
        ),
    )
}


def cache_folder() -> Path:
    """The folder of built binaries, outside the clone."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "kubectl-runs" / "control-plane" / KUBERNETES


def find(name: str) -> Path:
    """The path of a binary; it is built first where it is missing."""
    present = present_path(name)
    if present is not None:
        return present
    with _lock():  # two test runs at once build each binary once
        return present_path(name) or _build(BINARIES[name])


def present_path(name: str) -> Path | None:
    """The path of a binary that is already there: the user's own assets win over the cache."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    folders = ([Path(assets) / name] if assets else []) + [cache_folder() / BINARIES[name].file]
    return next((path for path in folders if os.access(path, os.X_OK)), None)


@contextmanager
def _lock() -> Iterator[None]:
    cache_folder().mkdir(parents=True, exist_ok=True)
    with (cache_folder() / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build(binary: Binary) -> Path:
    """Build one binary beside its final place and move it there, so that a broken build leaves nothing behind."""
    go = _go(binary)
    target = cache_folder() / binary.file
    with tempfile.TemporaryDirectory(dir=cache_folder()) as folder:
        made = Path(folder) / binary.file
        command = [go, "build", "-trimpath", "-ldflags", f"-s -w {binary.ldflags}", "-o", str(made), binary.package]
        _run_with_progress(command, f"building {binary.name} for the test control plane ({binary.minutes})")
        made.rename(target)
    return target


def _go(binary: Binary) -> str:
    """The `go` command, new enough; otherwise say what is needed and how to get it."""
    needed = ".".join(map(str, GO_NEEDED))
    go = shutil.which("go")
    way = f"install Go {needed} or newer (https://go.dev/dl/), or set KUBEBUILDER_ASSETS to a folder that holds it"
    if go is None:
        raise Missing(f"{binary.name} {KUBERNETES} is not built yet and `go` was not found: {way}")
    said = subprocess.run([go, "version"], capture_output=True, text=True, check=True, cwd=MODULE).stdout
    found = re.search(r"go(\d+)\.(\d+)", said)
    if found is None or tuple(map(int, found.groups())) < GO_NEEDED:
        raise Missing(f"{binary.name} {KUBERNETES} needs Go {needed}, found {said.strip()!r}: {way}")
    return go


def _run_with_progress(command: list[str], what: str) -> None:
    """Run a build, with a sign of life on stderr, and show its output only if it fails."""
    started = time.monotonic()
    print(f"{what} ...", file=sys.stderr, flush=True)
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(command, cwd=MODULE, stdout=output, stderr=subprocess.STDOUT)
        try:
            while True:
                try:
                    exit_code = process.wait(timeout=20)
                    break
                except subprocess.TimeoutExpired:
                    print(f"  still building, {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
        if exit_code:
            output.seek(0)
            raise Missing(f"{what} failed:\n{output.read()[-4000:]}")
    print(f"  done in {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)


def main() -> int:
    """Build everything that is missing and say where it lies."""
    try:
        for name in BINARIES:
            print(f"{name:24} {find(name)}")
    except Missing as missing:
        print(f"error: {missing}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
