"""Planning objects with every name replaced and nothing else changed that a plan depends on.

New names sort as the old ones did, since the planner's ties end in names; owners are replaced part by part, so that
families stay families. Prose (messages, traces) and pod templates beyond what placing needs are dropped; digests are
made anew, so that the ledger's chain stays intact.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any

from planner.digest import digest

Json = dict[str, Any]

# Keys whose value is a name, wherever they stand in our specs.
KEYS = {
    "namespace": "namespace",
    "budget": "budget",
    "paidByBudget": "budget",
    "envelope": "envelope",
    "paidByEnvelope": "envelope",
    "node": "node",
    "nodeName": "node",
    "owner": "owner",
    "flavor": "flavor",
    "gpuType": "flavor",
}
LISTS = {"nodes": "node", "sponsors": "owner", "parents": "owner", "picks": "run_key", "givenBack": "run_key"}
KIND_NAMES = {
    "Namespace": "namespace",
    "Node": "node",
    "Pod": "pod",
    "Run": "run",
    "Reservation": "run",
    "Budget": "budget",
}
PLACING = ("nodeSelector", "affinity", "tolerations")
REQUESTS = ("resources", "restartPolicy")
PROSE = ("message", "conditions", "forecast", "resolution", "trace")


class Names:
    """What each name becomes; the new ones are numbered in the order of the old."""

    def __init__(self, objects: Sequence[Json]) -> None:
        found: dict[str, set[str]] = {}
        for category, name in (pair for obj in objects for pair in _names(obj)):
            found.setdefault(category, set()).add(name)
        # Flavors are products, not names of anybody's, and nodes spell them as labels.
        found["label"] = found.get("label", set()) - found.pop("flavor", set())
        self.owners = frozenset(found.get("owner", ()))
        found["owner"] = {part for owner in self.owners for part in owner.split(":")}
        self.new = {
            category: {name: f"{category}-{index:06d}" for index, name in enumerate(sorted(names))}
            for category, names in found.items()
        }

    def __call__(self, category: str, name: str) -> str:
        if category == "owner":
            return ":".join(self.new["owner"].get(part, part) for part in name.split(":"))
        if category == "run_key":
            namespace, _, run = name.partition("/")
            return f"{self('namespace', namespace)}/{self('run', run)}"
        return self.new.get(category, {}).get(name, name)

    def globs(self, patterns: Iterable[str]) -> list[str]:
        """A glob becomes the owners that it matches: parts of names must not show."""
        matched = {owner for owner in self.owners for pattern in patterns if fnmatchcase(owner, pattern)}
        return sorted({self("owner", owner) for owner in matched}) + ["*"] * ("*" in patterns)


def redacted(objects: Sequence[Json]) -> list[Json]:
    """The same planning state under other names."""
    names = Names(objects)
    made = [_object(copy.deepcopy(obj), names) for obj in objects]
    return _chained(made)


def _names(obj: Json) -> Iterable[tuple[str, str]]:
    """Every name that an object mentions, with its category."""
    metadata, kind = obj["metadata"], obj["kind"]
    if kind in KIND_NAMES:
        yield KIND_NAMES[kind], metadata["name"]
    if metadata.get("namespace"):
        yield "namespace", metadata["namespace"]
    if kind == "Namespace":
        yield from (("owner", owner) for owner in (metadata.get("annotations") or {}).values())
    if kind == "Node":
        yield from (("label", value) for value in _label_values(metadata))
    yield from _mentioned(obj.get("spec"))


def _label_values(metadata: Json) -> Iterable[str]:
    """Values of labels; numbers stay, since affinities may compare them."""
    return (value for value in (metadata.get("labels") or {}).values() if not re.fullmatch(r"-?\d+", value))


def _mentioned(part: Any) -> Iterable[tuple[str, str]]:
    found: list[tuple[str, str]] = []

    def note(category: str, name: str) -> str:
        if category == "run_key":
            namespace, _, run = name.partition("/")
            found.extend((("namespace", namespace), ("run", run)))
        else:
            found.append((category, name))
        return name

    _walk(part, note)
    return found


def _walk(part: Any, name: Callable[[str, str], str], inside: str = "") -> Any:
    """Calls `name` for every name in a spec and puts its answer in its place; `lending.to` holds globs and stays."""
    if isinstance(part, list):
        return [_walk(item, name, inside) for item in part]
    if not isinstance(part, dict):
        return part
    made: Json = {}
    for key, value in part.items():
        if key in KEYS and isinstance(value, str):
            made[key] = name(KEYS[key], value)
        elif key in LISTS and isinstance(value, list) and all(isinstance(item, str) for item in value):
            made[key] = [name(LISTS[key], item) for item in value]
        elif key == "name" and isinstance(value, str) and (category := _category(inside)):
            made[key] = name(category, value)
        elif key == "run" and isinstance(value, str):
            made[key] = name("run_key", value)
        elif key == "envelopes" and all(isinstance(item, str) for item in value):
            made[key] = [name("envelope", item) for item in value]
        elif key == "domain" and isinstance(value, str):
            made[key] = "/".join(name("label", item) for item in value.split("/"))
        elif inside == "selector" and isinstance(value, str):
            made[key] = value if value == "*" else name("label", value)
        else:
            made[key] = _walk(value, name, key)
    return made


def _category(inside: str) -> str:
    """What a `name` means by the key it stands under."""
    return {
        "runRef": "run",
        "run": "run",
        "reservation": "run",
        "podRef": "pod",
        "pod": "pod",
        "envelopes": "envelope",
        "aggregateCaps": "cap",
        "budgets": "budget",
        "nodes": "node",
    }.get(inside, "")


def _object(obj: Json, names: Names) -> Json:
    metadata, kind = obj["metadata"], obj["kind"]
    if kind in KIND_NAMES:
        metadata["name"] = names(KIND_NAMES[kind], metadata["name"])
    if metadata.get("namespace"):
        metadata["namespace"] = names("namespace", metadata["namespace"])
    if kind == "Namespace" and metadata.get("annotations"):
        metadata["annotations"] = {key: names("owner", value) for key, value in metadata["annotations"].items()}
    for reference in metadata.get("ownerReferences") or ():
        reference["name"] = names("run", reference["name"])
    labels = metadata.pop("labels", None) or {}
    if kind == "Node":
        metadata["labels"] = {key: names("label", value) for key, value in labels.items()}
    spec = obj.get("spec")
    if isinstance(spec, dict):
        template = spec.pop("template", None) if kind == "Run" else None
        made = _without_prose(_walk(spec, names))
        for part in _lendings(made):
            part["to"] = names.globs(part["to"])
        if template is not None:
            made["template"] = _template(template, names)
        obj["spec"] = made
    if kind == "Pod":
        obj["spec"]["containers"] = [_container(part) for part in obj["spec"].get("containers") or ()]
    if isinstance(obj.get("status"), dict):
        obj["status"] = _status(obj["status"])
    return obj


def _lendings(spec: Json) -> Iterable[Json]:
    for envelope in _envelopes(spec):
        if isinstance(envelope.get("lending"), dict) and envelope["lending"].get("to"):
            yield envelope["lending"]


def _envelopes(spec: Json) -> Iterable[Json]:
    """Envelopes of a budget, or of the budgets that an entry recorded."""
    for holder in (spec, *(spec.get("budgets") or ())):
        yield from (part for part in holder.get("envelopes") or () if isinstance(part, dict))


def _without_prose(spec: Any) -> Any:
    if isinstance(spec, dict):
        return {key: _without_prose(value) for key, value in spec.items() if key not in PROSE}
    return [_without_prose(item) for item in spec] if isinstance(spec, list) else spec


def _status(status: Json) -> Json:
    kept = ("closed", "endTime", "closureReason", "phase", "state", "reason", "allocatable", "conditions")
    made = {key: status[key] for key in kept if key in status}
    if "allocatable" not in made:
        made.pop("conditions", None)
    return made


def _template(template: Any, names: Names) -> Json:
    """What placing needs: requests, tolerations, selector and affinity."""
    spec = template.get("spec") or {} if isinstance(template, dict) else {}
    kept = {key: spec[key] for key in PLACING if key in spec}
    if "nodeSelector" in kept:
        kept["nodeSelector"] = {key: names("label", value) for key, value in kept["nodeSelector"].items()}
    if "affinity" in kept:
        kept["affinity"] = _affinity(kept["affinity"], names)
    for key in ("containers", "initContainers"):
        if key in spec:
            kept[key] = [_container(part) for part in spec[key]]
    return {"spec": kept}


def _affinity(part: Any, names: Names) -> Any:
    if isinstance(part, list):
        return [_affinity(item, names) for item in part]
    if not isinstance(part, dict):
        return part
    category = "node" if part.get("key") == "metadata.name" else "label"
    return {
        key: [names(category, word) for word in value] if key == "values" else _affinity(value, names)
        for key, value in part.items()
    }


def _container(part: Json) -> Json:
    return {"name": "main"} | {key: part[key] for key in REQUESTS if key in part}


def _chained(objects: list[Json]) -> list[Json]:
    """The ledger linked again: closes name the new leases' digests, each entry the one before, base its own."""
    leases = {(obj["metadata"]["namespace"], obj["metadata"]["name"]): obj for obj in objects if obj["kind"] == "Lease"}
    entries = sorted((obj for obj in objects if obj["kind"] == "LedgerEntry"), key=lambda obj: int(obj["spec"]["seq"]))
    digests: dict[int, str] = {}
    for obj in entries:
        spec = obj["spec"]
        for close in spec.get("closes") or ():
            lease = leases.get((close["namespace"], close["lease"]))
            if lease is not None:
                close["spec"] = digest(lease["spec"])
        spec["prev"] = digests.get(spec["seq"] - 1, spec["prev"])
        digests[spec["seq"]] = digest(spec)
    for obj in objects:
        if obj["kind"] == "Ledger":
            obj["spec"]["digest"] = digests.get(obj["spec"]["seq"], obj["spec"].get("digest"))
    return objects
