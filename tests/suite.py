"""`python -m tests.suite`: the whole suite in three parts side by side, what `make test` runs.

Tests against a real API server mostly wait, the others mostly compute, so together they take little longer than the
longest part, which is shown as it goes; the others are shown when they are over.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).parent
LONGEST = ("cluster", "store")
CHAOS = ("chaos",)


def main() -> int:
    apart = [f"--ignore={TESTS / name}" for name in (*LONGEST, *CHAOS)]
    others = [Part([str(TESTS), *apart]), Part([str(TESTS / name) for name in CHAOS])]
    try:
        codes = [subprocess.run(_pytest([str(TESTS / name) for name in LONGEST]), check=False).returncode]
        codes += [part.finish() for part in others]
    finally:
        for part in others:
            part.process.kill()
    return max(codes)


class Part:
    """One pytest of its own, silent until it is over."""

    def __init__(self, arguments: list[str]) -> None:
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the process
        self.process = subprocess.Popen(_pytest(arguments), stdout=self._output, stderr=subprocess.STDOUT)

    def finish(self) -> int:
        code = self.process.wait()
        self._output.seek(0)
        sys.stdout.buffer.write(self._output.read())
        sys.stdout.flush()
        return code


def _pytest(arguments: list[str]) -> list[str]:
    return [sys.executable, "-m", "pytest", *arguments]


if __name__ == "__main__":
    sys.exit(main())
