"""Start with fewer replicas: the largest minimum that works."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from solver.cluster import GPU_MILLI
from solver.explain.fixes.change import GONE_WITHOUT_S, Change, with_role
from solver.explain.question import SEARCH_S, Case, model_of
from solver.problem import Problem
from solver.result_text import counted
from solver.search import decide
from solver.workload import Role


def lower_min(case: Case) -> Iterator[Change]:
    """For each role of a gang alone: the most replicas that fit; cheapest first."""
    if not case.job.gang:
        return
    found = [change for role in case.part.roles for change in _lowered(case, role)]
    yield from sorted(found, key=lambda change: change.cost_gpu_s)


def _lowered(case: Case, role: Role) -> Iterator[Change]:
    if role.min_replicas < 2:
        return
    if case.passed_over:  # only a whole solve can tell which one helps
        counts: Iterable[int] = range(role.min_replicas - 1, 0, -1)
    else:
        counts = _most(case, role)
    for most in counts:
        yield _to_count(case, role, most)


def _most(case: Case, role: Role) -> tuple[int, ...]:
    """The largest minimum below the present one with which the job fits, if there is one."""
    question = _to(case, role, 1)(case.claim)
    placement = model_of(question)
    variables, job = placement.variables, question.job_by_name[case.job.name]
    lowered = next(other for other in job.roles if other.name == role.name)
    counts = [x for _, x in variables.counts(job, lowered)]
    if not counts:
        return ()
    variables.model.maximize(sum(counts))
    answer = decide(variables.model, SEARCH_S)
    if not answer.found:
        return ()
    most = sum(answer.value_of(x) for x in counts)
    return (most,) if 0 < most < role.min_replicas else ()


def _to_count(case: Case, role: Role, most: int) -> Change:
    whose = "" if len(case.job.roles) == 1 else f" of {role.name}"
    less_milli = (role.min_replicas - most) * case.problem.gpu_milli(role.shape)
    return Change(
        kind="lower-min",
        text=f"start with {counted(most, 'replica')}{whose} instead of {role.min_replicas}",
        params={"role": role.name, "from": role.min_replicas, "min": most},
        cost_gpu_s=-(-less_milli * GONE_WITHOUT_S // GPU_MILLI),
        apply=_to(case, role, most),
    )


def _to(case: Case, role: Role, most: int) -> Callable[[Problem], Problem]:
    return with_role(case.job.name, role.name, lambda other: replace(other, min_replicas=most))
