"""Preemption: what of the running work is kept, and what it costs to displace the rest.

Let n_r be the replicas of a staying role r (all alike) and c_r the cost of displacing one::

    kept at a level  = held by work that is not in question + sum of milli_r * x[r, n]
    cost             = sum over staying roles of c_r * (n_r - sum_n x[r, n])       in GPU-seconds

and likewise the milli-GPU and the replicas displaced, by which ties of cost are decided.
"""

from __future__ import annotations

from solver.cpsat.variables import Variables
from solver.linear import Expr, weighted
from solver.preemption.measures import displaced_amount, held_milli, in_question
from solver.tiers import Step


def kept_milli(variables: Variables, level: int | None) -> Expr:
    """Milli-GPU of running work of one priority level that stays or moves."""
    problem = variables.problem
    fixed = held_milli(problem.running, level)
    kept: list[tuple[Expr, int]] = [
        (x, problem.use(role, "gpu_milli"))
        for job, role in in_question(problem)
        if job.priority == level
        for _, x in variables.counts(job, role)
    ]
    return weighted([*kept, (1, fixed)])


def displaced(variables: Variables, step: Step) -> Expr:
    """What all displaced replicas add up to: their cost, their GPUs or their number."""
    problem = variables.problem
    terms: list[tuple[Expr, int]] = []
    for job, role in in_question(problem):
        if role.held:
            each = displaced_amount(problem, job, role, step.detail)
            terms.append((1, each * role.replicas))
            terms += [(x, -each) for _, x in variables.counts(job, role)]
    return weighted(terms)
