"""The model, as a table of contents: variables, then rules, then one expression per step.

Rules are built at once; objective expressions when their step is reached, because some bring
variables of their own that earlier steps need not carry.
"""

from __future__ import annotations

from collections.abc import Callable

from solver.cpsat.constraints.capacity import add_capacity
from solver.cpsat.constraints.gang import add_gangs
from solver.cpsat.constraints.giving_way import add_giving_way
from solver.cpsat.constraints.gpu_count import add_gpu_count
from solver.cpsat.constraints.gpu_sets import add_gpu_sets
from solver.cpsat.constraints.keep import add_keep
from solver.cpsat.constraints.limits import add_queue_limits
from solver.cpsat.constraints.mig import add_mig, add_recut_limit, lost_by_cuts, recut_gpus
from solver.cpsat.constraints.share_compute import add_share_compute
from solver.cpsat.constraints.share_groups import add_share_groups
from solver.cpsat.constraints.shares import add_shares
from solver.cpsat.constraints.spread import add_spread
from solver.cpsat.constraints.start_groups import add_start_groups
from solver.cpsat.constraints.topology import add_required_topology
from solver.cpsat.devices import Devices
from solver.cpsat.objectives.fairness import FairShares
from solver.cpsat.objectives.guarantee import guaranteed
from solver.cpsat.objectives.must import must_start
from solver.cpsat.objectives.preemption import displaced, kept_milli
from solver.cpsat.objectives.priority import admitted
from solver.cpsat.objectives.stranded import stranded_milli
from solver.cpsat.objectives.topology import excess_groups, lost_bandwidth
from solver.cpsat.variables import Variables
from solver.linear import Expr, weighted
from solver.problem import Problem
from solver.tiers import Ruler, Step, StepKind
from solver.workload import RESOURCES

RULES_ON_COUNTS: tuple[Callable[[Variables], None], ...] = (
    add_gangs,
    add_start_groups,
    add_capacity,
    add_spread,
    add_queue_limits,
    add_keep,
    add_giving_way,
)
RULES_ON_DEVICES: tuple[Callable[[Variables, Devices], None], ...] = (
    add_shares,
    add_share_compute,
    add_share_groups,
    add_mig,
    add_gpu_count,
    add_gpu_sets,
    add_required_topology,
    add_recut_limit,
)


LOOKS_AT_NODES: frozenset[StepKind] = frozenset(
    {"groups", "bandwidth", "stranded", "recut", "slices"}
)
"""Steps whose value depends on which of several interchangeable nodes a replica is on."""


class StepExpressions:
    """What a plan is worth in each step, over the variables of a model; made when asked for."""

    def __init__(self, variables: Variables, ruler: Ruler) -> None:
        self.variables = variables
        self.devices = Devices()
        self._shares = FairShares(self.variables, ruler.entitled)
        self._expressions: dict[Step, Expr] = {}

    def expression(self, step: Step) -> Expr:
        """What a plan is worth in a step; never better than the truth, and equal at its best."""
        if step not in self._expressions:
            self._expressions[step] = self._build(step)
        return self._expressions[step]

    def keep(self, step: Step, value: int) -> None:
        """From now on no plan may be worse than `value` in this step."""
        low, high = (value, None) if step.sense == "max" else (None, value)
        self.variables.require(self.expression(step), low, high)

    def _build(self, step: Step) -> Expr:
        variables = self.variables
        match step.kind:
            case "must":
                return must_start(variables)
            case "guarantee":
                resource = next(r for r in RESOURCES if r == step.detail)
                return guaranteed(variables, resource, step.depth)
            case "started" | "surplus" | "cpu-only" | "oldest":
                return admitted(variables, step.kind, step.level)
            case "fairness":
                return self._shares.smallest(step)
            case "groups":
                return excess_groups(variables, step.detail)
            case "bandwidth":
                return lost_bandwidth(variables, self.devices)
            case "stranded":
                return stranded_milli(variables, self.devices)
            case "kept":
                return kept_milli(variables, step.level)
            case "preemption_cost":
                cost = displaced(variables, step)
                each = variables.problem.recut_cost_gpu_s
                if step.detail == "cost" and each:
                    cost = weighted([(cost, 1), (recut_gpus(variables, self.devices), each)])
                return cost
            case "recut":
                return recut_gpus(variables, self.devices)
            case "slices":
                return lost_by_cuts(variables, self.devices)


class PlacementModel(StepExpressions):
    """Variables and rules of one problem, and the expression of every step.

    Parameters
    ----------
    merge
        Count over classes of interchangeable nodes; good for steps that do not look at nodes one
        by one (`LOOKS_AT_NODES`).

    Raises
    ------
    BuildTimeoutError
        `check_time` found that the time for building is up.
    """

    def __init__(
        self,
        problem: Problem,
        ruler: Ruler,
        check_time: Callable[[], None],
        *,
        merge: bool = False,
    ) -> None:
        super().__init__(Variables(problem, check_time, merge=merge), ruler)
        for rule in RULES_ON_COUNTS:
            rule(self.variables)
        for device_rule in RULES_ON_DEVICES:
            device_rule(self.variables, self.devices)
