"""Pods and controllers to jobs: what starts together, under which name, queue and priority."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from kube.membership import KINDS
from kube.proximity import gang_topology
from kube.records import GroupKey
from kube.work import IMPLICIT_ROLE, Task, Work, distinct, tasks_of
from specs.models.base import MAX_COUNT, MAX_NAME

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kube.records import Group, Pod, Template
    from kube.snapshot import Snapshot
    from kube.tenancy import Tenancy

SYSTEM_PRIORITIES = {
    "system-node-critical": 2_000_001_000,
    "system-cluster-critical": 2_000_000_000,
}
RAY_CLUSTER = re.compile(r"(.+?)(?:-raycluster)?-[a-z0-9]{1,5}")
"""Names of the RayClusters of a RayJob, as KubeRay makes them."""
REST = "rest"
"""End of the name of what waits of a job that partly runs."""


class Assembly:
    """Jobs out of a snapshot; what is assumed and left out goes into its report."""

    def __init__(self, snapshot: Snapshot, tenancy: Tenancy) -> None:
        self._snapshot = snapshot
        self._tenancy = tenancy
        self._report = snapshot.report
        self._names: set[str] = set()
        self._by_name: set[GroupKey] = set()
        # A Workload (or another Group) speaks for the pods of the object that it stands for.
        self._for: dict[GroupKey, Group] = {
            group.stands_for: group
            for group in snapshot.groups.values()
            if group.stands_for is not None and group.key.kind == "Workload"
        }

    def works(self) -> tuple[list[Work], list[Work]]:
        """Running and pending jobs, the pending ones in order of arrival."""
        placed: dict[GroupKey, list[Pod]] = defaultdict(list)
        waiting: dict[GroupKey, list[Pod]] = defaultdict(list)
        for pod in self._snapshot.pods.values():
            (placed if pod.node else waiting)[pod.group].append(pod)
        names = {key: self._name(key) for key in dict.fromkeys([*placed, *waiting])}
        running = [self._running(names[key], key, pods) for key, pods in placed.items()]
        pending = []
        for key, pods in waiting.items():
            name = f"{names[key]}/{REST}" if key in placed else names[key]
            work = self._pending(_fitting(name), key, pods, len(placed.get(key, ())))
            if work is not None:
                pending.append(work)
        have_pods = {*placed, *waiting}
        have_pods |= {self._above(key) for key in have_pods}
        # Pods of a Job of Volcano start by their PodGroup.
        have_pods |= {pod.made_by for pod in self._snapshot.pods.values() if pod.made_by}
        pending += self._to_be_made(have_pods)
        pending.sort(key=lambda work: work.created)
        return running, pending

    # What an object says about the pods of a group

    def _above(self, key: GroupKey) -> GroupKey:
        """What a Workload stands for that speaks for the pods of a group: mostly the group.

        RayJobs make RayClusters, whose pods bear nothing of the RayJob but its name in that of
        the cluster.
        """
        if key in self._for or key.kind != "RayCluster":
            return key
        own = self._snapshot.groups.get(key)
        if own is not None:
            return own.stands_for or key
        made_by = RAY_CLUSTER.fullmatch(key.name)
        job = GroupKey("RayJob", key.namespace, made_by[1]) if made_by else key
        if job not in self._for:
            return key
        if key not in self._by_name:
            remark = "RayClusters are of the RayJobs that their names tell"
            self._report.assumed.add(remark, str(key))
            self._by_name.add(key)
        return job

    def _says(self, key: GroupKey) -> Group | None:
        own = self._snapshot.groups.get(key)
        above = self._for.get(self._above(key))
        if own is None or above is None:
            return above or own
        return replace(
            above,
            least=above.least if above.least is not None else own.least,
            independent=False,
            topology=above.topology or own.topology,
            queue=above.queue or own.queue,
        )

    @staticmethod
    def _named(group: Group | None, pods: Sequence[Pod] = ()) -> str:
        """The queue that a job names, as it names it."""
        named = group.queue if group is not None else ""
        return named or next((pod.queue for pod in pods if pod.queue), "")

    def _topology(
        self, name: str, group: Group | None, parts: list[tuple[str, Template]]
    ) -> tuple[str, bool] | None:
        """The topology rule of a gang: what its object says, or what its parts come to."""
        if group is not None and group.topology is not None:
            return group.topology
        found = gang_topology(parts)
        for remark in found.ignored:
            self._report.ignored.add(remark, name)
        return found.rule

    def _priority(self, template: Template, group: Group | None = None) -> int:
        values = {**SYSTEM_PRIORITIES, **self._snapshot.priority_classes}
        if group is not None and group.priority is not None:
            return group.priority
        if template.priority is not None:
            return template.priority
        for name in (template.priority_class, group.priority_class if group else ""):
            if name in values and name:
                return values[name]
            if name:
                self._report.assumed.add(f"priority class {name} is not in the input: its default")
        return values.get("", 0)

    # Jobs

    def _running(self, name: str, key: GroupKey, pods: list[Pod]) -> Work:
        says = self._says(key)
        gang, least = self._gang(key, says, pods)
        tasks = tasks_of(pods)
        if len(tasks) > 1 or least is None or least >= len(pods):
            least = None  # the whole gang is the unit
        if least == 0:
            gang = False
        single = len(tasks) == 1
        priority = min(self._priority(task.template, says) for task in tasks)
        return Work(
            name=name,
            key=key,
            tasks=tuple(replace(task, least=least or task.count) for task in tasks)
            if single
            else tuple(tasks),
            queue=self._tenancy.of_work(key.namespace, self._named(says, pods)),
            priority=priority,
            gang=gang,
            created="",
            fixed=_fixed(says, priority) or any(pod.fixed for pod in pods),
        )

    def _gang(
        self, key: GroupKey, says: Group | None, pods: Iterable[Pod]
    ) -> tuple[bool, int | None]:
        """Whether pods of a group start together, and how many of them; None: all."""
        if says is None:
            gang = not all(pod.independent for pod in pods)
            if gang and key.kind == "PodGroup":
                self._report.assumed.add(
                    "pods of a PodGroup that is not in the input start all together", str(key)
                )
            return gang, None
        if says.least is not None:
            return says.least > 1, says.least
        if says.members and says.key.kind != "Job":
            return True, sum(member.least for member in says.members)
        return not says.independent, None

    def _pending(self, name: str, key: GroupKey, pods: list[Pod], placed: int) -> Work | None:
        says = self._says(key)
        if says is not None and says.key.kind == "Workload" and says.state == "held":
            self._report.ignored.add("pods of Workloads that are inactive or finished", name)
            return None
        named = self._named(says, pods)
        if self._held(key.namespace, named, name):
            return None
        for pod in pods:
            for gate in pod.gates:
                self._report.assumed.add(
                    f"pods behind the scheduling gate {gate} are planned as if it were lifted",
                    pod.full_name,
                )
        gang, least = self._gang(key, says, pods)
        tasks = tasks_of(pods)
        if _fixed(says, max(self._priority(task.template, says) for task in tasks)):
            remark = "work that KAI stops for nobody starts within its quota only: here also beyond"
            self._report.ignored.add(remark, name)
        if gang:
            tasks, gang = self._sized(name, says, tasks, least, placed)
        template = tasks[0].template
        topology = self._topology(name, says, [(task.role, task.template) for task in tasks])
        if placed and (topology or template.spread):
            remark = "where the running part of a gang is, for the place of the rest"
            self._report.ignored.add(remark, name)
        return Work(
            name=name,
            key=key,
            tasks=tuple(tasks),
            queue=self._tenancy.of_work(key.namespace, named),
            priority=max(self._priority(task.template, says) for task in tasks),
            gang=gang,
            created=min(pod.created for pod in pods),
            topology=topology,
            spread=template.spread,
            missing=max(0, (least or 0) - placed - len(pods)) if gang else 0,
        )

    def _sized(
        self, name: str, says: Group | None, tasks: list[Task], least: int | None, placed: int
    ) -> tuple[list[Task], bool]:
        """Tasks of a gang with their floors; whether it is still one."""
        total = sum(task.count for task in tasks)
        floors = dict(says.least_of_role) if says is not None else {}
        if says is not None:
            floors |= {m.role: m.least for m in says.members if m.least < m.count}
        needed = total if least is None else max(0, least - placed)
        if needed == 0:
            return tasks, False
        missing = needed - total
        if missing > 0 and (len(tasks) > 1 or (says is not None and len(says.members) > 1)):
            remark = "members of gangs of several roles that are not made yet: not planned"
            self._report.ignored.add(remark, name, missing)
            needed = total
        if len(tasks) == 1:
            (task,) = tasks
            if needed > total:
                self._report.assumed.add(
                    "members of gangs that are not made yet are like the ones that are",
                    name,
                    missing,
                )
            count = min(max(total, needed), MAX_COUNT)
            return [replace(task, count=count, least=min(needed, count))], True
        if needed < total and not floors:
            self._report.assumed.add("gangs of several roles start whole", name)
        return [
            replace(task, least=min(task.count, floors.get(task.role, task.count)))
            for task in tasks
        ], True

    def _held(self, namespace: str, named: str, name: str) -> bool:
        why = self._tenancy.held(namespace, named)
        if why:
            self._report.ignored.add(why, name)
        return bool(why)

    def _to_be_made(self, have_pods: set[GroupKey]) -> list[Work]:
        """Jobs that wait for a queue's decision before there is any pod."""
        found = []
        for group in self._snapshot.groups.values():
            about = group.stands_for if group.key.kind == "Workload" else group.key
            about = about or group.key
            if about in have_pods or self._is_part(group):
                continue
            if not group.members and group.state != "held":
                continue
            work = self._from_templates(group, about)
            if work is not None:
                found.append(work)
        return found

    def _is_part(self, group: Group) -> bool:
        """Whether another object of the input speaks for this one: a JobSet for its Jobs."""
        if group.key.kind == "Workload":
            return False
        if group.key in self._for:
            return True
        above = group.stands_for
        if above is None:
            return False
        key = above._replace(kind=KINDS.get(above.kind, above.kind))
        return key in self._for or (key != group.key and key in self._snapshot.groups)

    def _from_templates(self, group: Group, about: GroupKey) -> Work | None:
        if group.state != "waits":
            what = "suspended, inactive or finished" if group.state == "held" else "without pods"
            self._report.ignored.add(f"{group.key.kind} objects {what}", str(group.key))
            return None
        members = [member for member in group.members if member.count]
        named, namespace = self._named(group), group.key.namespace
        if not members or self._held(namespace, named, str(group.key)):
            return None
        if any(member.count > MAX_COUNT for member in members):
            self._report.ignored.add(f"jobs of more than {MAX_COUNT} pods", str(group.key))
            return None
        tasks = [
            Task(
                role=member.role or IMPLICIT_ROLE,
                template=member.template,
                count=member.count,
                least=min(member.least, member.count),
            )
            for member in members
        ]
        if group.least is not None and group.least < sum(member.least for member in members):
            if len(tasks) == 1:
                tasks = [replace(tasks[0], least=group.least)]
            else:
                self._report.assumed.add("gangs of several roles start whole", str(group.key))
        own = self._snapshot.groups.get(about)
        independent = group.independent or (own is not None and own.independent)
        # Kueue admits a job whole, or down to the least it says, also where its pods could do
        # without each other.
        gang = group.key.kind == "Workload" or not independent or bool(named)
        name = self._name(about)
        return Work(
            name=name,
            key=about,
            tasks=tuple(distinct(tasks)),
            queue=self._tenancy.of_work(namespace, named),
            priority=max(self._priority(task.template, group) for task in tasks),
            gang=gang and not all(task.least == 0 for task in tasks),
            created=group.created,
            topology=self._topology(name, group, [(m.role, m.template) for m in members]),
            spread=members[0].template.spread,
            source=own or group,
        )

    def _name(self, key: GroupKey) -> str:
        name = _fitting(str(key))
        if name in self._names:
            name = _fitting(f"{key.namespace}/{key.kind.lower()}/{key.name}")
        number = 2
        while name in self._names:
            name, number = _fitting(f"{key}/{number}"), number + 1
        self._names.add(name)
        return name


def _fixed(group: Group | None, priority: int) -> bool:
    """Whether an object has its pods stopped for nobody."""
    return group is not None and group.fixed_from is not None and priority >= group.fixed_from


def _fitting(name: str) -> str:
    """A name that is not too long for a spec."""
    room = MAX_NAME - len(f"/{REST}")
    if len(name) <= MAX_NAME and (len(name) <= room or name.endswith(f"/{REST}")):
        return name
    mark = hashlib.sha256(name.encode()).hexdigest()[:12]
    return f"{name[: room - 13]}-{mark}"
