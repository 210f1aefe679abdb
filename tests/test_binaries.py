"""Where the control plane's binaries come from, and what is said when they cannot be had."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.controlplane import binaries


def executable(path: Path, text: str = "#!/bin/sh\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def _empty_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)


def test_cache_is_keyed_by_version_and_outside_the_clone(tmp_path: Path) -> None:
    cached = executable(tmp_path / "cache" / "kubectl-runs" / "control-plane" / binaries.KUBERNETES / "etcd")
    assert binaries.find("etcd") == cached


def test_users_own_assets_win_and_the_cache_fills_their_gaps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = executable(tmp_path / "assets" / "etcd")
    executable(binaries.cache_folder() / "etcd")
    kwok = executable(binaries.cache_folder() / "kwok")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "assets"))
    assert (binaries.find("etcd"), binaries.find("kwok")) == (own, kwok)


@pytest.mark.parametrize("version", ["1.25.9", "0.9.1"])
def test_go_too_old_is_named_with_the_way_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    executable(tmp_path / "bin" / "go", f"#!/bin/sh\necho go version go{version} linux/amd64\n")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(binaries.Missing, match=rf"etcd .* needs Go 1\.26, found .*{version}.*install Go 1\.26"):
        binaries.find("etcd")


def test_go_missing_is_named_with_the_way_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(binaries.Missing, match=r"kwok .* `go` was not found: install Go 1\.26 or newer"):
        binaries.find("kwok")


def test_failed_build_shows_its_output_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = '#!/bin/sh\n[ "$1" = version ] && echo go version go1.26.1 || { echo no such package; exit 1; }\n'
    executable(tmp_path / "bin" / "go", script)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    with pytest.raises(binaries.Missing, match="no such package"):
        binaries.find("kubectl")
    assert [path.name for path in binaries.cache_folder().iterdir()] == [".lock"]


def test_own_program_is_rebuilt_when_its_source_changes() -> None:
    assert binaries.BINARIES["pki"].file.startswith("pki-")
    assert binaries.BINARIES["kwok"].file == "kwok"
