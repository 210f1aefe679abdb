"""An entry before it has a number: what a command wants recorded, and how it becomes the object to create.

A draft does not change when its append loses a race: only number, `prev` and nonce do, and with the number the names
of the leases it opens. Whether it may still be appended is decided in `append`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from kubectl_runs.errors import RunsError
from kubectl_runs.wire import encode
from kubectl_runs.wire.encode import Json
from kubectl_runs.wire.kinds import API_VERSION
from kubectl_runs.wire.times import rfc3339
from planner.digest import canonical
from planner.model import Closed, DrawRecord, Ended, EntryKind, Freeze, Lease, Opened, Reservation, Run, RunRef
from planner.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """One decision, whole. `opens` have no lease names yet; they follow from the number."""

    kind: EntryKind
    run: RunRef | None = None
    reservation: RunRef | None = None
    budgets: tuple[Json, ...] = ()
    plan: str = ""
    trace: tuple[Json, ...] = ()
    opens: tuple[Opened, ...] = ()
    ends: tuple[Ended, ...] = ()
    closes: tuple[Closed, ...] = ()
    reserve: Reservation | None = None
    freeze: Freeze | None = None
    draw: DrawRecord | None = None


def run_ref(run: Run, attempt: int) -> RunRef:
    """Whom an entry is about."""
    return RunRef(namespace=run.namespace, name=run.name, uid=run.uid, attempt=max(1, attempt))


def ends_of(leases: Iterable[Lease], reason: str) -> tuple[Ended, ...]:
    """These leases are to end, all for one reason."""
    return tuple(Ended(namespace=lease.namespace, lease=lease.name, reason=str(reason)) for lease in leases)


def named(opens: Iterable[Opened], seq: int) -> tuple[Opened, ...]:
    """The leases of entry `seq`: `l-<seq>-<i>` (6.5)."""
    return tuple(replace(open_, lease=encode.lease_name(seq, index)) for index, open_ in enumerate(opens))


def entry_object(draft: Draft, *, seq: int, prev: str, nonce: str, read_at: int) -> Json:
    """The LedgerEntry to create, refused if etcd could not hold it."""
    spec = {"seq": seq, "prev": prev, "nonce": nonce, "readAt": rfc3339(read_at), "kind": draft.kind.value}
    spec |= encode.present(
        run=encode.run_ref(draft.run) if draft.run else None,
        reservation=encode.object_ref(draft.reservation) if draft.reservation else None,
        budgets=list(draft.budgets),
        plan=draft.plan,
        trace=list(draft.trace),
        opens=[encode.opened(open_) for open_ in named(draft.opens, seq)],
        ends=[encode.ended(end) for end in draft.ends],
        closes=[encode.closed(close) for close in draft.closes],
        reserve=encode.reservation_spec(draft.reserve) if draft.reserve else None,
        freeze=encode.freeze(draft.freeze) if draft.freeze else None,
        draw=encode.draw(draft.draw) if draft.draw else None,
    )
    size = len(canonical(spec).encode())
    if size > encode.ENTRY_BYTES_MAX:
        raise RunsError(
            f"the decision needs a ledger entry of {size} bytes for {len(draft.opens)} leases, "
            f"and an entry has at most {encode.ENTRY_BYTES_MAX}"
        )
    metadata = {"name": encode.entry_name(seq)}
    return {"apiVersion": API_VERSION, "kind": "LedgerEntry", "metadata": metadata, "spec": spec}
