"""Running and pending work of the spec."""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING, Any

from kube.claims import UNCLEAR
from kube.cluster import offer_label
from kube.devices import Unit
from kube.pods import CORDONED
from kube.selectors import NodeChoice
from solver.cluster import GPU_MILLI
from specs.importers.writing import Amount, cores, memory, share
from specs.models.quantity import MIB, MILLI

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kube.cluster import Cluster
    from kube.holdings import Holdings
    from kube.records import Pod, Template, Toleration
    from kube.work import Task, Work

Entry = dict[str, Any]
SEVERAL = "pods with several shares: each is a replica"
NOTHING_ELSE: Entry = {"cpu": Amount("0"), "memory": Amount("0")}
"""What a replica holds that stands for a further share of a pod, besides that share."""


class WorkEntries:
    """Work as the spec has it; `replicas` has the pod behind each replica of running jobs."""

    def __init__(self, cluster: Cluster, holdings: Holdings) -> None:
        self.cluster, self.holdings = cluster, holdings
        self._profiles = {
            placed.profile
            for gpus in holdings.gpus.values()
            for instances in gpus.cut.values()
            for placed in instances
            if placed.start is not None
        }
        self.replicas: dict[str, tuple[Pod, ...]] = {}
        self._units: dict[tuple[NodeChoice, str], Unit] = {}
        self._has_cordons = any(node.cordoned for node in cluster.nodes.values())
        self._several: dict[tuple[NodeChoice, str], bool] = {}

    def running(self, work: Work) -> Entry:
        """Work that holds what it holds."""
        entry: Entry = {"job": work.name}
        if work.queue:
            entry["queue"] = work.queue
        if work.priority:
            entry["priority"] = work.priority
        pods = [pod for task in work.tasks for pod in task.pods]
        replicas: list[Entry] = []
        behind: list[Pod] = []
        several = len(work.tasks) > 1
        requests = [self._held_request(task) for task in work.tasks]
        if several:
            entry["roles"] = tuple(
                {"name": task.role, "replicas": task.count, **self._where(task.template), **request}
                for task, request in zip(work.tasks, requests, strict=True)
            )
        else:
            entry |= self._where(work.tasks[0].template) | requests[0]
        for task in work.tasks:
            for pod in task.pods:
                own: Entry = {"node": pod.node}
                if several:
                    own["role"] = task.role
                parts = list(self._replicas(pod, own))
                replicas += parts
                behind += [pod] * len(parts)
        if not work.gang and len(replicas) > 1:
            entry["gang"] = False
        elif not several and work.tasks[0].least < len(replicas):
            entry["min"] = work.tasks[0].least
        if not all(pod.owned for pod in pods):
            entry["preemption"] = {"allowed": False}
            self.cluster.report.assumed.add(
                "running pods that nobody would make anew are not preempted", pods[0].full_name
            )
        elif work.fixed:
            entry["preemption"] = {"allowed": False}
            self.cluster.report.assumed.add(
                "running work that its scheduler stops for nobody is not preempted", work.name
            )
        elif any(pod.bound for pod in pods):
            entry["preemption"] = {"allowed": False}
            self.cluster.report.assumed.add(
                "pods of DaemonSets and of nodes are not preempted: they come back where they were",
                pods[0].full_name,
            )
        entry["replicas"] = tuple(replicas)
        self.replicas[work.name] = tuple(behind)
        return entry

    def _held_request(self, task: Task) -> Entry:
        """What each running pod of a task holds, besides GPUs that differ by node."""
        entry = _amounts(task.template)
        if slices := self.holdings.slices_of(task.pods[0]):
            entry["mig"] = dict(slices)
        milli = self.holdings.share_on(task.pods[0])
        return entry | {"gpus": share(milli)} if 0 < milli < GPU_MILLI else entry

    def _replicas(self, pod: Pod, own: Entry) -> Iterator[Entry]:
        """The replica of a running pod; shares of a sliced GPU are one replica each."""
        if (pod.namespace, pod.name) in self.holdings.at:
            for index, at in enumerate(self.holdings.at[pod.namespace, pod.name]):
                yield {**own, "gpus": (at,), **(NOTHING_ELSE if index else {})}
                if index == 1:
                    self.cluster.report.assumed.add(SEVERAL, pod.full_name)
            return
        whole, shares = 0, []
        for name, units in self.cluster.gpu_units(pod.template, pod.full_name).items():
            unit = self.cluster.devices.unit(name, self.cluster.nodes[pod.node])
            if unit.profile:
                continue
            if unit.parts == 1:
                whole += units
            else:
                shares += [max(1, GPU_MILLI // unit.parts)] * units
        if whole or not shares:
            yield {**own, "gpus": whole} if whole else own
        for index, milli in enumerate(shares):
            rest = NOTHING_ELSE if index or whole else {}
            yield {**own, "gpus": share(milli), **rest}
        if len(shares) > 1 or (whole and shares):
            self.cluster.report.assumed.add(SEVERAL, pod.full_name)

    def pending(self, work: Work) -> Entry | None:
        """Work that waits; None (and a remark) where a spec cannot say what it asks for."""
        tasks: list[Entry] = []
        for task in work.tasks:
            request = self._request(work, task)
            if request is None:
                return None
            tasks.append(self._where(task.template, request.pop("_selector", {})) | request)
        entry: Entry = {"name": work.name}
        if work.queue:
            entry["queue"] = work.queue
        if work.priority:
            entry["priority"] = work.priority
        if len(tasks) > 1:
            entry["roles"] = tuple(
                {"name": task.role, "replicas": task.count, **self._floor(work, task), **request}
                for task, request in zip(work.tasks, tasks, strict=True)
            )
        else:
            (task,) = work.tasks
            if task.count > 1:
                entry["replicas"] = task.count
            entry |= self._floor(work, task) | tasks[0]
        several = sum(task.count for task in work.tasks) > 1
        if several and not work.gang:
            entry["gang"] = False
        elif several and any("mig" in task for task in tasks):
            entry["across_instances"] = True  # in Kubernetes nothing forbids that
        entry |= self._together(work)
        self._say_ignored(work)
        return entry

    @staticmethod
    def _floor(work: Work, task: Task) -> Entry:
        return {"min": task.least} if work.gang and task.least < task.count else {}

    def _together(self, work: Work) -> Entry:
        entry: Entry = {}
        if work.topology is not None:
            key, required = work.topology
            level = self.cluster.levels.level_of(key)
            if level is None:
                self.cluster.report.ignored.add(
                    f"topology {key}, a label that no node has", work.name
                )
            else:
                mode = "required" if required else "preferred"
                entry["topology"] = {"within": level, "mode": mode}
        if work.spread is not None:
            level = self.cluster.levels.level_of(work.spread)
            if level is None:
                self.cluster.report.ignored.add(f"anti-affinity over {work.spread}", work.name)
            else:
                entry["spread"] = {"over": level, "max_per": 1}
        return entry

    def _say_ignored(self, work: Work) -> None:
        for task in work.tasks:
            for remark in task.template.ignored:
                if remark == CORDONED and not self._has_cordons:
                    continue
                self.cluster.report.ignored.add(f"{remark}, of pending pods", work.name, task.count)
            for name, amount in sorted(task.template.requests.items()):
                if (
                    amount
                    and name not in ("cpu", "memory")
                    and not self.cluster.devices.is_gpu(name)
                ):
                    self.cluster.report.ignored.add(
                        f"requests for {name}, of pending pods", work.name, task.count
                    )

    def _request(self, work: Work, task: Task) -> Entry | None:
        """What each pod of a task asks for; None (and a remark) if a spec cannot say it."""
        template = task.template
        if UNCLEAR in template.ignored:
            self.cluster.report.ignored.add(
                "pending pods with resource claims (DRA)", work.name, task.count
            )
            return None
        if template.share_devices > 1:
            remark = "pending pods that ask for shares of several GPUs"
            self.cluster.report.ignored.add(remark, work.name, task.count)
            return None
        entry = _amounts(template)
        if template.share_milli:
            gpus = template.share_milli < GPU_MILLI
            return entry | {"gpus": share(template.share_milli) if gpus else 1}
        if template.share_memory:
            return entry | {"gpu_memory": memory(ceil(Fraction(template.share_memory, MIB)))}
        units = self.cluster.gpu_units(template, work.name)
        if not units:
            return entry if entry else {"gpus": 0}
        if len(units) > 1:
            remark = "pending pods that ask for two kinds of GPU resources"
            self.cluster.report.ignored.add(remark, work.name, task.count)
            return None
        ((resource, wanted),) = units.items()
        unit = self._unit(template.choice, resource, work.name, task.count)
        if unit.profile and unit.profile not in self._profiles:
            remark = "pending pods that ask for MIG instances that no node has"
            self.cluster.report.ignored.add(remark, work.name, task.count)
            return None
        if len(self.cluster.kinds) > 1:
            label = offer_label(resource, unit)
            self.cluster.marks.labels.add(label)
            entry["_selector"] = {label: "yes"}
        if unit.profile:
            if unit.parts > 1:
                remark = "a share of a MIG instance is planned as all of it"
                self.cluster.report.assumed.add(remark, work.name, task.count)
            return {"mig": {unit.profile: wanted}, **entry}
        if unit.parts == 1:
            return {"gpus": wanted, **entry}
        milli = GPU_MILLI // unit.parts * wanted
        if wanted > 1:
            remark = "several shares of a GPU are taken as one share, or as whole GPUs"
            self.cluster.report.assumed.add(remark, work.name, task.count)
        if wanted < unit.parts:
            return {"gpus": share(max(1, milli)), **entry}
        return {"gpus": -(-wanted // unit.parts), **entry}

    def _unit(self, choice: NodeChoice, resource: str, name: str, count: int) -> Unit:
        """What a unit of a resource is for pods that may run on the chosen nodes."""
        key = (choice, resource)
        if key not in self._units:
            nodes = self.cluster.nodes
            offers = {
                name: offer[resource]
                for name, offer in self.cluster.offered.items()
                if resource in offer
            }
            chosen = {
                unit for at, unit in offers.items() if choice.allows(nodes[at].labels, at)
            } or set(offers.values())
            named = Unit(1, self.cluster.devices.profile(resource))
            self._units[key] = min(
                chosen, key=lambda unit: (bool(unit.profile), unit.parts), default=named
            )
            self._several[key] = len(chosen) > 1
        if self._several[key]:
            remark = (
                f"{resource} is a whole GPU on some nodes and a part on others: the largest, on "
                "nodes that have it"
            )
            self.cluster.report.assumed.add(remark, name, count)
        return self._units[key]

    def _where(self, template: Template, more: Mapping[str, str] = {}) -> Entry:
        selector = dict(template.choice.labels)
        self.cluster.marks.labels |= selector.keys()
        if template.choice.terms is not None:
            rest = NodeChoice(terms=template.choice.terms)
            selector[
                self.cluster.marks.choices.setdefault(
                    rest, f"affinity-{len(self.cluster.marks.choices) + 1}"
                )
            ] = "yes"
        selector |= more
        entry: Entry = {"node_selector": selector} if selector else {}
        if template.tolerations:
            entry["tolerations"] = tuple(_toleration(one) for one in template.tolerations)
        return entry


def _amounts(template: Template) -> Entry:
    entry: Entry = {}
    if cpu := ceil(template.requests.get("cpu", Fraction(0)) * MILLI):
        entry["cpu"] = cores(cpu)
    if mib := ceil(template.requests.get("memory", Fraction(0)) / MIB):
        entry["memory"] = memory(mib)
    return entry


def _toleration(one: Toleration) -> Entry:
    names = ("key", "operator", "value", "effect")
    return {name: value for name, value in zip(names, one, strict=True) if value}
