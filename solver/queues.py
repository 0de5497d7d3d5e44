"""The hierarchy of queues."""

from __future__ import annotations

from collections.abc import Iterable

from solver.workload import Queue


def subtree(queues: Iterable[Queue], root: str) -> tuple[str, ...]:
    """Names of a queue and of all queues below it, in the order given."""
    parent = {queue.name: queue.parent for queue in queues}

    def below(name: str) -> bool:
        seen: set[str] = set()
        above: str | None = name
        while above is not None and above not in seen:
            if above == root:
                return True
            seen.add(above)
            above = parent.get(above)
        return False

    return tuple(name for name in parent if below(name))
