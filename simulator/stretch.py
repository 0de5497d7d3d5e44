"""How much longer a job runs where its GPUs are not as close together as they could be."""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm

from solver.cluster import GPU_MILLI
from solver.metrics import FewestGroups, counts_for_spread
from solver.problem import Problem
from solver.solution import Placement
from solver.workload import Job
from topology.graph import NodeTopology


class Stretch:
    """The inter-island penalty on run time.

    A job is split when one of its replicas has GPUs in more NVLink islands of its node than the
    fewest that could hold as many, or when its replicas span more NVLink domains than the fewest
    that could hold them on the empty cluster.

    Parameters
    ----------
    penalty
        A split job runs ``1 + penalty`` times as long.
    """

    def __init__(self, problem: Problem, penalty: float) -> None:
        self._problem = problem
        self._penalized = round(GPU_MILLI * (1 + penalty))
        self._fewest = FewestGroups(problem)

    @property
    def unit(self) -> int:
        """The least number that a thousand and every stretch divide."""
        return lcm(GPU_MILLI, self._penalized)

    @property
    def penalizes(self) -> bool:
        """Whether it matters at all where a job is."""
        return self._penalized != GPU_MILLI

    @property
    def longest_milli(self) -> int:
        """The most that it can be, in thousandths."""
        return self._penalized

    def milli(self, job: Job, placements: Sequence[Placement]) -> int:
        """The factor of a job in its place, in thousandths."""
        if not self.penalizes or not self.is_split(job, placements):
            return GPU_MILLI
        return self._penalized

    def is_split(self, job: Job, placements: Sequence[Placement]) -> bool:
        """Whether a job's GPUs are in more islands than they need to be."""
        nodes = self._problem.node_by_name
        if any(
            _islands(nodes[p.node].topology, p.gpus) > _fewest(nodes[p.node].topology, len(p.gpus))
            for p in placements
            if len(p.gpus) > 1
        ):
            return True
        if not job.gang or len(placements) < 2:
            return False
        shapes = {role.name: role.shape for role in job.roles}
        counted = [p for p in placements if counts_for_spread(job, shapes[p.role])]
        levels = self._problem.levels
        spanned = {nodes[p.node].group("domain", levels) for p in counted}
        roles: dict[str, int] = {}
        for placement in counted:
            roles[placement.role] = roles.get(placement.role, 0) + 1
        least = max((self._fewest(shapes[r], "domain", n) for r, n in roles.items()), default=0)
        return len(spanned) > least


def _islands(topology: NodeTopology, gpus: Sequence[int]) -> int:
    return sum(any(gpu in part for gpu in gpus) for part in topology.parts)


def _fewest(topology: NodeTopology, count: int) -> int:
    parts = 0
    for size in sorted((len(part) for part in topology.parts), reverse=True):
        if count <= 0:
            break
        count -= size
        parts += 1
    return parts
