"""Running work as users write it to the solver's: who holds which GPUs, and what cannot be."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING

from solver.cluster import GPU_MILLI, Node
from solver.workload import Preemption, RunningJob, RunningReplica, Shape, is_tied
from specs.hints import did_you_mean
from specs.pending import reference_faults_of, spread_rule, topology_rule, work_faults
from specs.queues import DEFAULT_QUEUE
from specs.requests import inherited, shape_of
from specs.sharing import in_group, share_group

if TYPE_CHECKING:
    from specs.errors import SpecFault
    from specs.loaded import LoadedSpec
    from specs.machines import Machines
    from specs.models.workload import RequestSpec, RunningReplicaSpec, RunningSpec
    from specs.places import Path

MOST_ASSUMED = 8
"""Notes about assumed GPUs, one for each replica; beyond that the rest is one note."""

Gpu = tuple[str, int]
"""A GPU of the cluster: name of its node, its index there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Claim:
    """What one replica holds: where, the shape of its request, the GPUs it names (if it does)."""

    job: str
    path: Path
    node: Node
    shape: Shape
    named: tuple[int, ...] | None

    @property
    def count(self) -> int:
        return 1 if self.shape.is_share else self.shape.gpus

    def milli_on(self, gpu: int) -> int | None:
        """Thousandths that it takes of a GPU, None where that cannot be."""
        return self.shape.milli_on(self.node.topology.gpu_memory_mib[gpu])


