"""What every object has in common: names, labels, UIDs, versions, and the words of the server's refusals.

UIDs and generated names follow from the version under which an object is created, so that the same commands on a new
sandbox give the same world: tutorials and tests can print them.
"""

from __future__ import annotations

import hashlib
import re

from kubectl_runs.store.protocol import Conflict, Invalid, NotFound, Object, StoreError
from kubectl_runs.wire.kinds import BY_NAME, GROUP, Kind

NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
LABEL_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
ANNOTATIONS_MAX = 256 * 1024
# The letters of generated names, as Kubernetes has them: none that could spell a word.
LETTERS = "bcdfghjklmnpqrstvwxz2456789"


def resource(kind: Kind) -> str:
    """A kind in the server's messages: `pods`, `runs.rq.davidlangworthy.io`."""
    group = kind.api_version.rpartition("/")[0]
    return f"{kind.plural}.{group}" if group else kind.plural


def ours(kind: Kind) -> bool:
    return kind.api_version.startswith(GROUP)


def kind_of(value: Object) -> Kind:
    """The kind of an object; of one that we have no word for, what its object shows."""
    known = BY_NAME.get(str(value.get("kind")))
    if known is not None and known.api_version == value.get("apiVersion"):
        return known
    name = str(value.get("kind"))
    namespaced = bool(value["metadata"].get("namespace"))
    return Kind(name, f"{name.lower()}s", str(value.get("apiVersion")), namespaced=namespaced)


def not_found(kind: Kind, name: str) -> StoreError:
    return NotFound(f'{resource(kind)} "{name}" not found')


def conflict(kind: Kind, name: str, why: str) -> StoreError:
    return Conflict(f'operation cannot be fulfilled on {resource(kind)} "{name}": {why}')


def invalid(kind: Kind, name: str, field: str, why: str) -> StoreError:
    details = {"name": name, "kind": kind.name, "causes": [{"field": field, "message": why}]}
    return Invalid(f'{kind.name} "{name}" is invalid: {field}: {why}', details=details)


def uid(version: int, kind: Kind) -> str:
    """A UUID made from what no other object has: the version that creates it."""
    text = hashlib.sha256(f"{kind.name}/{version}".encode()).hexdigest()
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-a{text[17:20]}-{text[20:32]}"


def generated_name(prefix: str, version: int) -> str:
    """A prefix (cut to what fits) and five letters."""
    digest = hashlib.sha256(f"{prefix}/{version}".encode()).digest()
    return prefix[:58] + "".join(LETTERS[byte % len(LETTERS)] for byte in digest[:5])


def check(kind: Kind, value: Object) -> None:
    """The rules of names, labels and annotations that hold for every kind."""
    metadata = value["metadata"]
    name = metadata["name"]
    if not NAME.fullmatch(name) or len(name) > 253:
        raise invalid(kind, name, "metadata.name", "a lowercase RFC 1123 subdomain is needed")
    for key, word in (metadata.get("labels") or {}).items():
        if not LABEL_KEY.fullmatch(key) or len(key.rpartition("/")[2]) > 63:
            raise invalid(kind, name, "metadata.labels", f"{key!r} is no label key")
        if not isinstance(word, str) or not LABEL_VALUE.fullmatch(word) or len(word) > 63:
            raise invalid(kind, name, "metadata.labels", f"{word!r} is no label value")
    annotations = metadata.get("annotations") or {}
    if any(not isinstance(word, str) for word in annotations.values()):
        raise invalid(kind, name, "metadata.annotations", "values must be strings")
    if sum(len(key) + len(word) for key, word in annotations.items()) > ANNOTATIONS_MAX:
        raise invalid(kind, name, "metadata.annotations", f"must have at most {ANNOTATIONS_MAX} bytes")
