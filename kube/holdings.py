"""What running pods hold of each node, and which GPUs a node therefore has."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING

from kube.claims import UNCLEAR
from kube.devices import Gpus, TooManyGpusError, gpus_of, memory_mib_of
from solver.cluster import GPU_MILLI
from specs.errors import SpecErrors, SpecFault
from specs.models.quantity import MIB

MAX_SLICES = 2000
"""More instances than that are on no node."""
OF_OTHERS = "pods that share a MIG instance with others: the first of them holds it"
Slices = tuple[tuple[str, int], ...]

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kube.cluster import Cluster
    from kube.records import Pod
    from kube.work import Task, Work


@dataclass
class Held:
    """What running pods hold of one node.

    Parameters
    ----------
    units
        Units of GPU resources.
    cpu, memory
        Cores and bytes of pods that are part of the node.
    shares
        Mark of the shared GPU, thousandths, and the pod.
    slices
        Profile of each MIG instance, and the job that holds it.
    pods
        How many there are.
    """

    units: Counter[str] = field(default_factory=Counter)
    cpu: Fraction = Fraction(0)
    memory: Fraction = Fraction(0)
    shares: list[tuple[str, int, tuple[str, str]]] = field(default_factory=list)
    slices: list[tuple[str, str]] = field(default_factory=list)
    pods: int = 0


class Holdings:
    """What running pods hold, by node.

    `at` has the GPUs of each pod that shares some, `slices` the MIG instances that each pod holds:
    of pods that share one, the first.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.held: dict[str, Held] = defaultdict(Held)
        self.at: dict[tuple[str, str], list[int]] = defaultdict(list)
        self.slices: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        self.gpus: dict[str, Gpus] = {}

    def hold(self, running: Sequence[Work]) -> None:
        """Add up what running work holds."""
        for work in running:
            for pod in (pod for task in work.tasks for pod in task.pods):
                held, requests = self.held[pod.node], pod.template.requests
                held.pods += 1
                if self.reserved(pod):
                    held.cpu += requests.get("cpu", 0)
                    held.memory += requests.get("memory", 0)
                    self.cluster.report.assumed.add(
                        "pods of DaemonSets and of nodes count as reserved"
                    )
                elif milli := self.share_on(pod):
                    marks = dict(enumerate(pod.gpu_groups))
                    held.shares += [
                        (marks.get(at, ""), milli, (pod.namespace, pod.name))
                        for at in range(pod.template.share_devices)
                    ]
                else:
                    for name, units in self.cluster.gpu_units(pod.template, pod.full_name).items():
                        before = held.units[name]
                        held.units[name] += units
                        unit = self.cluster.devices.unit(name, self.cluster.nodes[pod.node])
                        if unit.profile:
                            count = -(-(before + units) // unit.parts) - -(-before // unit.parts)
                            self._slices(pod, unit.profile, count)
                            held.slices += [(unit.profile, work.name)] * min(count, MAX_SLICES)
                            if not count:
                                self.cluster.report.assumed.add(OF_OTHERS, pod.full_name)
                for remark in pod.template.ignored:
                    if remark.startswith("GPU sharing"):
                        self.cluster.report.ignored.add(
                            f"{remark}, of running pods: they may hold more", pod.full_name
                        )
                if UNCLEAR in pod.template.ignored:
                    self.cluster.report.ignored.add(
                        "GPUs that running pods hold by resource claims (DRA)", pod.full_name
                    )

    def _slices(self, pod: Pod, profile: str, count: int) -> None:
        if count:
            self.slices[pod.namespace, pod.name][profile] += count

    def reserved(self, pod: Pod) -> bool:
        """Whether a pod counts as reserved of its node: part of it, and without GPUs."""
        template = pod.template
        gpus = any(self.cluster.devices.is_gpu(name) for name in template.requests)
        return pod.bound and not gpus and not template.share_milli and not template.share_memory

    def slices_of(self, pod: Pod) -> Slices:
        """Profiles of MIG instances that a running pod holds, and how many of each."""
        return tuple(sorted(self.slices.get((pod.namespace, pod.name), {}).items()))

    def share_on(self, pod: Pod) -> int:
        """Thousandths of a GPU that a running pod holds by annotation, 0 where there is none."""
        template = pod.template
        if template.share_milli:
            return min(template.share_milli, GPU_MILLI)
        if not template.share_memory:
            return 0
        memory_mib = memory_mib_of(self.cluster.nodes[pod.node])
        if not memory_mib:
            self.cluster.report.assumed.add(
                "a share by memory on a GPU of unknown memory is all of it", pod.full_name
            )
            return GPU_MILLI
        wanted = Fraction(template.share_memory * GPU_MILLI, memory_mib * MIB)
        return min(ceil(wanted), GPU_MILLI)

    def lay_out(self) -> None:
        """The GPUs of each node, and which of them pods share by annotation."""
        faults = []
        for name, node in self.cluster.nodes.items():
            held = self.held[name]
            loads: list[int] = []
            groups: dict[str, int] = {}
            for group, milli, pod in sorted(held.shares):
                own = self.at[pod]
                at = groups.get(group, -1) if group else _first_with_room(loads, milli, own)
                if at < 0 or loads[at] + milli > GPU_MILLI:
                    at = len(loads)
                    loads.append(0)
                if group:
                    groups[group] = at
                loads[at] += milli
                own.append(at)
            try:
                gpus = gpus_of(node, self.cluster.devices, held.units, len(loads))
            except TooManyGpusError as error:
                faults.append(SpecFault(file="input", path=f"Node {name}", rule=str(error)))
                continue
            self.gpus[name] = gpus
            for remark in gpus.assumed:
                self.cluster.report.assumed.add(remark, name)
        if faults:
            raise SpecErrors(faults)

    def told(self, work: Work) -> Work | None:
        """The work as the spec tells it: without pods that count as reserved.

        Pods that hold different parts of a GPU, or other MIG instances, are in tasks of their own.
        None: nothing is left.
        """
        tasks: list[Task] = []
        for task in work.tasks:
            alike: dict[tuple[int, Slices], list[Pod]] = defaultdict(list)
            for pod in task.pods:
                if not self.reserved(pod):
                    alike[self.share_on(pod), self.slices_of(pod)].append(pod)
            cut = len({slices for _, slices in alike}) > 1
            for number, ((milli, _), pods) in enumerate(sorted(alike.items())):
                part = number if cut else milli
                role = task.role if len(alike) == 1 else f"{task.role}-{part}"
                least = min(task.least, len(pods))
                tasks.append(
                    replace(task, role=role, pods=tuple(pods), count=len(pods), least=least)
                )
        return replace(work, tasks=tuple(tasks)) if tasks else None


def _first_with_room(loads: Sequence[int], milli: int, but: Sequence[int]) -> int:
    """The first GPU with room for a share, other than those of the pod itself; -1: none."""
    fits = (at for at, load in enumerate(loads) if load + milli <= GPU_MILLI and at not in but)
    return next(fits, -1)
