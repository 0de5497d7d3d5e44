"""Records of a Slurm cluster to a spec."""

from __future__ import annotations

import re
from collections import defaultdict
from math import ceil
from typing import TYPE_CHECKING, Any

from solver.cluster import GPU_MILLI
from specs.importers.slurm.parts import beyond, in_whole_gpus, milli_of, over_nodes
from specs.importers.slurm.room import Room
from specs.importers.slurm.topology import Places
from specs.importers.writing import Amount, cores, flow, memory, share
from specs.models.quantity import MILLI

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from specs.importers.report import ImportReport
    from specs.importers.slurm.jobs import OnNode, SlurmJob
    from specs.importers.slurm.nodes import SlurmNode

Entry = dict[str, Any]
_NAME = re.compile(r"[^\w.+-]+")


def slurm_spec(
    nodes: Sequence[SlurmNode],
    jobs: Sequence[SlurmJob],
    report: ImportReport,
    places: Places | None = None,
) -> Iterator[str]:
    """Lines of the spec. Jobs wait in the order of their priority."""
    return _Importer(nodes, jobs, report, places or Places()).lines()


class _Importer:
    def __init__(
        self,
        nodes: Sequence[SlurmNode],
        jobs: Sequence[SlurmJob],
        report: ImportReport,
        places: Places,
    ) -> None:
        self.nodes = {node.name: node for node in nodes}
        self.jobs, self.report, self.places = jobs, report, places
        self.marks: dict[str, set[str]] = {}
        self.room = {node.name: Room.of(node) for node in nodes}

    def lines(self) -> Iterator[str]:
        self.report.read.add("nodes", count=len(self.nodes))
        self.report.read.add("jobs", count=len(self.jobs))
        for name in self.places.others:
            self.report.ignored.add("topologies that are not the default, or have no groups", name)
        for name in sorted(self.places.of.keys() - self.nodes.keys()):
            self.report.ignored.add("nodes of the topology that are not in the input", name)
        for name in self.nodes if self.places.levels else ():
            if name not in self.places.of:
                self.report.assumed.add(
                    "nodes that the topology does not name are in no group", name
                )
        running = self._all_running()
        waiting = sorted(
            (job for job in self.jobs if not job.running),
            key=lambda job: (-job.priority, job.submitted_s),
        )
        if any(job.priority for job in waiting):
            self.report.assumed.add("priorities order the waiting jobs, and are no strict levels")
        pending = [entry for job in waiting if (entry := self._pending(job)) is not None]
        queues = sorted({job.queue for job in self.jobs if job.queue})
        nameless = any("queue" not in entry for entry in [*running, *pending])
        if queues and nameless and "default" not in queues:
            queues.append("default")
        if queues:
            self.report.assumed.add("accounts are queues, without quotas", count=len(queues))
        yield "# Imported from Slurm."
        yield "cluster:"
        yield "  name: slurm"
        if self.places.levels:
            yield "  " + flow({"levels": self.places.levels})[1:-1]
        yield "  nodes:"
        for node in self.nodes.values():
            yield f"    - {flow(self._node(node))}"
        sections = {"queues": [{"name": name} for name in queues], "running": running}
        for section, entries in {**sections, "jobs": pending}.items():
            if entries:
                yield f"{section}:"
                yield from (f"  - {flow(entry)}" for entry in entries)

    def _node(self, node: SlurmNode) -> Entry:
        entry: Entry = {"name": node.name}
        models = [name for name, count in node.gpus for _ in range(count)]
        if models and len(set(models)) > 1:
            entry["gpus"] = tuple({"model": name or "gpu"} for name in models)
        elif models:
            entry["gpus"] = len(models)
            if models[0]:
                entry["gpu_model"] = models[0]
        entry |= {"cpu": node.cpus, "memory": memory(node.memory_mib)}
        reserved: Entry = {}
        if node.cpus > node.cpus_usable:
            reserved["cpu"] = node.cpus - node.cpus_usable
        if node.memory_reserved_mib:
            reserved["memory"] = memory(node.memory_reserved_mib)
        if reserved:
            entry["reserved"] = reserved
        if location := self.places.of.get(node.name):
            entry["location"] = dict(location)
        labels = {mark: "yes" for mark, names in self.marks.items() if node.name in names}
        if labels:
            entry["labels"] = labels
        if not node.ready:
            entry["ready"] = False
        if node.cordoned:
            entry["cordoned"] = True
        if node.reserved:
            self.report.assumed.add("nodes in a reservation take no new work", node.name)
        if node.powered_down and node.ready and not node.cordoned:
            self.report.assumed.add("nodes that are powered down start up for work", node.name)
        for kind, count in node.mig:
            remark = f"MIG instances of nodes, {kind}: they are not planned"
            self.report.ignored.add(remark, node.name, count)
        for word in node.strange_states:
            remark = f"state {word} of nodes, which says nothing here: they take work"
            self.report.ignored.add(remark, node.name)
        for name in node.other_gres:
            self.report.ignored.add(f"gres {name} of nodes", node.name)
        return entry

    def _allowed(self, job: SlurmJob) -> Entry:
        """The nodes that a job may use, as a label that they carry."""
        allowed = set(self.nodes)
        names: list[str] = []
        known = {part for node in self.nodes.values() for part in node.partitions}
        if known and job.partitions:
            wanted = set(job.partitions)
            allowed = {n for n in allowed if wanted & set(self.nodes[n].partitions)}
            names.append("partition " + " or ".join(sorted(wanted)))
        if job.features:
            matched = _with_features(job.features, self.nodes)
            if matched is None:
                self.report.ignored.add(f"constraint {job.features}", job.id)
            else:
                allowed &= matched
                names.append(f"features {job.features}")
        for kind, _ in job.parts:
            allowed = {n for n in allowed if kind in dict(self.nodes[n].parts)}
            names.append(f"with {kind}")
        if job.excluded:
            allowed -= set(job.excluded)
            names.append("not " + ",".join(job.excluded[:4]))
        if job.required:
            if len(job.required) >= job.replicas:
                allowed &= set(job.required)
                names.append("only " + ",".join(job.required[:4]))
            else:
                self.report.ignored.add("nodes that are required among others", job.id)
        if not names or allowed == set(self.nodes):
            return {}
        mark = ", ".join(names)[:200]
        while self.marks.setdefault(mark, allowed) != allowed:
            mark = f"{mark} (job {job.id})"[-250:]
        return {"node_selector": {mark: "yes"}}

    def _name(self, job: SlurmJob) -> str:
        name = _NAME.sub("-", job.name)[:100].strip("-")
        return f"{job.id}-{name}" if name else job.id

    def _common(self, job: SlurmJob) -> Entry:
        entry: Entry = {"queue": job.queue} if job.queue else {}
        if job.gpu_types and job.gpus:
            entry["gpu_models"] = job.gpu_types
        for remark in () if job.running else job.unsaid:
            self.report.ignored.add(f"{remark}, of waiting jobs", job.id)
        return entry | self._allowed(job)

    def _all_running(self) -> list[Entry]:
        """Running jobs in their order; those that name their GPUs get them before the others."""
        jobs = [in_whole_gpus(job, self.nodes) for job in self.jobs if job.running]
        for job in self.jobs:
            if job.running and any(part.parts for part in job.on):
                remark = "running jobs with parts of GPUs (shards, MPS) hold them whole"
                self.report.assumed.add(remark, job.id)
        named_first = sorted(jobs, key=lambda job: not all(part.gpus for part in job.on))
        entries = {id(job): tuple(self._running(job)) for job in named_first}
        return [*(entry for job in jobs for entry in entries[id(job)]), *self._beyond()]

    def _beyond(self) -> Iterator[Entry]:
        """What nodes have allocated beyond the jobs of the input."""
        for node in self.nodes.values():
            rest = beyond(node, self.room[node.name])
            if rest is None:
                continue
            remark = "what nodes have allocated beyond the jobs of the input is held there"
            self.report.assumed.add(remark, node.name)
            replica: Entry = (
                {"node": node.name, "gpus": rest.count} if rest.count else {"node": node.name}
            )
            replica["cpu"] = cores(ceil(rest.cpus * MILLI))
            replica["memory"] = memory(ceil(rest.memory_mib))
            yield {
                "job": f"allocated on {node.name}",
                "preemption": {"allowed": False},
                "replicas": (replica,),
            }

    def _running(self, job: SlurmJob) -> Iterator[Entry]:
        replicas = []
        for part in job.on:
            if part.name not in self.nodes:
                self.report.ignored.add("jobs on nodes that are not in the input", job.id)
                continue
            replicas.append(self._replica(job, part))
        if not replicas:
            return
        entry = {"job": self._name(job), **self._common(job)}
        if job.ends_in_s is not None:
            entry["ends_in"] = Amount(f"{job.ends_in_s}s")
        yield entry | {"replicas": tuple(replicas)}

    def _replica(self, job: SlurmJob, part: OnNode) -> Entry:
        entry: Entry = {"node": part.name}
        held, is_whole = self.room[part.name].take(part)
        if held.gpus:
            entry["gpus"] = held.gpus
        elif held.count:
            entry["gpus"] = held.count
        if not is_whole:
            remark = "running jobs hold no more of a node than it has left beside the others"
            self.report.assumed.add(remark, job.id)
        entry["cpu"] = cores(ceil(held.cpus * MILLI))
        entry["memory"] = memory(ceil(held.memory_mib))
        return entry

    def _pending(self, job: SlurmJob) -> Entry | None:
        if job.per == "job" and not job.held:
            job = over_nodes(job, self.nodes)
            remark = (
                "GPUs of a job in all (--gpus) are asked for evenly of as few nodes as have them"
            )
            self.report.assumed.add(remark, job.id, job.copies)
        if job.held:
            self.report.ignored.add(f"waiting jobs that are {job.held}", job.id, job.copies)
            return None
        if job.asks_mig:
            self.report.ignored.add("waiting jobs that ask for MIG instances", job.id, job.copies)
            return None
        milli = milli_of(job, self.nodes)
        if milli is None:
            remark = "waiting jobs with parts of GPUs (shards, MPS) that differ by node or GPU"
            self.report.ignored.add(remark, job.id, job.copies)
            return None
        entry = {"name": self._name(job), **self._common(job)}
        if job.copies > 1 and job.replicas > 1:
            self.report.ignored.add(
                "further tasks of arrays of gangs: the first is planned", job.id, job.copies - 1
            )
        elif job.copies > 1:
            entry |= {"replicas": job.copies, "gang": False}
        if job.replicas > 1:
            entry["replicas"] = job.replicas
            if job.per == "node":
                entry["spread"] = {"over": "node", "max_per": 1}
        if job.gpus:
            entry["gpus"] = job.gpus
        elif milli:
            entry["gpus"] = share(milli) if milli < GPU_MILLI else 1
        entry["cpu"] = cores(ceil(job.cpu * MILLI))
        if mib := ceil(job.memory_mib):
            entry["memory"] = memory(mib)
        return entry


def _with_features(text: str, nodes: dict[str, SlurmNode]) -> set[str] | None:
    """Nodes with features ``a&b`` or ``a|b``; None for constraints beyond that."""
    if not re.fullmatch(r"[\w.+-]+([&,][\w.+-]+)*|[\w.+-]+(\|[\w.+-]+)*", text):
        return None
    words = set(re.split(r"[&,|]", text))
    wants_all = "|" not in text
    by_feature: dict[str, set[str]] = defaultdict(set)
    for node in nodes.values():
        for feature in node.features:
            by_feature[feature].add(node.name)
    sets = [by_feature[word] for word in words]
    return set.intersection(*sets) if wants_all else set.union(*sets)
