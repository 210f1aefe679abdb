"""Whose rights the sandbox goes by: one user, who may do everything, unless `--as` says otherwise.

`--as auditor` has the auditor's role, `--as operator`, `daemon` and `admin` all rights, any other name a researcher's
in every namespace. The roles are those that `install` ships.
"""

from __future__ import annotations

from functools import cache

from kubectl_runs.store.protocol import Forbidden
from kubectl_runs.store.sandbox import metadata as meta
from kubectl_runs.wire.kinds import LEDGER_ENTRY, Kind

UNBOUND = ("", "operator", "daemon", "admin")


class Rights:
    """What one user may do."""

    def __init__(self, user: str = "") -> None:
        self.user = user

    def allow(self, verb: str, kind: Kind, subresource: str = "") -> bool:
        if self.user in UNBOUND:
            return True
        group = kind.api_version.rpartition("/")[0]
        resource = f"{kind.plural}/{subresource}" if subresource else kind.plural
        return (group, resource, verb) in _granted("auditor" if self.user == "auditor" else "researcher")

    @property
    def resolve(self) -> bool:
        """Whether it may cut others, move the floor, and anything downward (section 7)."""
        return self.allow("resolve", LEDGER_ENTRY)

    def check(self, verb: str, kind: Kind, subresource: str = "") -> None:
        if not self.allow(verb, kind, subresource):
            name = f"{meta.resource(kind)}/{subresource}" if subresource else meta.resource(kind)
            raise Forbidden(f'{name} is forbidden: user "{self.user}" cannot {verb} it')


@cache
def _granted(role: str) -> frozenset[tuple[str, str, str]]:
    from kubectl_runs.wire import roles

    names = {"auditor": (roles.AUDITOR,), "researcher": (roles.RESEARCHER, roles.RESEARCHER_CLUSTER)}[role]
    rules = [rule for item in roles.roles() if item["metadata"]["name"] in names for rule in item["rules"]]
    return frozenset(
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    )
