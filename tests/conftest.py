"""What all tests share: the control plane's fixtures and how hard hypothesis tries.

`HYPOTHESIS_PROFILE=thorough` tries a hundred times as many examples as CI does.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.controlplane.fixtures"]

_common = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("ci", max_examples=200, derandomize=True, **_common)  # type: ignore[arg-type]
settings.register_profile("thorough", max_examples=20_000, **_common)  # type: ignore[arg-type]
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