@dataclass
class Occupancy:
    """Who holds how much of which GPU; finds the GPUs of those who only said how many."""

    loaded: LoadedSpec
    machines: Machines
    faults: list[SpecFault]
    notes: list[str]
    _held: dict[Gpu, int] = field(default_factory=lambda: defaultdict(int))
    _holder: dict[Gpu, str] = field(default_factory=dict)
    _compute: dict[Gpu, int] = field(default_factory=lambda: defaultdict(int))
    _assumed: list[str] = field(default_factory=list)

    def compile(self) -> tuple[RunningJob, ...]:
        """Running jobs of the spec. GPUs named by index are taken first, then those by count."""
        entries = list(enumerate(self.loaded.spec.running))
        claims: dict[Path, _Claim] = {}
        for index, entry in entries:
            path: Path = ("running", index)
            self.faults.extend(reference_faults_of(self.loaded, entry, path))
            self.faults.extend(work_faults(self.loaded, entry, path))
            if not self.loaded.is_damaged(path):
                self._check_sizes(entry, path)
            for number in range(len(entry.replicas)):
                at = (*path, "replicas", number)
                if (claim := self._claim(entry, path, number)) is not None:
                    claims[at] = claim
        gpus: dict[Path, tuple[int, ...]] = {}
        for at, claim in claims.items():
            if claim.named is not None:
                gpus[at] = self._take_named(claim, claim.named)
        for at, claim in claims.items():
            if claim.named is None:
                gpus[at] = self._take_lowest(claim)
        self._say_assumed()
        if self.faults or self.loaded.damaged:
            return ()  # there will be no problem to put them in
        found = []
        for index, entry in entries:
            places = [("running", index, "replicas", n) for n in range(len(entry.replicas))]
            held = [claims[at] for at in places]
            found.append(_running_job(entry, held, [gpus[at] for at in places]))
            if entry.preemption.movable and not found[-1].preemption.movable:
                rule = "topology" if entry.spread is None else "spread"
                self.notes.append(
                    f"{entry.job}: does not move, its {rule} would have to hold there"
                )
        return tuple(found)

    def _check_sizes(self, entry: RunningSpec, path: Path) -> None:
        running = len(entry.replicas)
        if not running:
            rule, hint = "running work has replicas", "Move it to jobs if it waits"
            self.faults.append(self.loaded.fault((*path, "replicas"), rule, hint))
        elif entry.min is not None and entry.min > running:
            self.notes.append(f"{entry.job}: runs {running} of at least {entry.min} replicas (min)")
        if entry.wanted is not None:
            if entry.wanted < running:
                rule = f"wanted is below the {running} replicas that run"
                self.faults.append(self.loaded.fault((*path, "wanted"), rule, "Raise wanted"))
            elif entry.wanted > running:
                self.notes.append(
                    f"{entry.job}: growth to {entry.wanted} replicas (wanted) is not planned yet"
                )

    def _claim(self, entry: RunningSpec, path: Path, number: int) -> _Claim | None:
        at = (*path, "replicas", number)
        replica = entry.replicas[number]
        node = self._node(replica.node, (*at, "node"))
        request = self._request(entry, replica, at)
        if node is None or request is None or self.loaded.is_damaged(path):
            return None
        named = replica.gpus if isinstance(replica.gpus, tuple) else None
        if named is not None and replica.gpu_memory is None:
            request = self._named_request(request, named, (*at, "gpus"))
            if request is None:
                return None
        group = share_group(self.loaded.spec, entry)
        shape = in_group(shape_of(request, planned=False), group)
        return _Claim(job=entry.job, path=at, node=node, shape=shape, named=named)

    def _node(self, name: str, path: Path) -> Node | None:
        if name in self.machines.nodes:
            return self.machines.nodes[name]
        lost = self.loaded.lost_names(("cluster", "pools"), ("cluster", "nodes"))
        if name not in self.machines.unsure and not lost:
            known = [*self.machines.nodes, *self.machines.unsure]
            rule = "no node has this name"
            hint = did_you_mean(name, known, "nodes")
            self.faults.append(self.loaded.fault(path, rule, hint))
        return None

    def _request(
        self, entry: RunningSpec, replica: RunningReplicaSpec, at: Path
    ) -> RequestSpec | None:
        """What the replica asks for: its own word, else its role's, else the job's."""
        request: RequestSpec = entry
        if replica.role is not None:
            roles = {role.name: role for role in entry.roles}
            if replica.role not in roles:
                rule = "the job has no such role"
                hint = did_you_mean(replica.role, roles, "roles")
                self.faults.append(self.loaded.fault((*at, "role"), rule, hint))
                return None
            request = inherited(roles[replica.role], entry)
        own = replica.model_fields_set
        if "gpus" in own and "gpu_memory" in own and not isinstance(replica.gpus, tuple):
            rule = "gpus and gpu_memory are two ways to ask for the same thing"
            hint = "With gpu_memory, gpus may only list the index of the GPU"
            self.faults.append(self.loaded.fault((*at, "gpu_memory"), rule, hint))
            return None
        changed: dict[str, object] = {}
        changed |= {key: getattr(replica, key) for key in ("cpu", "memory") if key in own}
        if "gpu_memory" in own:
            changed |= {"gpu_memory": replica.gpu_memory, "gpus": None}
        elif "gpus" in own and not isinstance(replica.gpus, tuple):
            changed |= {"gpus": replica.gpus, "gpu_memory": None}
        return request.model_copy(update=changed) if changed else request

    def _named_request(
        self, request: RequestSpec, named: tuple[int, ...], path: Path
    ) -> RequestSpec | None:
        """The request of a replica that names its GPUs: as many whole ones, or one share."""
        shape = shape_of(request)
        if shape.is_share:
            if len(named) == 1:
                return request
            rule, hint = "a share is held of one GPU", "List one index"
            self.faults.append(self.loaded.fault(path, rule, hint))
            return None
        if request.gpus is not None and shape.gpus != len(named):
            rule = f"the job's replicas take {shape.gpus} GPUs"
            hint = "List as many indices, or change gpus of the job"
            self.faults.append(self.loaded.fault(path, rule, hint))
            return None
        return request.model_copy(update={"gpus": Fraction(len(named))})

    def _take_named(self, claim: _Claim, named: tuple[int, ...]) -> tuple[int, ...]:
        node = claim.node
        for place, gpu in enumerate(named):
            at = (*claim.path, "gpus", place)
            if gpu >= node.n_gpus:
                some = f"GPUs 0 to {node.n_gpus - 1}" if node.n_gpus else "no GPUs"
                rule = f"node {node.name} has {some}"
                self.faults.append(self.loaded.fault(at, rule))
            elif gpu in node.mig_gpus:
                rule = f"GPU {gpu} of node {node.name} is cut into MIG instances"
                self.faults.append(self.loaded.fault(at, rule))
            elif gpu in named[:place]:
                self.faults.append(self.loaded.fault(at, "this GPU is listed twice"))
            elif (milli := claim.milli_on(gpu)) is None:
                memory = node.topology.gpu_memory_mib[gpu]
                has = "unknown memory" if memory is None else f"{memory:,} MiB"
                rule = (
                    f"memory beyond the card: GPU {gpu} of node {node.name} has {has}, the share"
                    f" wants {claim.shape.share_memory_mib:,} MiB"
                )
                self.faults.append(self.loaded.fault(at, rule))
            elif self._held[node.name, gpu] + milli > GPU_MILLI:
                self.faults.append(self._overheld(claim, gpu, milli, at))
            elif self._compute_short(claim, gpu, milli):
                most = node.compute_limit_milli / GPU_MILLI
                had = self._compute[node.name, gpu] / GPU_MILLI
                rule = (
                    f"compute of the shares of GPU {gpu} of node {node.name}: {had:g} is held, this"
                    f" one makes it more than {most:g}"
                )
                hint = "Lower a share, or raise oversubscribe of the node"
                self.faults.append(self.loaded.fault(at, rule, hint))
            else:
                self._hold(claim, gpu, milli)
        return named

    def _overheld(self, claim: _Claim, gpu: int, milli: int, at: Path) -> SpecFault:
        """Somebody has the GPU, or so much of it that this share is too much."""
        where = (claim.node.name, gpu)
        held, holder = self._held[where], self._holder[where]
        if held < GPU_MILLI and claim.shape.is_share:
            rule = (
                f"shares of GPU {gpu} of node {claim.node.name} add up to"
                f" {(held + milli) / GPU_MILLI:g}, above one: {held / GPU_MILLI:g} is held"
                f" already, by {holder} last"
            )
            return self.loaded.fault(at, rule, "Lower a share, or list another GPU")
        rule = f"GPU {gpu} of node {claim.node.name} is held by {holder} already"
        return self.loaded.fault(at, rule, "Give each its own GPU")

    def _compute_short(self, claim: _Claim, gpu: int, milli: int) -> bool:
        """Whether a share would have more of the compute than the node allows."""
        held = self._compute[claim.node.name, gpu] + (claim.shape.compute_milli or milli)
        return claim.shape.is_share and held > claim.node.compute_limit_milli

    def _hold(self, claim: _Claim, gpu: int, milli: int) -> None:
        self._compute[claim.node.name, gpu] += claim.shape.compute_milli or milli
        self._held[claim.node.name, gpu] += milli
        self._holder[claim.node.name, gpu] = claim.job

    def _take_lowest(self, claim: _Claim) -> tuple[int, ...]:
        """The lowest GPUs with room, healthy ones first: a GPU may have failed under its work."""
        if not claim.count:
            return ()
        node = claim.node
        ill = sorted(node.unhealthy_gpus - node.mig_gpus)
        room = [
            (gpu, milli)
            for gpu in (*node.usable_gpus, *ill)
            if (milli := claim.milli_on(gpu)) is not None
            and self._held[node.name, gpu] + milli <= GPU_MILLI
            and not self._compute_short(claim, gpu, milli)
        ]
        taken = room[: claim.count]
        if len(taken) < claim.count:
            at = claim.path
            own = claim.path if self.loaded.document.value(self.loaded.origin(at)) else at[:2]
            path = (*own, "gpus") if self._says_gpus(own) else own
            rule = (
                f"node {node.name} has room for {len(room)} of these GPUs, {claim.count} are held"
            )
            hint = "Correct the count, or the other work on the node"
            self.faults.append(self.loaded.fault(path, rule, hint))
            return ()
        for gpu, milli in taken:
            self._hold(claim, gpu, milli)
        gpus = tuple(gpu for gpu, _ in taken)
        self._assumed.append(f"{claim.job}: assumed {_ranges(gpus)} of node {node.name}")
        return gpus

    def _say_assumed(self) -> None:
        """Each assumption, or, where there are many, some of them and how many more."""
        many = len(self._assumed) > MOST_ASSUMED
        self.notes.extend(self._assumed[: MOST_ASSUMED - 1] if many else self._assumed)
        if many:
            rest = len(self._assumed) - MOST_ASSUMED + 1
            self.notes.append(f"assumed the GPUs of {rest:,} further running replicas, likewise")

    def _says_gpus(self, path: Path) -> bool:
        return self.loaded.document.value(self.loaded.origin((*path, "gpus"))) is not None


