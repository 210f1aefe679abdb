"""Who is asked to pay, and in which order: the organisation tree, its families and a run's lenders (C3, C4, C5).

Decides the order of asking and nothing about headroom. Everything goes through `parents`: siblings share a parent,
cousins are children of a parent's siblings. Only owners that hold a Budget can pay, but any owner has parents.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from functools import lru_cache

from planner.model import AggregateCap, Budget, Domain, Envelope, FundingClass, Lending, Payer, Run
from planner.values import dataclass


class Relation(StrEnum):
    """What a source is to the run's owner; the words of `explain`."""

    OWN = "own"
    SIBLING = "sibling"
    PARENT = "parent"
    SPONSOR = "sponsor"
    SPONSOR_PARENT = "sponsor's parent"
    COUSIN = "cousin"


FAMILY = (Relation.OWN, Relation.SIBLING, Relation.PARENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Purse:
    """An envelope with the budget and owner it belongs to."""

    budget: Budget
    envelope: Envelope
    payer: Payer

    @property
    def owner(self) -> str:
        return self.budget.owner


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One asking: an envelope, or a named sponsor that has none of the flavor (`purse` None)."""

    owner: str
    relation: Relation
    purse: Purse | None
    rule: str = ""  # C3.1 .. C3.6, known once the domain is
    passed: bool = False  # passed over, never asked: it shares with nobody (C4)

    @property
    def funding(self) -> FundingClass:
        if self.relation is Relation.OWN:
            return FundingClass.OWNED
        return FundingClass.SHARED if self.relation in FAMILY else FundingClass.BORROWED


class Tree:
    """The organisation as the budgets describe it, indexed once per snapshot."""

    def __init__(self, budgets: Iterable[Budget]) -> None:
        ordered = sorted(budgets, key=lambda budget: budget.name)
        self.purses: dict[str, list[Purse]] = {}
        self._by_payer: dict[Payer, Purse] = {}
        self._caps: dict[Payer, tuple[tuple[AggregateCap, tuple[Purse, ...]], ...]] = {}
        self._parents: dict[str, tuple[str, ...]] = {}
        self._siblings: dict[str, tuple[str, ...]] = {}
        for budget in ordered:
            self._add(budget)
        self.owners = tuple(sorted(self._parents))

    def _add(self, budget: Budget) -> None:
        mine = self.purses.setdefault(budget.owner, [])
        for envelope in sorted(budget.envelopes, key=lambda envelope: envelope.name):
            purse = Purse(budget=budget, envelope=envelope, payer=Payer(budget.name, envelope.name))
            mine.append(purse)
            self._by_payer[purse.payer] = purse
        parents = budget.parents if budget.parents is not None else path_parent(budget.owner)
        known = self._parents.get(budget.owner, ())
        self._parents[budget.owner] = tuple(sorted({*known, *parents}))

    def parents(self, owner: str) -> tuple[str, ...]:
        """The owner's parents; by its path where no Budget of it says otherwise (section 4)."""
        known = self._parents.get(owner)
        return path_parent(owner) if known is None else known

    def siblings(self, owner: str) -> tuple[str, ...]:
        """Owners that share a parent, by name."""
        if owner not in self._siblings:
            mine = set(self.parents(owner))
            self._siblings[owner] = tuple(
                other for other in self.owners if other != owner and not mine.isdisjoint(self.parents(other))
            )
        return self._siblings[owner]

    def cousins(self, owner: str) -> tuple[str, ...]:
        """Children of the parents' siblings, outside the family; an aunt needs no Budget of her own."""
        parents = self.parents(owner)
        grandparents = {parent: set(self.parents(parent)) for parent in parents}
        family = {owner, *parents, *self.siblings(owner)}

        def is_aunt(candidate: str) -> bool:
            above = self.parents(candidate)
            return any(candidate != parent and not tops.isdisjoint(above) for parent, tops in grandparents.items())

        return tuple(
            other
            for other in self.owners
            if other not in family and any(is_aunt(parent) for parent in self.parents(other) if parent not in parents)
        )

    def of_flavor(self, owner: str, flavor: str) -> tuple[Purse, ...]:
        """The owner's envelopes of a flavor by (budget, name) (C3)."""
        return tuple(purse for purse in self.purses.get(owner, ()) if purse.envelope.flavor == flavor)

    def purse(self, payer: Payer) -> Purse | None:
        return self._by_payer.get(payer)

    def caps(self, purse: Purse) -> tuple[tuple[AggregateCap, tuple[Purse, ...]], ...]:
        """The aggregate caps that name an envelope, by name, each with all the envelopes it names."""
        if purse.payer not in self._caps:
            self._caps[purse.payer] = tuple(
                (cap, tuple(other for other in self.purses[purse.owner] if _capped(cap, purse.budget, other)))
                for cap in sorted(purse.budget.caps, key=lambda cap: cap.name)
                if _capped(cap, purse.budget, purse)
            )
        return self._caps[purse.payer]


class Lineup:
    """Everybody a run may ask, before any domain is known; `at` puts them in the order for one domain."""

    def __init__(self, tree: Tree, run: Run) -> None:
        self._tree, self._run = tree, run
        self._family = tuple(self._family_sources())
        self._lenders = tuple(self._lender_sources())
        self._orders: dict[tuple[bool, ...], tuple[Source, ...]] = {}

    def at(self, domain: Domain) -> tuple[Source, ...]:
        """C3: nearer family, farther family, then lenders, of each lender the same location first."""
        kind = self.location(domain)
        if kind not in self._orders:
            self._orders[kind] = tuple(self._order(domain))
        return self._orders[kind]

    def location(self, domain: Domain) -> tuple[bool, ...]:
        """Which of the sources are at the domain: domains of one kind are asked for in the same order (C1)."""
        everybody = (*self._family, *self._lenders)
        return tuple(source.purse is None or source.purse.envelope.selector.matches(domain) for source in everybody)

    def _order(self, domain: Domain) -> Iterable[Source]:
        here = [source for source in self._family if _matches(source, domain)]
        away = [source for source in self._family if not _matches(source, domain)]
        for source in here:
            yield _under(source, "C3.1" if source.relation is Relation.OWN else "C3.2")
        for source in away:
            yield _under(source, "C3.3")
        for block in _by_owner(self._lenders):
            yield from (source for source in block if _matches(source, domain))
            yield from (source for source in block if not _matches(source, domain))

    def _family_sources(self) -> Iterable[Source]:
        tree, owner = self._tree, self._run.owner
        siblings, parents = tree.siblings(owner), tree.parents(owner)
        relatives = [(owner, Relation.OWN)]
        relatives += [(name, Relation.SIBLING) for name in siblings if name not in parents]
        relatives += [(name, Relation.PARENT) for name in parents if name != owner]
        for name, relation in relatives:
            for purse in tree.of_flavor(name, self._run.flavor):
                # C4: `sharing: none` serves only its owner and its borrowers.
                closed = relation is not Relation.OWN and purse.envelope.sharing == "none"
                yield Source(owner=name, relation=relation, purse=purse, passed=closed)

    def _lender_sources(self) -> Iterable[Source]:
        # C5: with no sponsor named, only the family pays.
        sponsors = tuple(dict.fromkeys(self._run.funding.sponsors))
        asked = {source.purse.payer for source in self._family if source.purse and not source.passed}
        for name in sponsors:
            purses: Sequence[Purse | None] = self._tree.of_flavor(name, self._run.flavor) or (None,)
            for purse in purses:
                if purse is not None:
                    asked.add(purse.payer)
                yield Source(owner=name, relation=Relation.SPONSOR, purse=purse, rule="C3.4")
        if not self._run.funding.allow_borrow:
            return
        above = dict.fromkeys(parent for name in sponsors for parent in self._tree.parents(name))
        yield from self._admitting(above, Relation.SPONSOR_PARENT, "C3.5", asked)
        cousins = self._tree.cousins(self._run.owner) if sponsors else ()
        yield from self._admitting(cousins, Relation.COUSIN, "C3.6", asked)

    def _admitting(self, owners: Iterable[str], relation: Relation, rule: str, asked: set[Payer]) -> Iterable[Source]:
        """C3 (5) and (6): only envelopes whose lending policy admits the owner, and nobody twice."""
        for name in owners:
            for purse in self._tree.of_flavor(name, self._run.flavor):
                if purse.payer not in asked and admits(purse.envelope.lending, self._run.owner):
                    asked.add(purse.payer)
                    yield Source(owner=name, relation=relation, purse=purse, rule=rule)


def path_parent(owner: str) -> tuple[str, ...]:
    """The owner's path without its last part; a root has no parent."""
    head, colon, _ = owner.rpartition(":")
    return (head,) if colon else ()


def admits(lending: Lending, borrower: str) -> bool:
    """C5: lending is allowed and a glob matches; an empty list lends to nobody."""
    return lending.allow and any(glob_matches(glob, borrower) for glob in lending.to)


def glob_matches(glob: str, owner: str) -> bool:
    """`*` matches any run of characters, `:` included (section 4); everything else is literal."""
    return _pattern(glob).fullmatch(owner) is not None


@lru_cache(maxsize=1024)
def _pattern(glob: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(part) for part in glob.split("*")), re.DOTALL)


def funding_class(tree: Tree, run: Run, purse: Purse) -> FundingClass:
    """How a payer whose class was not recorded pays for a run: a reservation names only its envelopes."""
    if purse.owner == run.owner:
        return FundingClass.OWNED
    related = purse.owner in tree.parents(run.owner) or purse.owner in tree.siblings(run.owner)
    return FundingClass.SHARED if related and purse.envelope.sharing != "none" else FundingClass.BORROWED


def _capped(cap: AggregateCap, budget: Budget, purse: Purse) -> bool:
    return purse.budget.name == budget.name and purse.envelope.name in cap.envelopes


def _matches(source: Source, domain: Domain) -> bool:
    return source.purse is None or source.purse.envelope.selector.matches(domain)


def _under(source: Source, rule: str) -> Source:
    return Source(owner=source.owner, relation=source.relation, purse=source.purse, rule=rule, passed=source.passed)


def _by_owner(sources: Sequence[Source]) -> Iterable[tuple[Source, ...]]:
    blocks: dict[tuple[str, str], list[Source]] = {}
    for source in sources:
        blocks.setdefault((source.rule, source.owner), []).append(source)
    return (tuple(block) for block in blocks.values())
