"""Leases that something has ended already and that still hold their GPUs until a Close (6.6).

They count as held wherever work is started, and as gone wherever somebody asks who should yield: nobody is cut for
GPUs that are being freed anyway.
"""

from __future__ import annotations

from planner.model import Snapshot


def ending_leases(snapshot: Snapshot) -> dict[str, str]:
    """Keys of leases in the `ends` of an entry, each with the reason that the first of them gives (6.6)."""
    found: dict[str, str] = {}
    for entry in sorted(snapshot.entries, key=lambda entry: entry.seq):
        if not entry.void:
            for ended in entry.ends:
                found.setdefault(f"{ended.namespace}/{ended.lease}", ended.reason)
    return found
