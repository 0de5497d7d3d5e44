"""Philly pack: a gang on the fullest node that takes it, a large one on whole nodes.

A job of one replica goes to the node with the fewest GPUs left. A gang of several replicas, whole
nodes and maybe a smaller rest, takes empty nodes first; the rest goes to the node with the most
GPUs left among the others. Ties go to the first node.

References
----------
The gang placement of the simulator of Q. Hu et al., "Characterization and Prediction of Deep
Learning Workloads in Large-Scale GPU Datacenters", SC 2021, for the trace of M. Jeon et al.,
"Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads", USENIX ATC 2019.
"""

from __future__ import annotations

from solver.cluster import Node
from solver.greedy.scoring import Field, PlacementPolicy, Score, highest
from solver.state import NodeState
from solver.workload import Job, Shape


class PhillyPack(PlacementPolicy):
    """Small jobs where little is left, the rest of large ones where most is."""

    def __init__(self) -> None:
        self._several = False

    def begin(self, job: Job) -> None:
        """Remember whether the job has several replicas."""
        self._several = job.replicas > 1

    def score(self, node: Node, state: NodeState, shape: Shape, kinds: frozenset[str]) -> Score:
        """Higher the less is left."""
        return (-state.free_milli,)

    def choose(self, field: Field) -> int | None:
        """The fullest node, or the emptiest one for a replica of several."""
        if not self._several:
            return field.best()
        candidates = field.candidates()
        return highest((tuple(-x for x in score), n, nodes) for score, n, nodes in candidates)
