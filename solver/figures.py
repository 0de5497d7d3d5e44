"""The state of the cluster and its queues once a plan has started: what results carry."""

from __future__ import annotations

from solver import metrics
from solver.cluster import GPU_MILLI
from solver.fair_share import demand, entitlements
from solver.fragmentation import cluster_fragmentation_milli
from solver.lending import loans
from solver.preemption.cost import cost_of, plan_cost_gpu_s
from solver.problem import Problem, RoleKey
from solver.result import Evicted, Metrics, Moved, QueueReport
from solver.solution import Plan
from solver.state import states_after
from solver.stranding import CAUSES
from solver.tiers import Ruler
from solver.workload import Queue


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
    started = metrics.started_milli(problem, plan)
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
    """What every queue has, wants and is entitled to, with all below it."""
    used = metrics.usage(problem, plan)
    wanted = demand(problem)
    entitled = entitlements(problem)
    borrowed = loans(problem, used)
    tree = problem.queue_tree
    return tuple(
        QueueReport(
            name=queue.name,
            quota=dict(queue.quota),
            demand=_wanted_below(problem, queue, wanted),
            used=metrics.member_usage(tree.by_name[queue.name], used),
            entitled=dict(entitled[queue.name]),
            dominant_share=metrics.dominant_share(
                problem, metrics.member_usage(tree.by_name[queue.name], used)
            ),
            borrowed_from=borrowed[queue.name],
            past_gpu_s=tree.by_name[queue.name].past_gpu_s,
            weight_now=tree.by_name[queue.name].weight / tree.weight_unit,
        )
        for queue in problem.queues
    )


def _wanted_below(problem: Problem, queue: Queue, wanted: metrics.Usage) -> metrics.Amounts:
    """What a queue says it wants, or what it and all below it want."""
    below = problem.queue_tree.families.get(queue.name, ())
    total = dict(wanted[queue.name])
    for member in below:
        if not member.is_own:
            child = problem.queue_by_name[member.name]
            for resource, amount in _wanted_below(problem, child, wanted).items():
                if resource not in queue.demand:
                    total[resource] += amount
    return total