def _running_job(
    entry: RunningSpec, claims: list[_Claim], gpus: list[tuple[int, ...]]
) -> RunningJob:
    stop = entry.preemption
    mins = [role.replicas if role.min is None else role.min for role in entry.roles]
    floor = entry.min
    if floor is None and any(role.min is not None for role in entry.roles):
        floor = min(sum(mins), len(claims))
    return RunningJob(
        name=entry.job,
        replicas=tuple(
            RunningReplica.seated(
                claim.shape,
                claim.node.name,
                held,
                (claim.milli_on(held[0]) or GPU_MILLI) if held else GPU_MILLI,
            )
            for claim, held in zip(claims, gpus, strict=True)
        ),
        shapes=tuple(claim.shape for claim in claims),
        queue=entry.queue or DEFAULT_QUEUE,
        priority=entry.priority,
        min_replicas=floor if entry.gang else 0,
        wanted_replicas=entry.wanted,
        ends_in_s=None if entry.ends_in is None else ceil(entry.ends_in),
        preemption=Preemption(
            allowed=stop.allowed,
            movable=stop.movable and not _is_tied(entry, claims),
            checkpoint_age_s=ceil(stop.checkpoint_age or 0),
            restart_s=60 if stop.restart is None else ceil(stop.restart),
            cost_gpu_s=stop.cost_gpu_s,
        ),
    )


def _ranges(gpus: tuple[int, ...]) -> str:
    """``GPU 3``, ``GPUs 0-3``, ``GPUs 0, 2-3``."""
    runs: list[list[int]] = []
    for gpu in gpus:
        if runs and gpu == runs[-1][-1] + 1:
            runs[-1].append(gpu)
        else:
            runs.append([gpu])
    words = ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
    return f"GPU {words}" if len(gpus) == 1 else f"GPUs {words}"


def _is_tied(entry: RunningSpec, claims: list[_Claim]) -> bool:
    shapes = [claim.shape for claim in claims]
    spread = spread_rule(entry.spread)
    return is_tied(topology_rule(entry.topology), spread, shapes, gang=entry.gang)
