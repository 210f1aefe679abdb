"""`logs`: what a run's pods wrote, one rank or all of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kubectl_runs import errors
from kubectl_runs.flags import with_session

if TYPE_CHECKING:
    from kubectl_runs.session import Session

_RANK = re.compile(r".*-(\d+)")


@with_session
def command(
    session: Session,
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run", show_default=False)],
    rank: Annotated[int | None, typer.Option("--rank", metavar="N", min=0, help="Only this pod (default: all)")] = None,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on until it ends (one rank, default 0)")] = False,
    container: Annotated[str, typer.Option("-c", "--container", metavar="NAME", help="Container of the pod")] = "",
    tail: Annotated[int | None, typer.Option("--tail", metavar="N", min=0, help="Only the last lines")] = None,
) -> int:
    """Print what a run's pods wrote; of several ranks each line begins with its rank.

    Examples:
      kubectl runs logs train --rank 0
      kubectl runs logs train -f
    """
    from kubectl_runs.text import clean
    from kubectl_runs.wire.kinds import RUN

    pods = _pods(session, session.find(RUN, run))
    wanted = 0 if follow and rank is None else rank
    if wanted is not None and wanted not in pods:
        known = f"it has {len(pods)} pods" if pods else "it has no pods"
        raise errors.NotFoundError(f"run {run} has no rank {wanted}: {known}", hint=f"kubectl runs watch {run}")
    for number in sorted(pods) if wanted is None else [wanted]:
        prefix = f"{number}: " if wanted is None and len(pods) > 1 else ""
        pod = pods[number]["metadata"]
        for line in session.store.logs(pod["namespace"], pod["name"], container=container, follow=follow, tail=tail):
            session.out(prefix + clean(line))
    return 0


def _pods(session: Session, run: dict[str, Any]) -> dict[int, dict[str, Any]]:
    """The run's pods by rank, of the newest preparation that was bound: by owner reference, never by label."""
    from kubectl_runs.store.protocol import List
    from kubectl_runs.wire.kinds import POD

    metadata = run["metadata"]
    found: dict[int, dict[str, Any]] = {}
    items = session.store.perform(List(kind=POD, namespace=metadata["namespace"])).items
    for pod in sorted(items, key=lambda pod: str(pod["metadata"].get("creationTimestamp"))):
        owners = [owner.get("uid") for owner in pod["metadata"].get("ownerReferences") or ()]
        rank = _RANK.fullmatch(pod["metadata"]["name"])
        if metadata["uid"] in owners and rank and (pod.get("spec") or {}).get("nodeName"):
            found[int(rank[1])] = pod
    return found
