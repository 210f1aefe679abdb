"""How to reach one API server, and as whom: plain values, however they were found."""

from __future__ import annotations

from urllib.parse import quote

from kubectl_runs.store.protocol import StoreError
from planner.values import dataclass, field


class ConfigError(StoreError):
    """The kubeconfig does not say how to reach a cluster. `hint` is a command or setting that helps."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message, details={"hint": hint} if hint else {})
        self.hint = hint


@dataclass(frozen=True, slots=True, kw_only=True)
class Pem:
    """A certificate or a key: a file's path, or the text itself."""

    file: str = ""
    text: str = field(default="", repr=False)

    def __bool__(self) -> bool:
        return bool(self.file or self.text)


NO_PEM = Pem()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecPlugin:
    """A command that prints credentials (`ExecCredential`, v1 or v1beta1)."""

    api_version: str
    command: str
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    interactive_mode: str = "IfAvailable"
    provide_cluster_info: bool = False
    install_hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Impersonate:
    """Whom to act as."""

    user: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


NOBODY_ELSE = Impersonate()


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """One cluster and one user."""

    server: str
    context: str = ""
    namespace: str = "default"
    ca: Pem = NO_PEM
    insecure: bool = False
    server_name: str = ""
    proxy_url: str = ""
    certificate: Pem = NO_PEM
    key: Pem = NO_PEM
    token: str = field(default="", repr=False)
    token_file: str = ""
    username: str = ""
    password: str = field(default="", repr=False)
    exec_plugin: ExecPlugin | None = None
    cluster_config: str = ""  # the `config` of the exec extension, as JSON
    impersonate: Impersonate = NOBODY_ELSE

    def impersonation(self) -> tuple[tuple[str, str], ...]:
        """The headers that ask the server to treat us as somebody else."""
        who = self.impersonate
        headers = [("Impersonate-User", who.user)] if who.user else []
        headers += [("Impersonate-Uid", who.uid)] if who.uid else []
        headers += [("Impersonate-Group", group) for group in who.groups]
        headers += [
            (f"Impersonate-Extra-{quote(key, safe='')}", value) for key, values in who.extra for value in values
        ]
        if any(not value.isprintable() for _, value in headers):
            raise ConfigError("a control character in the user or group to act as")
        return tuple(headers)
