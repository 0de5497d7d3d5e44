"""The state of the cluster and its queues once a plan has started: what results carry."""

from __future__ import annotations

from solver import metrics
from solver.cluster import GPU_MILLI
from solver.fair_share import demand, entitlements
from solver.fragmentation import cluster_fragmentation_milli
from solver.preemption.cost import cost_of, plan_cost_gpu_s
from solver.problem import Problem, RoleKey
from solver.result import Evicted, Metrics, Moved, QueueReport
from solver.solution import Plan
from solver.state import states_after
from solver.stranding import CAUSES
from solver.tiers import Ruler


def measure_cluster(problem: Problem, plan: Plan, ruler: Ruler) -> Metrics:
    """All figures of the cluster after the plan."""
    states = states_after(problem, plan)
    parts = ruler.stranded(plan)
    weights = max(1, sum(part.weight for part in parts))
    scale = GPU_MILLI * weights
    by_cause = {cause: sum(p.weight * p.by_cause[cause] for p in parts) / scale for cause in CAUSES}
    schedulable = [node for node in problem.nodes if node.schedulable]
    free_milli = sum(states[node.name].free_milli for node in schedulable)
    usable = [(node, states[node.name]) for node in problem.nodes if node.ready]
    capacity = GPU_MILLI * sum(len(node.usable_gpus) for node, _ in usable)
    idle = sum(state.free_milli for _, state in usable)
    admitted = metrics.admitted_jobs(problem, plan)
    started = metrics.started_milli(plan)
    left_over = sum(
        (role.replicas - plan.started.get(RoleKey(job.name, role.name), 0))
        * problem.gpu_milli(role.shape)
        for job, role in problem.roles()
    )
    used = metrics.usage(problem, plan)
    costs = {
        step.step: ruler.value(step, plan) for step in ruler.steps if step.tier == "topology"
    } or {"links": metrics.lost_bandwidth_gb_s(problem, plan)}
    return Metrics(
        admitted_jobs=admitted,
        admitted_gpus=started / GPU_MILLI,
        pending_jobs=len(problem.jobs) - admitted,
        pending_gpus=left_over / GPU_MILLI,
        free_gpus=free_milli / GPU_MILLI,
        stranded_gpus=sum(p.weight * p.milli for p in parts) / scale,
        stranded_by_shape={metrics.shape_label(p.shape): p.milli / GPU_MILLI for p in parts},
        stranded_by_cause=by_cause,
        fragmentation_gpus=cluster_fragmentation_milli(problem, states) / GPU_MILLI,
        utilization_ratio=(capacity - idle) / capacity if capacity else 0.0,
        worst_dominant_share=max(
            (metrics.dominant_share(problem, used[q.name]) for q in problem.queues), default=0.0
        ),
        topology_cost=sum(costs.values()),
        topology_cost_by_step=costs,
        preemption_cost_gpu_s=plan_cost_gpu_s(problem, plan),
    )


def report_evictions(problem: Problem, plan: Plan) -> tuple[Evicted, ...]:
    """What the plan stops, with its price."""
    running = {job.name: job for job in problem.running}
    return tuple(
        Evicted(
            job=eviction.job,
            replicas=eviction.replicas,
            gpu_milli=sum(running[eviction.job].replicas[n].gpu_milli for n in eviction.replicas),
            cost_gpu_s=cost_of(running[eviction.job], eviction.replicas),
        )
        for eviction in plan.evictions
    )


def report_moves(problem: Problem, plan: Plan) -> tuple[Moved, ...]:
    """What the plan moves, with its price."""
    running = {job.name: job for job in problem.running}
    found = []
    for move in plan.moves:
        job = running[move.job]
        before = job.replicas[move.replica]
        found.append(
            Moved(
                job=move.job,
                replica=move.replica,
                from_node=before.node,
                from_gpus=before.gpus,
                to_node=move.node,
                to_gpus=move.gpus,
                gpu_milli=before.gpu_milli,
                cost_gpu_s=cost_of(job, [move.replica]),
            )
        )
    return tuple(found)


def report_queues(problem: Problem, plan: Plan) -> tuple[QueueReport, ...]:
    """What every queue has, wants and is entitled to."""
    used = metrics.usage(problem, plan)
    wanted = demand(problem)
    entitled = entitlements(problem)
    return tuple(
        QueueReport(
            name=queue.name,
            quota=dict(queue.quota),
            demand=dict(wanted[queue.name]),
            used=dict(used[queue.name]),
            entitled=dict(entitled[queue.name]),
            dominant_share=metrics.dominant_share(problem, used[queue.name]),
            borrowed_from=_borrowed(problem, used, queue.name),
        )
        for queue in problem.queues
    )


def _borrowed(problem: Problem, used: metrics.Usage, name: str) -> dict[str, int]:
    """Milli-GPU beyond the quota, by the queues whose unused quota it comes from.

    Lenders are asked in order of name; what no quota covers is nobody's and is not listed.
    """
    quota = {q.name: q.quota.get("gpu_milli", 0) for q in problem.queues}
    lendable = {n: max(0, quota[n] - used[n]["gpu_milli"]) for n in sorted(quota)}
    loans: dict[str, int] = {}
    for borrower in sorted(quota):
        beyond = max(0, used[borrower]["gpu_milli"] - quota[borrower]) if quota[borrower] else 0
        for lender in lendable:
            loan = min(beyond, lendable[lender])
            if lender != borrower and loan:
                lendable[lender] -= loan
                beyond -= loan
                if borrower == name:
                    loans[lender] = loan
    return loans
