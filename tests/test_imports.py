"""What the cheap commands load: start-up time is looked at as modules, not with a stopwatch."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HEAVY = ("kubernetes", "pydantic", "rich", "asyncio", "yaml", "aiohttp", "requests", "sqlite3")


def loaded_modules(*arguments: str) -> set[str]:
    """The modules that a command line loads, as the interpreter itself reports them."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "kubectl_runs", *arguments], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return set(re.findall(r"^import time:.*\| +(\S+)$", done.stderr, re.MULTILINE))


@pytest.mark.parametrize("arguments", [("version",), ("--help",), ("submit", "--help")], ids=" ".join)
def test_cheap_command_loads_nothing_heavy(arguments: tuple[str, ...]) -> None:
    loaded = loaded_modules(*arguments)
    assert "kubectl_runs.main" in loaded or "kubectl_runs" in loaded
    assert sorted(name for name in loaded if name.split(".")[0] in HEAVY) == []
