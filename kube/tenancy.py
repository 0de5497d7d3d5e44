"""Queues of all kinds as one tree of names: those in the input, and those that only others name."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from kube.queues import KAI_PRIORITY, VOLCANO_ROOT
from kube.records import Queue, QueueKey

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kube.records import LocalQueue
    from kube.snapshot import Snapshot

WORKED_IN = ("ClusterQueue", "Volcano", "KAI")
"""Kinds of queues that work names, in the order in which a name is looked up."""
DEFAULT = "default"
UNQUEUED = "unqueued"
"""Name of the queue of work that names none, where a queue of the input is called `default`."""


class Tenancy:
    """The queues of a snapshot.

    `queues` has them by key, parents that are not in the input among them.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.queues: dict[QueueKey, Queue] = dict(snapshot.queues)
        self._local: Mapping[tuple[str, str], LocalQueue] = snapshot.local_queues
        self._report = snapshot.report
        for queue in snapshot.queues.values():
            if queue.parent is None or queue.parent in self.queues:
                continue
            if queue.parent == QueueKey("Volcano", VOLCANO_ROOT):
                self.queues[queue.key] = replace(queue, parent=None)
            else:
                priority = KAI_PRIORITY if queue.parent.kind == "KAI" else 0
                self.queues[queue.parent] = Queue(key=queue.parent, priority=priority)
        self._break_circles()

    @cached_property
    def names(self) -> Mapping[QueueKey, str]:
        """Names in the spec: their own, or with the kind where another kind has the same."""
        kinds = (*WORKED_IN, "Cohort")
        names: dict[QueueKey, str] = {}
        taken: set[str] = set()
        for key in sorted(self.queues, key=lambda key: kinds.index(key.kind)):
            name = key.name
            while name in taken:
                name = f"{key.kind.lower()}/{name}"
            if name != key.name and key.kind in WORKED_IN:
                remark = "queues of two kinds with one name: work that names it is in the first"
                self._report.assumed.add(remark, key.name)
            taken.add(name)
            names[key] = name
        return {key: names[key] for key in self.queues}

    @cached_property
    def unqueued(self) -> str:
        """Name of the queue of work that names none; empty: `default`, which nobody else has."""
        taken, name = set(self.names.values()), UNQUEUED
        while name in taken:
            name = f"{name}-work"
        return name if DEFAULT in taken else ""

    def of_work(self, namespace: str, named: str) -> str:
        """Name in the spec of the queue that work of a namespace names; empty where it has none."""
        if not named:
            return self.unqueued
        local = self._local.get((namespace, named))
        return named if local is None else local.cluster_queue

    def held(self, namespace: str, named: str) -> str:
        """Why pending work that names a queue does not start; empty where it does."""
        local = self._local.get((namespace, named))
        if local is not None and local.held:
            return f"pending work of LocalQueue {namespace}/{named}, {local.held}"
        name = named if local is None else local.cluster_queue
        for kind in WORKED_IN:
            queue = self.queues.get(QueueKey(kind, name))
            if queue is not None:
                return f"pending work of queue {name}, {queue.held}" if queue.held else ""
        return ""

    def _break_circles(self) -> None:
        """No queue is above itself: where parents lead in a circle, one of them is left out."""
        for key in list(self.queues):
            seen, at = {key}, self.queues[key].parent
            while at is not None and at not in seen:
                seen.add(at)
                at = self.queues[at].parent
            if at == key:
                self._report.ignored.add("parents of queues that lead in a circle", key.name)
                self.queues[key] = replace(self.queues[key], parent=None)
