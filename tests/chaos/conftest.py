"""Everything in this folder kills, cuts or delays the real CLI and carries the marks `cluster` and `chaos`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.proxy import FaultProxy
from tests.controlplane.plane import ControlPlane


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.cluster)
            item.add_marker(pytest.mark.chaos)


@pytest.fixture
def proxy(bare_control_plane: ControlPlane) -> Iterator[FaultProxy]:
    """A fault proxy before the suite's control plane."""
    with FaultProxy(bare_control_plane) as proxy:
        yield proxy
