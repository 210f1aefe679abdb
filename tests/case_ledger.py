"""The ledger of a case: shorthand for entries and the base, with digests computed here and not by the product.

An entry names its parts in short: `run: rai/x`, a seat as `{node, gpus, payer}`, a close as `{lease, gpuSeconds,
payer}`. `prev` follows the entry before it unless the case writes one.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

Json = dict[str, Any]
API = "rq.davidlangworthy.io/v1"
NO_DIGEST = "sha256:" + "0" * 64


def digest(value: Any) -> str:
    """Section 6: keys sorted, no blanks, UTF-8."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def ledger(book: Json, owner: str) -> list[Json]:
    """`book` is `{base: {...}, entries: [...]}`; entries are numbered on from `first`, or from the base."""
    out: list[Json] = []
    base = book.get("base")
    seq = book.get("first", (base or {}).get("seq", 0) + 1)
    prev, digests = NO_DIGEST, dict[int, str]()
    for row in book.get("entries", []):
        made = entry(seq, prev, dict(row), owner)
        prev = digests[seq] = digest(made["spec"])
        out.append(made)
        seq += 1
    if base is not None:
        spec = {
            "digest": digests.get(base["seq"], NO_DIGEST),
            "time": "2026-01-05T09:00:00Z",
            "floor": 0,
            "pending": [],
            "settled": [],
            **base,
        }
        out.append({"apiVersion": API, "kind": "Ledger", "metadata": {"name": "base"}, "spec": spec})
    return out


def entry(seq: int, prev: str, row: Json, owner: str) -> Json:
    created = row.pop("created", "2026-01-05T11:00:00Z")
    namespace, name = row.pop("run", "rai/none").split("/")
    spec = {
        "seq": seq,
        "prev": row.pop("prev", prev),
        "nonce": f"{seq:032x}",
        "readAt": created,
        "kind": row.pop("kind"),
        "run": {"namespace": namespace, "name": name, "uid": f"uid-{name}", "attempt": row.pop("attempt", 1)},
    }
    if "opens" in row:
        spec["opens"] = [opened(seq, index, seat, owner) for index, seat in enumerate(row.pop("opens"))]
    for part in ("ends", "closes"):
        if part in row:
            spec[part] = [with_payer({"namespace": namespace, **one}) for one in row.pop(part)]
    spec |= row
    meta = {"name": f"{seq:012d}", "uid": f"uid-entry-{seq}", "creationTimestamp": created}
    return {"apiVersion": API, "kind": "LedgerEntry", "metadata": meta, "spec": spec}


def opened(seq: int, index: int, seat: Json, owner: str) -> Json:
    made = {"lease": f"l-{seq}-{index}", "role": "Active", "group": 0, "owner": owner, "class": "owned"}
    made |= {"reason": "Start", **seat}
    if made["role"] != "Spare":
        made.setdefault("pod", {"name": f"pod-{seq}-{index}", "uid": f"uid-pod-{seq}-{index}"})
    return with_payer(made)


def with_payer(part: Json) -> Json:
    if "payer" in part:
        part = dict(part)
        part["budget"], part["envelope"] = part.pop("payer").split("/")
        part.setdefault("class", "owned")
    return part
