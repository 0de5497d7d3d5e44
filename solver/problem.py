"""The whole question put to a policy: machines, queues, running and pending work, objectives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from solver.cluster import BUILT_IN_LEVELS, GPU_MILLI, Node
from solver.identity import Same
from solver.queues import QueueTree
from solver.workload import ANY_GROUP, Job, Queue, ResourceName, Role, RunningJob, Shape, Slice
from topology.mig.tables import MigTable

OBJECTIVES = ("guarantee", "priority", "fairness", "preemption_cost", "topology", "stranded")
"""The tiers in their default order."""

PREEMPT_FOR = ("priority", "guarantee")
"""Reasons for which running work gives way, by default; ``fair_share`` is one more."""

REFERENCE_COVERAGE = 0.95
"""Share of the replicas that the default reference workload covers, most frequent shapes first."""


class ProblemError(ValueError):
    """References between objects that do not hold; `faults` has one sentence for each."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("; ".join(faults))
        self.faults = tuple(faults)


@dataclass(frozen=True, slots=True)
class RoleKey:
    """Identity of a role: the job's name and the role's."""

    job: str
    role: str


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Machines, work and the order of objectives. Jobs are in order of arrival.

    Parameters
    ----------
    levels
        The cluster's own levels, outermost first, e.g. ``("block", "rack")``.
    reference_shapes
        Workload that "stranded" is relative to, as (shape, weight); None derives it from the jobs.
    preempt_for
        Reasons for which running work may be stopped or moved; none also where
        ``preemption_cost`` is not among the objectives.
    most_recut_gpus
        GPUs whose MIG geometry or mode one plan may change; None is no limit.
    recut_cost_gpu_s
        What changing one of them costs, beside what displacing running work costs.
    defragment
        Running work that is movable may move without anybody starting for it. To be stopped it
        takes a reason of `preempt_for` all the same.

    Raises
    ------
    ProblemError
        Names used twice, or a reference to a node, queue, level or GPU that does not exist.
    """

    name: str = "cluster"
    levels: tuple[str, ...] = ()
    nodes: tuple[Node, ...]
    queues: tuple[Queue, ...] = (Queue(name="default"),)
    running: tuple[RunningJob, ...] = ()
    jobs: tuple[Job, ...] = ()
    objectives: tuple[str, ...] = OBJECTIVES
    preempt_for: tuple[str, ...] = PREEMPT_FOR
    reference_shapes: tuple[tuple[Shape, int], ...] | None = None
    most_recut_gpus: int | None = None
    recut_cost_gpu_s: int = 0
    defragment: bool = False

    def __post_init__(self) -> None:
        faults = [
            *self._duplicate_names(),
            *self._dangling(),
            *_overheld_gpus(Same(self.nodes), Same(self.running)),
        ]
        if faults:
            raise ProblemError(faults)

    @cached_property
    def pending(self) -> tuple[Job, ...]:
        """The jobs that wait: all but those that stand for running ones."""
        return tuple(job for job in self.jobs if job.running is None)

    @property
    def work(self) -> tuple[Job | RunningJob, ...]:
        """All work, pending and running."""
        return (*self.jobs, *self.running)

    @cached_property
    def node_by_name(self) -> Mapping[str, Node]:
        """Nodes by name."""
        return {node.name: node for node in self.nodes}

    @cached_property
    def job_by_name(self) -> Mapping[str, Job]:
        """Pending jobs by name."""
        return {job.name: job for job in self.jobs}

    @cached_property
    def queue_by_name(self) -> Mapping[str, Queue]:
        """Queues by name."""
        return {queue.name: queue for queue in self.queues}

    @cached_property
    def queue_tree(self) -> QueueTree:
        """The hierarchy of the queues."""
        return QueueTree(self.queues)

    @cached_property
    def role_by_key(self) -> Mapping[RoleKey, Role]:
        """Roles of pending jobs by (job, role)."""
        return {RoleKey(job.name, role.name): role for job, role in self.roles()}

    @cached_property
    def position(self) -> Mapping[str, int]:
        """Place of each pending job in order of arrival, oldest 0."""
        return {job.name: place for place, job in enumerate(self.jobs)}

    @cached_property
    def start_groups(self) -> Mapping[str, tuple[Job, ...]]:
        """Jobs that start together, by the name of their group, oldest first."""
        groups: dict[str, list[Job]] = {}
        for job in self.jobs:
            if job.start_group is not None:
                groups.setdefault(job.start_group, []).append(job)
        return {name: tuple(jobs) for name, jobs in groups.items()}

    @cached_property
    def priorities(self) -> tuple[int, ...]:
        """Priority levels of running and pending work, highest first."""
        return tuple(sorted({work.priority for work in self.work}, reverse=True))

    @cached_property
    def group_levels(self) -> tuple[str, ...]:
        """Levels whose groups are sets of nodes, outermost first; ``node`` is the last."""
        return (*self.levels, "domain", "node")

    def roles(self) -> Iterator[tuple[Job, Role]]:
        """Every role of every pending job, in order of arrival."""
        for job in self.jobs:
            for role in job.roles:
                yield job, role

    @cached_property
    def groups(self) -> Mapping[str, Mapping[tuple[str, ...], tuple[Node, ...]]]:
        """For every group level: group identity to the nodes in it, in order of the nodes."""
        table: dict[str, dict[tuple[str, ...], list[Node]]] = {}
        for level in self.group_levels:
            members = table.setdefault(level, {})
            for node in self.nodes:
                members.setdefault(node.group(level, self.levels), []).append(node)
        return {
            level: {group: tuple(nodes) for group, nodes in members.items()}
            for level, members in table.items()
        }

    @cached_property
    def _gpu_memories_mib(self) -> tuple[int, ...]:
        return tuple(sorted({m for node in self.nodes for m in node.topology.gpu_memory_mib if m}))

    def gpu_milli(self, shape: Shape) -> int:
        """Thousandths of GPUs that one replica counts for in objectives, quotas and shares.

        A share said by memory counts as on the smallest GPU of the cluster that can serve it
        (what it occupies is decided by the GPU it gets).
        """
        if shape.share_memory_mib:
            fitting = [m for m in self._gpu_memories_mib if m >= shape.share_memory_mib]
            return shape.milli_on(fitting[0]) or GPU_MILLI if fitting else GPU_MILLI
        if shape.slices:
            return sum(count * self._slice_milli(wish) for wish, count in shape.slices)
        return shape.share_milli or shape.gpus * GPU_MILLI

    @cached_property
    def mig_tables(self) -> tuple[MigTable, ...]:
        """The MIG tables of the cluster's GPUs, those of the smallest memory first."""
        found = {table for node in self.nodes for table in node.mig_tables if table is not None}
        return tuple(sorted(found, key=lambda table: (table.memory_gb, table.model)))

    @cached_property
    def has_slices(self) -> bool:
        """Whether anybody who waits asks for MIG slices."""
        return any(role.shape.slices for _, role in self.roles())

    @cached_property
    def instances_milli(self) -> Mapping[str, int]:
        """What the MIG instances that a job uses count for, in thousandths of GPUs, by job."""
        found: Counter[str] = Counter()
        for node in self.nodes:
            for made in node.instances:
                table = node.mig_tables[made.gpu]
                if made.used_by and table is not None:
                    size = table.by_name[made.instance.profile].size
                    found[made.used_by] += size * GPU_MILLI // table.slots
        return found

    @cached_property
    def may_recut(self) -> bool:
        """Whether a plan could change the MIG geometry of any GPU."""
        return self.has_slices or any(node.switchable_gpus for node in self.nodes)

    def _slice_milli(self, wish: Slice) -> int:
        """A slice counts by its memory slots, on the smallest GPU that has it: 1g is an eighth."""
        for table in self.mig_tables:
            profile = wish.on(table)
            if profile is not None:
                return profile.size * GPU_MILLI // table.slots
        return GPU_MILLI

    def amount(self, shape: Shape, resource: ResourceName) -> int:
        """What one replica of `shape` counts for in `resource`."""
        if resource == "gpu_milli":
            return self.gpu_milli(shape)
        return shape.cpu_milli if resource == "cpu_milli" else shape.memory_mib

    def use(self, role: Role, resource: ResourceName) -> int:
        """What one replica of a role counts for in what its queue uses.

        One that runs already counts for all it holds, GPUs that have failed under it too.
        """
        if role.held:
            return role.held[0].holds(resource)
        return self.amount(role.shape, resource)

    @cached_property
    def capacity(self) -> Mapping[ResourceName, int | None]:
        """What ready nodes (cordoned ones too) can give in total; None where one has no limit."""
        ready = [node for node in self.nodes if node.ready]
        cpu = [node.cpu_milli for node in ready]
        memory = [node.memory_mib for node in ready]
        return {
            "gpu_milli": GPU_MILLI * sum(self._capacity_gpus(node) for node in ready),
            "cpu_milli": None if None in cpu else sum(c or 0 for c in cpu),
            "memory_mib": None if None in memory else sum(m or 0 for m in memory),
        }

    def _capacity_gpus(self, node: Node) -> int:
        """GPUs to give away; those cut into instances only where somebody wants or holds some."""
        slices = self.has_slices or bool(self.instances_milli)
        cut = len(node.mig_gpus - node.unhealthy_gpus) if slices else 0
        return len(node.usable_gpus) + cut

    @cached_property
    def has_share_groups(self) -> bool:
        """Whether any share may go only beside some of the others."""
        running = (replica.share_group for job in self.running for replica in job.replicas)
        asked = (role.shape.share_group for _, role in self.roles())
        return any(running) or any(asked)

    @cached_property
    def has_share_compute(self) -> bool:
        """Whether any share has another part of the compute than of the memory."""
        running = (replica.compute_milli for job in self.running for replica in job.replicas)
        asked = (role.shape.compute_milli for _, role in self.roles())
        return any(running) or any(asked)

    @cached_property
    def reference(self) -> tuple[tuple[Shape, int], ...]:
        """Workload that "stranded" is relative to: (shape, weight), heaviest first.

        Its shares stand for shares in general: they may go beside those of any group, and it is
        memory that they find stranded, not compute.
        """
        if not self.has_share_groups and not self.has_share_compute:
            return self._reference
        weights: Counter[Shape] = Counter()
        for shape, weight in self._reference:
            general = shape
            if shape.is_share:
                general = replace(shape, share_group=ANY_GROUP, compute_milli=0)
            weights[general] += weight
        return tuple(weights.items())

    @cached_property
    def _reference(self) -> tuple[tuple[Shape, int], ...]:
        """Workload that "stranded" is relative to: (shape, weight), heaviest first.

        By default the shapes of all replicas with GPUs, running and pending, weighted by
        replicas, the most frequent until 95 % are covered (ties: the larger request first).
        """
        if self.reference_shapes is not None:
            return self.reference_shapes
        weights: Counter[Shape] = Counter()
        for running in self.running:
            weights.update(s for s in running.shapes if s.wants_gpu and not s.slices)
        for _, role in self.roles():
            if role.shape.wants_gpu and not role.shape.slices:
                weights[role.shape] += role.replicas
        total = sum(weights.values())
        ranked = sorted(weights.items(), key=lambda item: (-item[1], self._shape_order(item[0])))
        chosen: list[tuple[Shape, int]] = []
        covered = 0
        for shape, weight in ranked:
            if covered >= REFERENCE_COVERAGE * total:
                break
            chosen.append((shape, weight))
            covered += weight
        return tuple(chosen)

    def _shape_order(self, shape: Shape) -> tuple[object, ...]:
        return (
            -self.gpu_milli(shape),
            -shape.cpu_milli,
            -shape.memory_mib,
            shape.gpu_models,
            shape.node_selector,
            shape.link,
            tuple((t.key, t.operator, t.value, t.effect or "") for t in shape.tolerations),
        )

    def _duplicate_names(self) -> list[str]:
        faults = []
        for what, names in (
            ("node", [node.name for node in self.nodes]),
            ("queue", [queue.name for queue in self.queues]),
            ("job", [work.name for work in self.work]),
        ):
            twice = sorted(name for name, count in Counter(names).items() if count > 1)
            faults += [f"{what} {name!r}: the name is used twice" for name in twice]
        for job in self.jobs:
            roles = Counter(role.name for role in job.roles)
            faults += [
                f"job {job.name!r}: role {name!r} is named twice"
                for name, c in roles.items()
                if c > 1
            ]
        return faults

    def _dangling(self) -> list[str]:
        queues = {queue.name for queue in self.queues}
        levels = {*self.levels, *BUILT_IN_LEVELS}
        faults = [
            f"job {job.name!r}: queue {job.queue!r} does not exist"
            for job in self.work
            if job.queue not in queues
        ]
        for job in self.jobs:
            if job.topology and job.topology.within not in levels:
                faults.append(f"job {job.name!r}: level {job.topology.within!r} does not exist")
            if job.spread and job.spread.over not in levels - {"island"}:
                faults.append(f"job {job.name!r}: cannot spread over {job.spread.over!r}")
            if job.start_group is not None and not job.gang:
                faults.append(f"job {job.name!r}: only gangs can be in a start group")
        faults += [
            f"queue {queue.name!r}: parent {queue.parent!r} does not exist"
            for queue in self.queues
            if queue.parent is not None and queue.parent not in queues
        ]
        faults += [
            f"objective {o!r} does not exist" for o in self.objectives if o not in OBJECTIVES
        ]
        return faults


@lru_cache(maxsize=4)
def _overheld_gpus(
    nodes: Same[tuple[Node, ...]], running: Same[tuple[RunningJob, ...]]
) -> tuple[str, ...]:
    """Running work on nodes or GPUs that do not exist, or on a GPU that is held already."""
    node_by_name = {node.name: node for node in nodes.value}
    held: Counter[tuple[str, int]] = Counter()
    faults = []
    for job in running.value:
        for replica in job.replicas:
            node = node_by_name.get(replica.node)
            if node is None:
                faults.append(f"job {job.name!r}: node {replica.node!r} does not exist")
                continue
            for gpu in replica.gpus:
                held[node.name, gpu] += replica.share_milli
                if not 0 <= gpu < node.n_gpus:
                    faults.append(f"job {job.name!r}: node {node.name!r} has no GPU {gpu}")
                elif held[node.name, gpu] > GPU_MILLI:
                    faults.append(
                        f"job {job.name!r}: GPU {gpu} of node {node.name!r} is already held"
                    )
    return tuple(faults)
