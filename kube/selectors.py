"""Node selectors and required node affinity, as the scheduler reads them.

A pod may run on a node that carries all labels of ``nodeSelector`` and satisfies at least one of
the terms of its required node affinity; a term is satisfied by all of its requirements, and an
empty term by no node.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from specs.importers.fields import Fields

OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_INTEGER = re.compile(r"[+-]?\d{1,18}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on a label of the node, or on its name (`key` None)."""

    key: str | None
    operator: str
    values: tuple[str, ...]

    def holds(self, labels: Mapping[str, str], name: str) -> bool:
        """Whether a node meets it."""
        value = name if self.key is None else labels.get(self.key)
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
        limit = self.values[0] if len(self.values) == 1 else ""
        if value is None or not _INTEGER.fullmatch(value) or not _INTEGER.fullmatch(limit):
            return False
        return int(value) > int(limit) if self.operator == "Gt" else int(value) < int(limit)

    def __str__(self) -> str:
        key = "name" if self.key is None else self.key
        if self.operator in ("Exists", "DoesNotExist"):
            return f"{key} {self.operator}"
        return f"{key} {self.operator} [{', '.join(self.values)}]"


Term = tuple[Requirement, ...]


@dataclass(frozen=True, slots=True)
class NodeChoice:
    """Where a pod may run. `terms` None: no affinity; an empty tuple: nowhere."""

    labels: tuple[tuple[str, str], ...] = ()
    terms: tuple[Term, ...] | None = None

    def allows(self, labels: Mapping[str, str], name: str) -> bool:
        """Whether a node will do."""
        if any(labels.get(key) != value for key, value in self.labels):
            return False
        if self.terms is None:
            return True
        return any(term and all(r.holds(labels, name) for r in term) for term in self.terms)

    def simplified(self) -> NodeChoice:
        """The same choice, with affinity that is no more than a selector made one."""
        if self.terms is None or len(self.terms) != 1 or not self.terms[0]:
            return self
        own = dict(self.labels)
        for need in self.terms[0]:
            if need.key is None or need.operator != "In" or len(need.values) != 1:
                return self
            if own.setdefault(need.key, need.values[0]) != need.values[0]:
                return self
        return NodeChoice(labels=tuple(sorted(own.items())))

    def within(self, terms: tuple[Term, ...]) -> NodeChoice:
        """The same choice among nodes that also satisfy one of the terms."""
        if self.terms is None:
            return NodeChoice(self.labels, terms).simplified()
        both = tuple(one + two for one in self.terms if one for two in terms if two)
        return NodeChoice(self.labels, both).simplified()

    def labelled(self, label: str, value: str) -> NodeChoice:
        """The same choice among nodes with a label."""
        return NodeChoice((*self.labels, (label, value)), self.terms)

    @property
    def keys(self) -> set[str]:
        """Labels that the choice looks at by themselves."""
        return {key for key, _ in self.labels}

    def __str__(self) -> str:
        return " or ".join(" and ".join(map(str, term)) for term in self.terms or ())


def read_choice(spec: Fields) -> NodeChoice:
    """Node selector and required node affinity of a pod spec.

    Raises
    ------
    ObjectFault
        A field has the wrong type, or an operator is none of the API's.
    """
    labels = tuple(sorted(spec.table("nodeSelector").items()))
    required = spec.map("affinity", "nodeAffinity")
    if not required.has("requiredDuringSchedulingIgnoredDuringExecution"):
        return NodeChoice(labels)
    selector = required.map("requiredDuringSchedulingIgnoredDuringExecution")
    return NodeChoice(labels, read_terms(selector)).simplified()


def read_terms(selector: Fields) -> tuple[Term, ...]:
    """Terms of a node selector, of which a node has to satisfy one.

    Raises
    ------
    ObjectFault
        A field has the wrong type, or an operator is none of the API's.
    """
    return tuple(_term(term) for term in selector.maps("nodeSelectorTerms"))


def _term(term: Fields) -> Term:
    found = [read_requirement(entry, entry.text("key")) for entry in term.maps("matchExpressions")]
    for entry in term.maps("matchFields"):
        if entry.text("key") != "metadata.name":
            raise entry.fault("key", "metadata.name is the only such field", entry.text("key"))
        found.append(read_requirement(entry, None))
    return tuple(found)


def read_requirement(entry: Fields, key: str | None) -> Requirement:
    """One condition, on a label or (`key` None) on the name.

    Raises
    ------
    ObjectFault
        The operator is none of the API's.
    """
    operator = entry.text("operator")
    if key == "":
        raise entry.fault("key", "a requirement is about a label")
    if operator not in OPERATORS:
        raise entry.fault("operator", f"one of {', '.join(OPERATORS)}", operator)
    return Requirement(key, operator, entry.words("values"))
