"""After a command's own work: settle others, and start what waited for the GPUs it freed (6.5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubectl_runs.errors import RunsError

if TYPE_CHECKING:
    from kubectl_runs.read import Reading
    from kubectl_runs.session import Session


def settle_others(session: Session, reading: Reading, own: str, *, freed: bool = False) -> None:
    """The command has done what it was asked: whatever goes wrong here is remarked and fails nothing."""
    from kubectl_runs.commit import others
    from kubectl_runs.commit.steps import drive
    from kubectl_runs.means import means
    from kubectl_runs.store.protocol import StoreError

    try:
        swept = drive(others.settle_others(reading, means(session), own, freed=freed), session.store)
    except (RunsError, StoreError) as error:
        session.note(f"others were not settled: {error.message}")
        return
    for key in swept.started if swept else ():
        session.note(f"started run {key}, which was waiting")
