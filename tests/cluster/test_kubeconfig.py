"""Kubeconfig files as kubectl reads them, each tried on a real API server that says who we are."""

from __future__ import annotations

import base64
import json
import os
import stat
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kubectl_runs.store import open_cluster
from kubectl_runs.store.access import ConfigError
from kubectl_runs.store.cluster import ClusterStore
from kubectl_runs.store.protocol import Create, Forbidden, List, Reply, Unauthorized, Unavailable
from kubectl_runs.wire.kinds import NAMESPACE, POD, Kind
from tests.controlplane import binaries, fleet
from tests.controlplane.plane import ControlPlane

REVIEW = Kind("SelfSubjectReview", "selfsubjectreviews", "authentication.k8s.io/v1", namespaced=False)
ROOT = Path(__file__).parents[2]


class Files:
    """Writes kubeconfigs for one control plane."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.plane = plane
        self.folder = folder

    @property
    def ca(self) -> Path:
        return self.plane.folder / "ca.crt"

    def cluster(self, **more: object) -> dict[str, Any]:
        return {"server": self.plane.server, "certificate-authority": str(self.ca), **more}

    def write(self, name: str, **sections: Any) -> Path:
        """A kubeconfig from `clusters={name: …}`, `users={…}`, `contexts={name: (cluster, user)}`, `current=…`."""
        config: dict[str, Any] = {"apiVersion": "v1", "kind": "Config"}
        if "current" in sections:
            config["current-context"] = sections["current"]
        for section in ("clusters", "users"):
            entries = sections.get(section, {})
            config[section] = [{"name": key, section[:-1]: value} for key, value in entries.items()]
        contexts = sections.get("contexts", {})
        config["contexts"] = [
            {"name": key, "context": {"cluster": pair[0], "user": pair[1], **(pair[2] if pair[2:] else {})}}
            for key, pair in contexts.items()
        ]
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(config))
        return path

    def simple(self, user: dict[str, Any], **cluster: object) -> Path:
        return self.write(
            "config",
            clusters={"c": self.cluster(**cluster)},
            users={"u": user},
            contexts={"x": ("c", "u")},
            current="x",
        )

    def script(self, text: str, name: str = "plugin") -> Path:
        path = self.folder / name
        path.write_text(f"#!{sys.executable}\n{text}")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path


@pytest.fixture
def files(bare_control_plane: ControlPlane, tmp_path: Path) -> Files:
    return Files(bare_control_plane, tmp_path)


WHO = Create(kind=REVIEW, object={"apiVersion": REVIEW.api_version, "kind": REVIEW.name})


def whoami(store: ClusterStore) -> tuple[str, list[str]]:
    """User and groups, as the server sees us."""
    info = store.perform(WHO).object["status"]["userInfo"]
    return info["username"], [group for group in info["groups"] if not group.startswith("system:")]


def test_token_and_certificate_files_and_data_all_tell_who_we_are(files: Files) -> None:
    folder = files.plane.folder
    embedded = {
        f"client-{part}-data": base64.b64encode((folder / f"auditor.{ending}").read_bytes()).decode()
        for part, ending in (("certificate", "crt"), ("key", "key"))
    }
    (files.folder / "token").write_text("token-of-operator\n")
    shapes: dict[str, dict[str, Any]] = {
        "researcher": {"token": "token-of-researcher"},
        "operator": {"tokenFile": str(files.folder / "token")},
        "rival": {"client-certificate": str(folder / "rival.crt"), "client-key": str(folder / "rival.key")},
        "auditor": embedded,
    }
    for user, shape in shapes.items():
        assert whoami(open_cluster(kubeconfig=str(files.simple(shape))))[0] == user


def test_yaml_and_json_kubeconfigs_mean_the_same(files: Files) -> None:
    path = files.simple({"token": "token-of-auditor"})
    yaml = files.folder / "config.yaml"
    server, ca = files.plane.server, files.ca
    yaml.write_text(
        f"apiVersion: v1\nkind: Config\ncurrent-context: x\n"
        f"clusters:\n- name: c\n  cluster:\n    server: {server}\n    certificate-authority: {ca}\n"
        f"users:\n- name: u\n  user: {{token: token-of-auditor}}\n"
        f"contexts:\n- name: x\n  context: {{cluster: c, user: u, namespace: deep}}\n"
    )
    assert whoami(open_cluster(kubeconfig=str(path))) == whoami(open_cluster(kubeconfig=str(yaml)))
    assert open_cluster(kubeconfig=str(yaml)).namespace == "deep"


def test_files_are_merged_and_the_first_to_name_something_wins(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    first = files.write("one/config", users={"u": {"token": "token-of-auditor"}}, contexts={"x": ("c", "u")})
    second = files.write(
        "two/config",
        clusters={"c": {"server": files.plane.server, "certificate-authority": "../ca.crt"}},
        users={"u": {"token": "token-of-researcher"}, "v": {"token": "token-of-operator"}},
        contexts={"x": ("nowhere", "nobody"), "y": ("c", "v")},
        current="x",
    )
    third = files.write("three/config", current="y")
    (files.folder / "ca.crt").write_bytes(files.ca.read_bytes())  # relative to the second file, not to us
    missing = files.folder / "missing"
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(map(str, (missing, first, second, third))))
    assert whoami(open_cluster())[0] == "auditor"
    assert whoami(open_cluster(context="y"))[0] == "operator"
    assert whoami(open_cluster(user="v"))[0] == "operator"
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(map(str, (third, second, first))))
    assert whoami(open_cluster())[0] == "operator"


def test_home_is_looked_at_last(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    files.write(
        ".kube/config",
        clusters={"c": files.cluster()},
        users={"u": {"token": "token-of-rival"}},
        contexts={"x": ("c", "u")},
        current="x",
    )
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(files.folder))
    assert whoami(open_cluster())[0] == "rival"


def test_impersonation_by_flag_and_by_file(files: Files) -> None:
    admin = {"token": "token-of-admin"}
    assert whoami(open_cluster(kubeconfig=str(files.simple(admin)), as_user="rita", as_groups=("x", "y"))) == (
        "rita",
        ["x", "y"],
    )
    written = {**admin, "as": "rob", "as-groups": ["z"], "as-user-extra": {"Reason/x": ["test"]}}
    path = files.simple(written)
    assert whoami(open_cluster(kubeconfig=str(path))) == ("rob", ["z"])
    assert whoami(open_cluster(kubeconfig=str(path), as_user="rita")) == ("rita", [])
    with pytest.raises(Forbidden):
        open_cluster(kubeconfig=str(path), as_user="nobody").perform(List(kind=POD))
    with pytest.raises(ConfigError):
        open_cluster(kubeconfig=str(files.simple(admin)), as_groups=("x",))


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_exec_plugin_gives_a_token(files: Files, version: str) -> None:
    plugin = files.script(
        "import json, os, sys\n"
        "asked = json.loads(os.environ['KUBERNETES_EXEC_INFO'])\n"
        "assert asked['spec']['cluster']['server'].startswith('https://')\n"
        "status = {'token': 'token-of-' + sys.argv[1] + os.environ['SUFFIX']}\n"
        "print(json.dumps({'apiVersion': asked['apiVersion'], 'kind': 'ExecCredential', 'status': status}))\n"
    )
    run = {
        "apiVersion": f"client.authentication.k8s.io/{version}",
        "command": f"./{plugin.name}",  # relative to the kubeconfig
        "args": ["resear"],
        "env": [{"name": "SUFFIX", "value": "cher"}],
        "provideClusterInfo": True,
        "interactiveMode": "Never",
    }
    assert whoami(open_cluster(kubeconfig=str(files.simple({"exec": run}))))[0] == "researcher"


def test_exec_plugin_gives_a_certificate(files: Files) -> None:
    folder = files.plane.folder
    plugin = files.script(
        "import json, pathlib\n"
        f"folder = pathlib.Path({str(folder)!r})\n"
        "status = {'clientCertificateData': (folder / 'rival.crt').read_text(),"
        " 'clientKeyData': (folder / 'rival.key').read_text()}\n"
        "print(json.dumps({'apiVersion': 'client.authentication.k8s.io/v1', 'status': status}))\n"
    )
    run = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin)}
    assert whoami(open_cluster(kubeconfig=str(files.simple({"exec": run}))))[0] == "rival"


def counting(files: Files, expires: str) -> tuple[dict[str, Any], Path]:
    """A plugin that notes each call; its first token is bad, the later ones are good."""
    count = files.folder / "count"
    plugin = files.script(
        "import json, pathlib\n"
        f"count = pathlib.Path({str(count)!r})\n"
        "calls = len(count.read_text()) if count.exists() else 0\n"
        "count.write_text('x' * (calls + 1))\n"
        "status = {'token': 'token-of-auditor' if calls else 'bad', 'expirationTimestamp': " + repr(expires) + "}\n"
        "print(json.dumps({'apiVersion': 'client.authentication.k8s.io/v1', 'status': status}))\n"
    )
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin)}}, count


def test_exec_plugin_is_asked_again_after_a_refusal_and_then_remembered(files: Files) -> None:
    user, count = counting(files, "2999-01-01T00:00:00Z")
    store = open_cluster(kubeconfig=str(files.simple(user)))
    assert all(isinstance(outcome, Reply) for outcome in store.perform_all([WHO] * 8))
    assert whoami(store)[0] == "auditor"
    assert len(count.read_text()) == 2


def test_exec_plugin_is_asked_again_when_its_token_has_expired(files: Files) -> None:
    user, count = counting(files, "2001-01-01T00:00:00Z")
    store = open_cluster(kubeconfig=str(files.simple(user)))
    for _ in range(2):
        assert whoami(store)[0] == "auditor"
    assert len(count.read_text()) > 2


@pytest.mark.parametrize(
    ("run", "told"),
    [
        ({"command": "no-such-plugin-anywhere", "installHint": "brew install it"}, "cannot be started"),
        ({"command": "false"}, "exit code 1"),
        ({"command": "true"}, "no ExecCredential"),
        ({"command": "true", "apiVersion": "client.authentication.k8s.io/v1alpha1"}, "not supported"),
    ],
)
def test_exec_plugin_that_fails_is_told_by_name(files: Files, run: dict[str, Any], told: str) -> None:
    store = open_cluster(kubeconfig=str(files.simple({"exec": run})))
    with pytest.raises(ConfigError) as failed:
        store.perform(List(kind=POD))
    assert told in failed.value.message
    assert run["command"] in failed.value.message


def test_bad_token_is_unauthorized(files: Files) -> None:
    with pytest.raises(Unauthorized):
        whoami(open_cluster(kubeconfig=str(files.simple({"token": "nonsense"}))))


def test_server_that_another_authority_signed_is_not_trusted(files: Files, tmp_path: Path) -> None:
    subprocess.run([binaries.find("pki"), "init", tmp_path], check=True)
    path = files.simple({"token": "token-of-admin"}, **{"certificate-authority": str(tmp_path / "ca.crt")})
    with pytest.raises(Unavailable) as refused:
        whoami(open_cluster(kubeconfig=str(path)))
    assert "not trusted" in refused.value.message
    path = files.simple({"token": "token-of-admin"}, **{"insecure-skip-tls-verify": True})
    assert whoami(open_cluster(kubeconfig=str(path)))[0] == "admin"


def test_name_of_the_certificate_may_be_given_apart(files: Files) -> None:
    admin = {"token": "token-of-admin"}
    assert whoami(open_cluster(kubeconfig=str(files.simple(admin, **{"tls-server-name": "localhost"}))))[0] == "admin"
    with pytest.raises(Unavailable):
        whoami(open_cluster(kubeconfig=str(files.simple(admin, **{"tls-server-name": "elsewhere.example"}))))


def test_pod_without_kubeconfig_uses_its_service_account(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    from kubectl_runs.store import kubeconfig

    account = files.folder / "account"
    account.mkdir()
    (account / "token").write_text("token-of-auditor")
    (account / "namespace").write_text("kubectl-runs")
    (account / "ca.crt").write_bytes(files.ca.read_bytes())
    monkeypatch.setattr(kubeconfig, "SERVICE_ACCOUNT", account)
    monkeypatch.setenv("HOME", str(files.folder / "nobody"))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(files.plane.port))
    store = open_cluster()
    assert whoami(store)[0] == "auditor"
    assert store.namespace == "kubectl-runs"


def test_no_kubeconfig_at_all_points_to_the_sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ConfigError) as failed:
        open_cluster()
    assert "--sandbox" in failed.value.hint


def test_names_that_are_not_there_are_told_with_those_that_are(files: Files) -> None:
    path = str(files.simple({"token": "t"}))
    for flags in ({"context": "z"}, {"cluster": "z"}, {"user": "z"}):
        with pytest.raises(ConfigError) as failed:
            open_cluster(kubeconfig=path, **flags)  # type: ignore[arg-type]
        assert "'z'" in failed.value.message
    with pytest.raises(ConfigError):
        open_cluster(kubeconfig=str(files.folder / "missing"))


def imported(code: str, path: Path) -> Sequence[str]:
    """The modules that a fresh interpreter has loaded after this code."""
    script = f"{code}\nimport sys\nprint('\\n'.join(sys.modules))"
    environment = fleet.cli_environment(path)
    done = subprocess.run([sys.executable, "-c", script], env=environment, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_common_path_imports_nothing_heavy(files: Files) -> None:
    code = (
        "from kubectl_runs.store import open_cluster\nfrom kubectl_runs.store.protocol import List\n"
        "from kubectl_runs.wire.kinds import NAMESPACE\nassert open_cluster().perform(List(kind=NAMESPACE)).items"
    )
    heavy = {"kubernetes", "pydantic", "rich", "asyncio", "requests", "urllib3", "logging", "http", "email"}
    for user in ({"token": "token-of-admin"}, files.plane._certificate("admin")):
        assert heavy.isdisjoint(imported(code, files.simple(user)))


def test_legacy_auth_provider_goes_through_the_official_client(files: Files) -> None:
    """An OIDC entry whose token has not expired yet: only `kubernetes.config` knows how to read it."""
    head, body = ({"alg": "none"}, {"exp": 32503680000})
    token = ".".join(
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in (head, body, {})
    )
    provider = {"name": "oidc", "config": {"id-token": token, "idp-issuer-url": "https://issuer.example"}}
    path = files.simple({"auth-provider": provider})
    store = open_cluster(kubeconfig=str(path))
    assert store.access.token == token
    with pytest.raises(Unauthorized):  # this server knows no such issuer, and it did see the token
        store.perform(List(kind=NAMESPACE))
