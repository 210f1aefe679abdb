"""The files in `crds/` are what `make crds` writes from the models, policies and roles."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubectl_runs.wire.crds import files, main, spell

FOLDER = Path(__file__).parents[2] / "crds"


@pytest.mark.parametrize("name", sorted(files()))
def test_file_is_as_generated(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == spell(files()[name]), "run `make crds`"


def test_folder_holds_no_other_file(tmp_path: Path) -> None:
    main(tmp_path)
    assert {path.name for path in FOLDER.glob("*.yaml")} == {path.name for path in tmp_path.iterdir()}
