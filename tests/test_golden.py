"""Whole screens: arguments in, exit code, stdout and stderr out, on fixed files, clock and width.

Each case is one YAML file under golden/<verb>/. `files` are copied from golden/files, `before` are command lines that
run first, `args` is the command line that is looked at. `pytest --update-goldens` writes what came out; read it.
"""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.docs_examples import captured, in_folder

FILES = Path(__file__).parent / "golden" / "files"


@pytest.mark.golden_test("golden/*/*.yml")
def test_command_on_fixed_input_prints_its_golden_screen(golden: Any, tmp_path: Path) -> None:
    for name in golden.get("files") or ():
        shutil.copy(FILES / name, tmp_path / name)
    with in_folder(tmp_path, sandbox=True):
        for line in golden.get("before") or ():
            code, out, err = captured(shlex.split(line))
            assert code == 0, out + err
        code, out, err = captured(shlex.split(golden["args"]), stdin=golden.get("stdin") or "")
    assert code == golden.out["exit"]
    assert out.replace("\x1b", "␛") == golden.out["stdout"]  # YAML files hold no escape characters
    assert err == golden.out["stderr"]
