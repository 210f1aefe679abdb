"""The one spelling of a value that digests are taken over, and the digest itself (section 6).

RFC 8785 for the data we have: keys sorted, no blanks, UTF-8, whole numbers, no nulls. An absent value has no key,
since the API server drops nulls and would break the chain; floats have no single spelling, so both are refused.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any


def canonical(value: Any) -> str:
    """The canonical JSON of a value; `ValueError` for a null or a float, which must never reach a digest."""
    _refuse_unspellable(value)
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def digest(value: Any) -> str:
    """`sha256:` and the hash of the canonical JSON."""
    return "sha256:" + hashlib.sha256(canonical(value).encode()).hexdigest()


def _refuse_unspellable(value: Any) -> None:
    if value is None or isinstance(value, float):
        raise ValueError(f"{value!r} has no canonical spelling")
    if isinstance(value, dict):
        for part in value.values():
            _refuse_unspellable(part)
    elif isinstance(value, list | tuple):
        for part in value:
            _refuse_unspellable(part)
