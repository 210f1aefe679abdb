"""Proving who we are: tokens, certificates, exec plugins, and the TLS they go over.

Decides when a credential is fetched again (a token file every minute, a plugin's at its expiry or after a 401). Where
they come from was decided by `kubeconfig`.
"""

from __future__ import annotations

import base64
import json
import os
import ssl
import sys
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

from kubectl_runs.store.access import NO_PEM, Access, ConfigError, ExecPlugin, Pem
from kubectl_runs.store.http import Endpoint
from kubectl_runs.store.protocol import Object
from kubectl_runs.store.proxy import Proxy
from planner.values import dataclass, field

TOKEN_FILE_SECONDS = 60
EXEC_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What is shown to the server, and until when (Unix seconds) it may be."""

    token: str = field(default="", repr=False)
    certificate: Pem = NO_PEM
    key: Pem = NO_PEM
    expires_at: float | None = None


class Credentials:
    """The credentials of one access, fetched when they are first needed."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._proof: Proof | None = None
        self._lock = threading.Lock()

    def proof(self) -> Proof:
        """What to show, fetched if there is none or it has expired."""
        with self._lock:  # a plugin is asked once, however many threads begin at once
            proof = self._proof
            if proof is None or (proof.expires_at is not None and time.time() >= proof.expires_at):
                proof = self._proof = self._fetch()
            return proof

    def headers(self, proof: Proof) -> tuple[tuple[str, str], ...]:
        """The Authorization header, if this access has one."""
        if proof.token:
            return (("Authorization", f"Bearer {proof.token}"),)
        if self._access.username:
            pair = f"{self._access.username}:{self._access.password}".encode()
            return (("Authorization", f"Basic {base64.b64encode(pair).decode()}"),)
        return ()

    def endpoint(self) -> Endpoint:
        """Where to connect to, with the client certificate loaded."""
        access = self._access
        url = urlsplit(access.server if "://" in access.server else f"https://{access.server}")
        if url.scheme not in ("http", "https") or not url.hostname:
            raise ConfigError(f"server {access.server!r} of context {access.context!r} is no http(s) URL")
        secure = url.scheme == "https"
        return Endpoint(
            host=url.hostname,
            port=url.port or (443 if secure else 80),
            prefix=url.path.rstrip("/"),
            tls=_tls(access, self.proof()) if secure else None,
            server_name=access.server_name,
            proxy=_proxy(access.proxy_url or _environment_proxy(url.scheme, url.hostname)),
        )

    def refresh(self, refused: Proof) -> bool:
        """Forget what was refused, unless another thread has done so; false when nothing newer can be had."""
        with self._lock:
            if self._proof is refused:
                self._proof = None
        return bool(self._access.exec_plugin or self._access.token_file)

    def _fetch(self) -> Proof:
        access = self._access
        certificate, key = access.certificate, access.key
        # A token in the kubeconfig wins over its tokenFile only when there is no such file: kubectl reads the file.
        if access.token_file:
            token = _read_token(access.token_file)
            return Proof(token=token, certificate=certificate, key=key, expires_at=time.time() + TOKEN_FILE_SECONDS)
        if access.token or access.exec_plugin is None:
            return Proof(token=access.token, certificate=certificate, key=key)
        return _ask_plugin(access, access.exec_plugin)


