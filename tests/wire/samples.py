"""The samples in `crds/samples`: objects that must be accepted, and objects that must be refused with given words.

A file with two documents is a change: the second is applied over the first.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parents[2] / "crds" / "samples"
REFUSED = "# refused: "


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """`refused` is empty for a valid one; else it stands in the refusal of the last document."""

    name: str
    documents: tuple[dict[str, Any], ...]
    refused: str = ""


def valid() -> list[Sample]:
    return [_read(path) for path in sorted((FOLDER / "valid").glob("*.yaml"))]


def invalid() -> list[Sample]:
    return [_read(path) for path in sorted((FOLDER / "invalid").glob("*.yaml"))]


def _read(path: Path) -> Sample:
    text = path.read_text(encoding="utf-8")
    first = text.partition("\n")[0]
    refused = first.removeprefix(REFUSED) if first.startswith(REFUSED) else ""
    return Sample(name=path.stem, documents=tuple(yaml.safe_load_all(text)), refused=refused)
