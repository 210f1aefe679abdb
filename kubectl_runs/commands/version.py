"""`version`: which build this is. Contacts nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubectl_runs import __version__
from kubectl_runs.flags import with_session

if TYPE_CHECKING:
    from kubectl_runs.session import Session


@with_session
def command(session: Session) -> None:
    """Print the version.

    Examples:
      kubectl runs version
      kubectl runs version -o json
    """
    if not session.data({"version": __version__}):
        session.out(f"kubectl-runs {__version__}")
