"""Which cluster, which user: kubeconfig files read and merged the way kubectl does.

Decides precedence (flags, then the first file that says something, then the service account of a pod) and turns the
result into an `Access`. Anything that needs more than the common half (legacy `auth-provider` entries) is left to
`kubernetes.config`, which is imported only then.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kubectl_runs.store.access import Access, ConfigError, ExecPlugin, Impersonate, Pem
from kubectl_runs.store.protocol import Object

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
SECTIONS = ("clusters", "users", "contexts")
# Paths in these fields are relative to the file that holds them.
PATHS = {"clusters": ("certificate-authority",), "users": ("client-certificate", "client-key", "tokenFile")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What the flags say; empty means: as the files say."""

    kubeconfig: str = ""
    context: str = ""
    cluster: str = ""
    user: str = ""
    as_user: str = ""
    as_uid: str = ""
    as_groups: Sequence[str] = ()


@dataclass(slots=True)
class Merged:
    """All files as one: entries by name, each from the first file that names it."""

    files: list[Path]
    current: str = ""
    clusters: dict[str, Object] = field(default_factory=dict)
    users: dict[str, Object] = field(default_factory=dict)
    contexts: dict[str, Object] = field(default_factory=dict)


def resolve(choice: Choice) -> Access:
    """The access that kubectl would use with these flags."""
    merged = merge(files(choice))
    name = choice.context or merged.current
    if not name and not choice.cluster:
        return _in_cluster(choice) or _no_cluster(merged)
    context = _entry(merged, "contexts", name, "context") if name else {}
    cluster = _entry(merged, "clusters", choice.cluster or str(context.get("cluster") or ""), "cluster")
    user_name = choice.user or str(context.get("user") or "")
    user = _entry(merged, "users", user_name, "user") if user_name else {}
    if not cluster.get("server"):
        raise ConfigError(f"cluster of context {name!r} has no server", hint="kubectl config view --minify")
    if user.get("auth-provider"):
        return _by_library(merged, name, choice)
    return _access(name, context, cluster, user, choice)


def files(choice: Choice) -> list[Path]:
    """The files to merge: the flag's alone, else those of $KUBECONFIG that exist, else ~/.kube/config."""
    if choice.kubeconfig:
        path = Path(choice.kubeconfig)
        if not path.is_file():
            raise ConfigError(f"kubeconfig {path}: no such file")
        return [path]
    named = [Path(name) for name in os.environ.get("KUBECONFIG", "").split(os.pathsep) if name]
    candidates = list(dict.fromkeys(named)) or [Path.home() / ".kube" / "config"]
    return [path for path in candidates if path.is_file()]


def merge(paths: Sequence[Path]) -> Merged:
    """The first file to name a cluster, user, context or the current context wins."""
    merged = Merged(files=list(paths))
    for path in paths:
        config = _read(path)
        merged.current = merged.current or str(config.get("current-context") or "")
        for section in SECTIONS:
            entries: dict[str, Object] = getattr(merged, section)
            for item in config.get(section) or ():
                if isinstance(item, dict) and item.get("name") not in entries:
                    value = item.get(section[:-1]) or {}
                    entries[str(item.get("name"))] = _anchored(section, value, path.absolute().parent)
    return merged


def _read(path: Path) -> Object:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"kubeconfig {path}: {error}") from error
    try:
        value = json.loads(text) if text.lstrip().startswith("{") else _yaml(text)
    except ValueError as error:
        raise ConfigError(f"kubeconfig {path}: {' '.join(str(error).split())}") from error
    if value is not None and not isinstance(value, dict):
        raise ConfigError(f"kubeconfig {path}: not a mapping")
    return value or {}


def _yaml(text: str) -> Any:
    import yaml

    try:
        return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def _anchored(section: str, value: Object, folder: Path) -> Object:
    """Relative paths made absolute, so that the entry means the same after merging."""
    value = dict(value)
    for key in PATHS.get(section, ()):
        if value.get(key):
            value[key] = str(folder / str(value[key]))
    plugin = value.get("exec")
    if section == "users" and plugin and os.sep in str(plugin.get("command") or ""):
        value["exec"] = {**plugin, "command": str(folder / plugin["command"])}
    return value


def _entry(merged: Merged, section: str, name: str, word: str) -> Object:
    entries: dict[str, Object] = getattr(merged, section)
    if name not in entries:
        known = ", ".join(sorted(entries)) or "none"
        raise ConfigError(
            f"no {word} named {name!r} in the kubeconfig (there are: {known})", hint="kubectl config view"
        )
    return entries[name]


