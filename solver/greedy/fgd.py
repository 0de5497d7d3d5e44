"""FGD, fragmentation gradient descent: the node whose fragmentation grows least.

``score = trunc(100 * sigmoid((F(before) - F(after)) / 1000))`` with F the fragmentation of the
node in milli-GPU, relative to a target workload M (see `solver.fragmentation`). A share
tries every feasible device: the best score counts, the first device wins ties, and that device
is taken. Replicas without GPUs are scored too, because the CPU they take changes F.

References
----------
Q. Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation
Gradient Descent", USENIX ATC 2023, section 4.
"""

from __future__ import annotations

from math import exp

from solver.cluster import GPU_MILLI, Node
from solver.fit import feasible_gpus, pick_gpus, share_milli_on
from solver.fragmentation import TargetWorkload
from solver.greedy.scoring import PlacementPolicy, Score
from solver.state import NodeState
from solver.workload import Shape


def fgd_score(before_milli: float, after_milli: float) -> int:
    """Score of a placement by the node's fragmentation before and after it, 0 to 100.

    Examples
    --------
    >>> fgd_score(1100.0, 1100.0), fgd_score(1100.0, 600.0), fgd_score(0.0, 500.0)
    (50, 62, 37)
    """
    return int(100 * (1 / (1 + exp((after_milli - before_milli) / GPU_MILLI))))


class FragmentationGradient(PlacementPolicy):
    """Descend along the gradient of fragmentation.

    Parameters
    ----------
    workload
        The target workload M.
    """

    def __init__(self, workload: TargetWorkload) -> None:
        self._workload = workload

    def score(self, node: Node, state: NodeState, shape: Shape, kinds: frozenset[str]) -> Score:
        """Higher the more fragmentation falls."""
        return (self._best(node, state, shape)[0],)

    def pick(self, node: Node, state: NodeState, shape: Shape) -> tuple[int, ...] | None:
        """Whole GPUs by rule; for a share the device whose score is best."""
        return self._best(node, state, shape)[1]

    def _best(
        self, node: Node, state: NodeState, shape: Shape
    ) -> tuple[int, tuple[int, ...] | None]:
        before = self._workload.fragmentation_milli(node, state)
        if not shape.is_share:
            gpus = pick_gpus(node, shape, state)
            if gpus is None:
                return 0, None
            after = self._workload.fragmentation_milli(node, state.place(shape, gpus, GPU_MILLI))
            return fgd_score(before, after), gpus
        best: tuple[int, tuple[int, ...] | None] = (-1, None)
        tried = set()
        for gpu in feasible_gpus(node, shape, state):
            milli = share_milli_on(node, shape, gpu)
            alike = (state.gpu_left[gpu], milli, node.topology.gpu_models[gpu])
            if alike in tried:  # Cannot score better than the first such device.
                continue
            tried.add(alike)
            after = self._workload.fragmentation_milli(node, state.place(shape, (gpu,), milli))
            score = fgd_score(before, after)
            if score > best[0]:
                best = (score, (gpu,))
        return best
