"""Where nodes are: from labels to levels, groups and NVLink domains."""

from __future__ import annotations

from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import TYPE_CHECKING

from kube.labels import DOMAINS, HOSTNAME, LEVELS
from solver.cluster import BUILT_IN_LEVELS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kube.records import Node


@dataclass(frozen=True, slots=True)
class Levels:
    """Levels of a cluster, outermost first, and the labels behind them.

    Parameters
    ----------
    keys
        Name of the level to the label that has its groups.
    domains
        Labels of the NVLink domain, the first that is there counts.
    """

    keys: Mapping[str, str]
    domains: tuple[str, ...] = DOMAINS

    def location(self, labels: Mapping[str, str]) -> dict[str, str]:
        """Groups that a node is in."""
        found = {level: labels[key] for level, key in self.keys.items() if labels.get(key)}
        domain = next((labels[key] for key in self.domains if labels.get(key)), None)
        return found if domain is None else {**found, "domain": domain}

    def level_of(self, key: str) -> str | None:
        """The level that a label stands for; None where it stands for none."""
        if key == HOSTNAME:
            return "node"
        if key in self.domains:
            return "domain"
        return next((level for level, own in self.keys.items() if own == key), None)


def find_levels(
    nodes: Iterable[Node],
    given: Sequence[tuple[str, str]] = (),
    topology_keys: Sequence[str] = (),
    domains: Sequence[str] = (),
) -> Levels:
    """Levels of a cluster.

    Parameters
    ----------
    given
        Name and label of levels that the user says, outermost first; then only those count.
    topology_keys
        Labels of Topology objects; without `given` only those count.
    domains
        Further labels of NVLink domains, looked at first.
    """
    present = {key for node in nodes for key in node.labels}
    own = tuple(domains)
    pairs = list(given)
    if not pairs and topology_keys:
        names = {key: name for name, key in LEVELS}
        wanted = [key for key in topology_keys if key != HOSTNAME and key not in DOMAINS]
        pairs = [(names.get(key) or _short(key), key) for key in wanted]
    elif not pairs:
        pairs = [(name, key) for name, key in LEVELS if key not in own]
    keys: dict[str, str] = {}
    for name, key in pairs:
        if key not in present:
            continue
        unique, number = f"level-{name}" if name in BUILT_IN_LEVELS else name, 2
        while unique in keys:
            unique, number = f"{name}-{number}", number + 1
        keys[unique] = key
    return Levels(keys, (*own, *(key for key in DOMAINS if key not in keys.values())))


def merged(topologies: Sequence[Sequence[str]]) -> tuple[tuple[str, ...], bool]:
    """Labels of several topologies in one order, outermost first, and whether they are one line.

    They are if each label is above the next in some topology. Where one topology has the order of
    another the other way round, labels come as they are first named.
    """
    sorter: TopologicalSorter[str] = TopologicalSorter()
    steps = {step for line in topologies for step in pairwise(line)}
    for line in topologies:
        for key in line:
            sorter.add(key)
        for above, below in pairwise(line):
            sorter.add(below, above)
    try:
        keys = tuple(sorter.static_order())
    except CycleError:
        keys = tuple(dict.fromkeys(key for line in topologies for key in line))
    return keys, all(step in steps for step in pairwise(keys))


def _short(key: str) -> str:
    """A name for the level of a label: what stands behind its prefix."""
    return key.rpartition("/")[2].removeprefix("topology-") or key