def _read_token(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ConfigError(f"token file {path}: {error.strerror}") from error


def _ask_plugin(access: Access, plugin: ExecPlugin) -> Proof:
    import subprocess

    if plugin.api_version not in EXEC_VERSIONS:
        raise ConfigError(f"exec plugin {plugin.command}: apiVersion {plugin.api_version} is not supported")
    interactive = plugin.interactive_mode != "Never" and sys.stdin is not None and sys.stdin.isatty()
    if plugin.interactive_mode == "Always" and not interactive:
        raise ConfigError(f"exec plugin {plugin.command} needs a terminal (interactiveMode Always)")
    environment = {**os.environ, **dict(plugin.env), "KUBERNETES_EXEC_INFO": _exec_info(access, plugin, interactive)}
    try:
        result = subprocess.run(
            [plugin.command, *plugin.args],
            env=environment,
            stdin=None if interactive else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            check=False,
        )
    except OSError as error:
        message = f"exec plugin {plugin.command} cannot be started: {error.strerror}"
        raise ConfigError(message, hint=plugin.install_hint) from error
    if result.returncode:
        raise ConfigError(f"exec plugin {plugin.command} failed with exit code {result.returncode}")
    return _plugin_proof(plugin, result.stdout)


def _exec_info(access: Access, plugin: ExecPlugin, interactive: bool) -> str:
    spec: Object = {"interactive": interactive}
    if plugin.provide_cluster_info:
        cluster: Object = {"server": access.server}
        if access.server_name:
            cluster["tls-server-name"] = access.server_name
        if access.insecure:
            cluster["insecure-skip-tls-verify"] = True
        if access.ca:
            cluster["certificate-authority-data"] = base64.b64encode(_pem_text(access.ca).encode()).decode()
        if access.cluster_config:
            cluster["config"] = json.loads(access.cluster_config)
        spec["cluster"] = cluster
    return json.dumps({"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec})


def _plugin_proof(plugin: ExecPlugin, output: bytes) -> Proof:
    try:
        credential = json.loads(output)
        given = credential["status"]
        api_version = credential["apiVersion"]
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"exec plugin {plugin.command} printed no ExecCredential with a status") from error
    if api_version != plugin.api_version:
        raise ConfigError(f"exec plugin {plugin.command} answered {api_version}, asked for {plugin.api_version}")
    proof = Proof(
        token=str(given.get("token") or ""),
        certificate=Pem(text=str(given.get("clientCertificateData") or "")),
        key=Pem(text=str(given.get("clientKeyData") or "")),
        expires_at=_expiry(given.get("expirationTimestamp")),
    )
    if not proof.token and not (proof.certificate and proof.key):
        raise ConfigError(f"exec plugin {plugin.command} gave neither a token nor a certificate with its key")
    return proof


def _expiry(text: str | None) -> float | None:
    if not text:
        return None
    from datetime import datetime

    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError as error:
        raise ConfigError(f"exec plugin: expirationTimestamp {text!r} is no time") from error


def _tls(access: Access, proof: Proof) -> ssl.SSLContext:
    """Only the cluster's CA is trusted where one is given: loading the system's costs 15 ms and trusts too much."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        if access.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif access.ca:
            context.load_verify_locations(cafile=access.ca.file or None, cadata=access.ca.text or None)
        else:
            context.load_default_certs()
    except (OSError, ValueError) as error:
        raise ConfigError(f"certificate authority of {access.context!r}: {error}") from error
    if proof.certificate:
        _load_pair(context, access, proof)
    return context


def _load_pair(context: ssl.SSLContext, access: Access, proof: Proof) -> None:
    """Load certificate and key; texts go through a private file that lives as long as the call, as ssl wants files."""
    if not proof.key:
        raise ConfigError(f"user of context {access.context!r} has a client certificate but no key")
    made: list[Path] = []
    try:
        certificate, key = (pem.file or _private_file(pem.text, made) for pem in (proof.certificate, proof.key))
        context.load_cert_chain(certificate, key, password=_no_password)
    except (OSError, ValueError) as error:
        raise ConfigError(f"client certificate of {access.context!r}: {error}") from error
    finally:
        for path in made:
            path.unlink()


def _no_password() -> str:
    raise ValueError("the key is encrypted")


def _private_file(text: str, made: list[Path]) -> str:
    import tempfile

    handle, path = tempfile.mkstemp(prefix="kubectl-runs-")
    made.append(Path(path))
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(text)
    return path


def _pem_text(pem: Pem) -> str:
    return pem.text or Path(pem.file).read_text(encoding="ascii")


def _environment_proxy(scheme: str, host: str) -> str:
    """HTTPS_PROXY and NO_PROXY, looked at only when one of them is set: urllib.request costs 20 ms."""
    if not any(name in os.environ for name in (f"{scheme}_proxy", f"{scheme.upper()}_PROXY")):
        return ""
    from urllib.request import getproxies_environment, proxy_bypass

    if host in ("localhost", "127.0.0.1", "::1") or proxy_bypass(host):
        return ""
    return getproxies_environment().get(scheme, "")


def _proxy(url: str) -> Proxy | None:
    try:
        return Proxy.of(url) if url else None
    except ValueError as error:
        raise ConfigError(f"proxy {error}") from None
