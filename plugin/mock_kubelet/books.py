"""The books of a kubelet's device manager: devices, health, who holds what. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

GRACE_S = 300.0
"""How long a resource whose plugin left keeps its capacity."""


class AdmissionError(Exception):
    """A pod is refused; it fails for good, as at the kubelet."""


@dataclass(slots=True)
class Inventory:
    """Devices of one resource as last told."""

    healthy: set[str] = field(default_factory=set)
    unhealthy: set[str] = field(default_factory=set)
    left_at: float | None = None

    def replace(self, devices: Iterable[tuple[str, bool]]) -> None:
        """Take a snapshot; it replaces everything before."""
        self.healthy, self.unhealthy = set(), set()
        for one, well in devices:
            (self.healthy if well else self.unhealthy).add(one)

    def lose(self, now_s: float) -> None:
        """The plugin is gone: nothing of it is healthy any more."""
        self.unhealthy |= self.healthy
        self.healthy = set()
        self.left_at = now_s


@dataclass(slots=True)
class Books:
    """Everything the manager remembers.

    Parameters
    ----------
    held
        IDs by (pod, container, resource).
    """

    inventories: dict[str, Inventory] = field(default_factory=dict)
    held: dict[tuple[str, str, str], frozenset[str]] = field(default_factory=dict)

    def capacity(self, now_s: float) -> tuple[dict[str, int], dict[str, int], list[str]]:
        """Capacity, allocatable, and resources dropped because their plugin stayed away."""
        removed = [
            name
            for name, inventory in self.inventories.items()
            if inventory.left_at is not None and now_s - inventory.left_at > GRACE_S
        ]
        for name in removed:
            del self.inventories[name]
        capacity = {n: len(i.healthy) + len(i.unhealthy) for n, i in self.inventories.items()}
        allocatable = {n: len(i.healthy) for n, i in self.inventories.items()}
        return capacity, allocatable, sorted(removed)

    def in_use(self, resource: str) -> set[str]:
        """IDs of a resource that containers hold."""
        return {one for (_, _, r), ids in self.held.items() if r == resource for one in ids}

    def free_pods(self, active: Iterable[str]) -> None:
        """Free what pods hold that are no longer active."""
        keep = set(active)
        self.held = {key: ids for key, ids in self.held.items() if key[0] in keep}

    def choose(
        self, resource: str, wanted: int, reusable: set[str]
    ) -> tuple[list[str], set[str], int]:
        """What a container can be given: IDs it takes for sure, those to choose from, how many.

        Raises
        ------
        AdmissionError
            The resource is unknown, has nothing healthy, or too little is free.
        """
        inventory = self.inventories.get(resource)
        if inventory is None:
            raise AdmissionError(f"cannot allocate unregistered device {resource}")
        if not inventory.healthy:
            raise AdmissionError(
                "no healthy devices present; cannot allocate unhealthy devices " + resource
            )
        sure = sorted(reusable)[:wanted]
        missing = wanted - len(sure)
        if not missing:
            return sure, set(), 0
        available = inventory.healthy - self.in_use(resource)
        if len(available) < missing:
            raise AdmissionError(
                "requested number of devices unavailable for "
                f"{resource}. Requested: {missing}, Available: {len(available)}"
            )
        return sure, available, missing
