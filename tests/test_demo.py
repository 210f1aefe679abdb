"""`make demo` is a golden screen: the whole story, as a stranger sees it."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import pytest

from kubectl_runs import demo


@pytest.mark.golden_test("golden/demo.yml")
def test_demo_on_a_fresh_sandbox_tells_its_golden_story(golden: Any) -> None:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = demo.main()
    assert (code, err.getvalue()) == (0, "")
    assert out.getvalue() == golden.out["story"]