def _access(name: str, context: Object, cluster: Object, user: Object, choice: Choice) -> Access:
    insecure = cluster.get("insecure-skip-tls-verify") is True
    return Access(
        server=str(cluster["server"]),
        context=name,
        namespace=str(context.get("namespace") or "default"),
        ca=Pem() if insecure else _pem(cluster, "certificate-authority"),
        insecure=insecure,
        server_name=str(cluster.get("tls-server-name") or ""),
        proxy_url=str(cluster.get("proxy-url") or ""),
        certificate=_pem(user, "client-certificate"),
        key=_pem(user, "client-key"),
        token=str(user.get("token") or ""),
        token_file=str(user.get("tokenFile") or ""),
        username=str(user.get("username") or ""),
        password=str(user.get("password") or ""),
        exec_plugin=_exec_plugin(user.get("exec")),
        cluster_config=_cluster_config(cluster),
        impersonate=_impersonate(user, choice),
    )


def _pem(entry: Object, key: str) -> Pem:
    """`<key>-data` (base64) wins over the file `<key>`, as in kubectl."""
    if data := entry.get(f"{key}-data"):
        import base64

        try:
            return Pem(text=base64.b64decode(str(data), validate=False).decode("ascii"))
        except ValueError as error:
            raise ConfigError(f"{key}-data in the kubeconfig is not base64 of PEM: {error}") from error
    return Pem(file=str(entry.get(key) or ""))


def _exec_plugin(entry: Object | None) -> ExecPlugin | None:
    if not entry:
        return None
    return ExecPlugin(
        api_version=str(entry.get("apiVersion") or "client.authentication.k8s.io/v1"),
        command=str(entry.get("command") or ""),
        args=tuple(str(arg) for arg in entry.get("args") or ()),
        env=tuple((str(item["name"]), str(item["value"])) for item in entry.get("env") or ()),
        interactive_mode=str(entry.get("interactiveMode") or "IfAvailable"),
        provide_cluster_info=entry.get("provideClusterInfo") is True,
        install_hint=str(entry.get("installHint") or ""),
    )


def _cluster_config(cluster: Object) -> str:
    for item in cluster.get("extensions") or ():
        if item.get("name") == "client.authentication.k8s.io/exec":
            return json.dumps(item.get("extension"))
    return ""


def _impersonate(user: Object, choice: Choice) -> Impersonate:
    """Flags replace what the file says as a whole: groups of one user never stick to another."""
    if choice.as_user:
        return Impersonate(user=choice.as_user, uid=choice.as_uid, groups=tuple(choice.as_groups))
    if choice.as_groups or choice.as_uid:
        raise ConfigError("--as-group needs --as: whom should the server take us for", hint="add --as USER")
    extra = user.get("as-user-extra") or {}
    return Impersonate(
        user=str(user.get("as") or ""),
        uid=str(user.get("as-uid") or ""),
        groups=tuple(str(group) for group in user.get("as-groups") or ()),
        extra=tuple((str(key), tuple(map(str, values))) for key, values in sorted(extra.items())),
    )


def _in_cluster(choice: Choice) -> Access | None:
    """The service account of the pod we run in, if we run in one."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host or not (SERVICE_ACCOUNT / "token").is_file():
        return None
    own = SERVICE_ACCOUNT / "namespace"
    namespace = own.read_text(encoding="utf-8").strip() if own.is_file() else ""
    return Access(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        context="in-cluster",
        namespace=namespace or "default",
        ca=Pem(file=str(SERVICE_ACCOUNT / "ca.crt")),
        token_file=str(SERVICE_ACCOUNT / "token"),
        impersonate=_impersonate({}, choice),
    )


def _no_cluster(merged: Merged) -> Access:
    if merged.files:
        raise ConfigError(
            f"no current context in {', '.join(map(str, merged.files))}",
            hint="kubectl config use-context NAME, or --context NAME",
        )
    raise ConfigError("no kubeconfig found", hint="set KUBECONFIG, or try it without a cluster: --sandbox")


def _by_library(merged: Merged, context: str, choice: Choice) -> Access:
    """Legacy auth providers: the official client knows how to refresh their tokens. Costs 160 ms, so only here."""
    from kubernetes import client, config

    load: Any = config.load_kube_config
    settings: Any = client.Configuration()
    try:
        load(os.pathsep.join(map(str, merged.files)), context=context, client_configuration=settings)
    except Exception as error:  # the library raises whatever its providers raise
        raise ConfigError(f"context {context!r}: {error}") from error
    entry = merged.contexts[context]
    # Version 37 of the client calls it BearerToken, older ones authorization.
    token = str(settings.get_api_key_with_prefix("BearerToken", alias="authorization") or "")
    return Access(
        server=str(settings.host),
        context=context,
        namespace=str(entry.get("namespace") or "default"),
        ca=Pem(file=str(settings.ssl_ca_cert or "")),
        insecure=not settings.verify_ssl,
        server_name=str(getattr(settings, "tls_server_name", None) or ""),
        proxy_url=str(settings.proxy or ""),
        certificate=Pem(file=str(settings.cert_file or "")),
        key=Pem(file=str(settings.key_file or "")),
        token=token.removeprefix("Bearer "),
        impersonate=_impersonate(merged.users.get(str(entry.get("user")), {}), choice),
    )
