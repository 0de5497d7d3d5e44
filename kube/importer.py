"""A snapshot of a cluster to a spec, with a report of what was assumed and left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kube.affinity import BETWEEN_JOBS, kept_apart
from kube.assembly import Assembly
from kube.cluster import Cluster, ImportOptions
from kube.device_counts import settle_claims
from kube.flavors import in_flavors
from kube.holdings import Holdings
from kube.labels import KUEUE
from kube.node_entries import NodeEntries
from kube.queue_entries import QueueEntries
from kube.tenancy import Tenancy
from kube.volumes import settle_volumes
from kube.work_entries import WorkEntries
from specs.importers.writing import flow

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from kube.levels import Levels
    from kube.records import Node, Pod
    from kube.snapshot import Snapshot
    from kube.work import Work

HEADER = "# Imported from Kubernetes. Indices of GPUs are not in its API: they are assumed."
Entry = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """A spec as text, and which pods are behind its jobs.

    Parameters
    ----------
    running
        Name of each running job to the pods behind its replicas.
    pending
        Work that waits, by the name of its job.
    pods
        All pods on nodes of the input, and those that wait.
    nodes
        Nodes by name.
    levels
        Levels with their labels.
    admitted
        Names of running jobs that Kueue has admitted.
    """

    lines: tuple[str, ...]
    running: Mapping[str, tuple[Pod, ...]]
    pending: Mapping[str, Work]
    pods: tuple[Pod, ...]
    nodes: Mapping[str, Node]
    levels: Levels
    admitted: frozenset[str] = frozenset()

    @property
    def text(self) -> str:
        """The spec."""
        return "\n".join(self.lines) + "\n"


def import_cluster(snapshot: Snapshot, options: ImportOptions | None = None) -> Imported:
    """The spec of a cluster.

    Raises
    ------
    SpecErrors
        Objects were at fault, or a node has more GPUs than a node can have.
    """
    snapshot.check()
    _drop_strangers(snapshot)
    settle_claims(snapshot)
    settle_volumes(snapshot)
    cluster = Cluster(snapshot, options or ImportOptions())
    tenancy = Tenancy(snapshot)
    placed, waiting = Assembly(snapshot, tenancy).works()
    flavors, report = snapshot.flavors, snapshot.report
    waiting = [in_flavors(work, tenancy, flavors, report) for work in waiting]
    holdings = Holdings(cluster)
    holdings.hold(placed)
    holdings.lay_out()
    running = [told for work in placed if (told := holdings.told(work)) is not None]
    work_entries = WorkEntries(cluster, holdings)
    entries = [work_entries.running(work) for work in running]
    answered = [(work, entry) for work in waiting if (entry := work_entries.pending(work))]
    pending = [work for work, _ in answered]
    apart = kept_apart([*placed, *waiting])
    for work in pending:
        if work.name in apart:
            report.ignored.add(f"{BETWEEN_JOBS}, of pending pods", work.name)
    queues = QueueEntries(cluster, tenancy).entries({work.queue for work in [*running, *pending]})
    # Last, since only now it is known which labels are asked for.
    nodes = NodeEntries(cluster, holdings)
    sections: dict[str, list[Entry]] = {
        "queues": queues,
        "running": entries,
        "jobs": [entry for _, entry in answered],
    }
    return Imported(
        lines=tuple(
            _lines(cluster, [nodes.entry(node) for node in cluster.nodes.values()], sections)
        ),
        running=work_entries.replicas,
        pending={work.name: work for work in pending},
        pods=tuple(snapshot.pods.values()),
        nodes=cluster.nodes,
        levels=cluster.levels,
        admitted=_admitted(running, tenancy),
    )


def _admitted(running: Iterable[Work], tenancy: Tenancy) -> frozenset[str]:
    """Running jobs that Kueue has admitted, as their queue or the labels of their pods tell."""
    of_kueue = {name for key, name in tenancy.names.items() if key.kind == "ClusterQueue"}
    return frozenset(
        work.name
        for work in running
        if work.queue in of_kueue
        or any(
            key.startswith(KUEUE)
            for task in work.tasks
            for pod in task.pods
            for key, _ in pod.labels
        )
    )


def _drop_strangers(snapshot: Snapshot) -> None:
    """Pods on nodes that are not in the input hold nothing that is."""
    for key, pod in list(snapshot.pods.items()):
        if pod.node and pod.node not in snapshot.nodes:
            snapshot.report.ignored.add("pods on nodes that are not in the input", pod.full_name)
            del snapshot.pods[key]
        elif pod.leaving:
            snapshot.report.assumed.add("pods that are terminating still hold what they have")


def _lines(
    cluster: Cluster, nodes: list[Entry], sections: Mapping[str, list[Entry]]
) -> Iterator[str]:
    yield HEADER
    for choice, name in cluster.marks.choices.items():
        words = str(choice).encode("ascii", "backslashreplace").decode()
        yield f"# {name}: {words if len(words) < 300 else words[:299] + '...'}"
    yield "cluster:"
    yield "  name: kubernetes"
    if cluster.levels.keys:
        yield "  " + flow({"levels": tuple(cluster.levels.keys)})[1:-1]
    yield "  nodes:"
    for node in nodes:
        yield f"    - {flow(node)}"
    if any("mig" in node for node in nodes):
        # As device plugins have it: instances are there, and nobody cuts GPUs for a pod.
        yield "mig: " + flow({"cut_whole": False, "limit": 0})
    for name, entries in sections.items():
        if entries:
            yield f"{name}:"
            for entry in entries:
                yield f"  - {flow(entry)}"
