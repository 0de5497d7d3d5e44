"""What holds for every problem and every policy.

Values of steps are compared, never placements: plans may tie. CP-SAT runs with one worker and a
seed, so a failing example fails again.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from solver import greedy
from solver.api import solve
from solver.options import SolveOptions
from solver.problem import Problem, RoleKey
from solver.result import SolveResult, SolveStatus
from solver.state import states_after
from solver.tiers import Ruler
from solver.verify import explain_violations, verify
from solver.workload import Job, LinkRule, Queue, RunningJob, Shape
from tests.brute_force import TooManyPlansError, best_values
from tests.strategies import shapes, small_problems, tiny_problems
from topology.scoring import is_linked

if TYPE_CHECKING:
    from solver.cluster import Node
    from solver.solution import Plan

OPTIONS = SolveOptions(seed=1, workers=1, time_limit_s=20)
POLICIES = sorted(greedy.POLICIES)

pytestmark = pytest.mark.timeout(240)
solving = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])


def best(problem: Problem) -> SolveResult:
    """What CP-SAT answers."""
    return solve(problem, OPTIONS, "cp-sat")


def values(problem: Problem, plan: Plan) -> tuple[int, ...]:
    return Ruler(problem).measure(plan)


def proved(problem: Problem) -> tuple[int, ...]:
    """Values of the optimum; examples that the time limit ends say nothing."""
    result = best(problem)
    assume(result.status is not SolveStatus.FEASIBLE)
    return values(problem, result.plan)


# Plans


@given(small_problems())
def test_no_greedy_policy_breaks_a_rule(problem):
    for name in POLICIES:
        found = verify(problem, greedy.place(problem, name, 1))

        assert not found, f"{name}: {explain_violations(found)}"


@given(small_problems(), st.sampled_from(POLICIES))
def test_a_greedy_policy_decides_alike_twice(problem, name):
    first, second = (greedy.place(problem, name, 7) for _ in range(2))

    assert first == second


@solving
@given(small_problems())
def test_cp_sat_breaks_no_rule_and_is_never_worse_than_a_greedy_policy(problem):
    ruler = Ruler(problem)

    plan = best(problem).plan

    assert not verify(problem, plan), explain_violations(verify(problem, plan))
    for name in POLICIES:
        assert ruler.key(plan) >= ruler.key(greedy.place(problem, name, 1)), name


@solving
@given(tiny_problems())
def test_cp_sat_finds_the_best_plan_there_is_and_proves_it(problem):
    try:
        expected = best_values(problem)
    except TooManyPlansError:
        assume(False)
    event(f"something starts: {any(expected)}")

    result = best(problem)

    named = [f"{s.tier}/{s.level}/{s.step}" for s in Ruler(problem).steps]
    found = dict(zip(named, values(problem, result.plan), strict=True))
    assert found == dict(zip(named, expected, strict=True))
    assert result.status is SolveStatus.OPTIMAL


# Bounds


@solving
@given(small_problems(), st.sampled_from(["cp-sat", "best-fit", "fgd"]))
def test_every_bound_is_on_the_far_side_of_its_value(problem, policy):
    result = solve(problem, OPTIONS, policy)

    assert [t.value for t in result.objectives] == [
        step.term(value, value).value
        for step, value in zip(Ruler(problem).steps, values(problem, result.plan), strict=True)
    ]
    for term in result.objectives:
        gain = term.bound - term.value
        assert (gain if term.sense == "max" else -gain) >= 0, term
        assert (term.gap_ratio == 0) == (gain == 0)
    if result.status is SolveStatus.OPTIMAL:
        assert all(term.gap_ratio == 0 for term in result.objectives)


@solving
@given(tiny_problems(), st.sampled_from(POLICIES))
def test_the_first_bound_of_a_greedy_policy_holds_for_the_best_plan(problem, policy):
    """Later bounds hold only for plans as good in the steps before, so only the first is fixed."""
    try:
        expected = best_values(problem)
    except TooManyPlansError:
        assume(False)

    first = solve(problem, OPTIONS, policy).objectives[0]

    step = Ruler(problem).steps[0]
    optimum = step.term(expected[0], expected[0]).value
    assert first.bound >= optimum if first.sense == "max" else first.bound <= optimum


# What may not matter


@solving
@given(tiny_problems(), st.randoms(use_true_random=False))
def test_the_order_of_nodes_and_queues_changes_no_value(problem, shuffler):
    nodes, queues = list(problem.nodes), list(problem.queues)
    shuffler.shuffle(nodes)
    shuffler.shuffle(queues)
    shuffled = replace(problem, nodes=tuple(nodes), queues=tuple(queues))

    assert proved(shuffled) == proved(problem)


@solving
@given(tiny_problems())
def test_names_of_jobs_and_nodes_and_groups_change_no_value(problem):
    """Names are turned round in their order, so that a decision by name would show.

    Names of queues keep their order: the last whole GPU of an entitlement goes by name.
    """
    assert proved(renamed(problem)) == proved(problem)


def mirrored(name: str) -> str:
    """Another name that sorts the other way round."""
    return "".join(chr(0x17F - ord(letter)) for letter in name)


def renamed(problem: Problem) -> Problem:
    def node(old: Node) -> Node:
        place = {level: mirrored(group) for level, group in old.location.items()}
        return replace(old, name=mirrored(old.name), location=place)

    def job(old: Job) -> Job:
        group = None if old.start_group is None else mirrored(old.start_group)
        roles = tuple(replace(role, name=mirrored(role.name)) for role in old.roles)
        return replace(
            old, name=mirrored(old.name), queue=f"q-{old.queue}", start_group=group, roles=roles
        )

    def running(old: RunningJob) -> RunningJob:
        held = tuple(replace(r, node=mirrored(r.node)) for r in old.replicas)
        return replace(old, name=mirrored(old.name), queue=f"q-{old.queue}", replicas=held)

    def queue(old: Queue) -> Queue:
        parent = None if old.parent is None else f"q-{old.parent}"
        return replace(old, name=f"q-{old.name}", parent=parent)

    return replace(
        problem,
        nodes=tuple(map(node, problem.nodes)),
        jobs=tuple(map(job, problem.jobs)),
        running=tuple(map(running, problem.running)),
        queues=tuple(map(queue, problem.queues)),
    )


@solving
@given(tiny_problems())
def test_one_more_idle_node_never_lowers_what_is_admitted(problem):
    """For one queue: with several, more capacity is also more to be fair about.

    The node is a copy of one that is there: an unknown kind of GPU would change what a share by
    memory counts for.
    """
    single = in_one_queue(problem)
    spare = replace(single.nodes[0], name="spare", ready=True, cordoned=False)
    larger = replace(single, nodes=(*single.nodes, spare))

    before, after = admitted(single), admitted(larger)

    assert after >= before


def in_one_queue(problem: Problem) -> Problem:
    queue = replace(problem.queues[0], parent=None)
    return replace(
        problem,
        queues=(queue,),
        jobs=tuple(replace(job, queue=queue.name) for job in problem.jobs),
        running=tuple(replace(job, queue=queue.name) for job in problem.running),
    )


def admitted(problem: Problem) -> tuple[int, ...]:
    """Values of the steps about what starts, which are all that come before the costs."""
    steps = Ruler(problem).steps
    return tuple(
        value
        for step, value in zip(steps, proved(problem), strict=True)
        if step.tier in ("guarantee", "priority")
    )


# Metrics


@given(small_problems(), st.sampled_from(POLICIES))
def test_what_is_stranded_is_free_and_adds_up(problem, policy):
    metric = solve(problem, OPTIONS, policy).metrics

    weights = [weight for _, weight in problem.reference]
    assert 0 <= metric.stranded_gpus <= metric.free_gpus + 1e-9 or not weights
    assert sum(metric.stranded_by_cause.values()) == pytest.approx(metric.stranded_gpus)
    assert min(metric.stranded_by_cause.values(), default=0) >= 0
    assert len(metric.stranded_by_shape) <= len(weights)
    assert 0 <= metric.utilization_ratio <= 1


@given(small_problems(), st.sampled_from(POLICIES))
def test_every_job_is_admitted_or_pending_and_is_said_to_be(problem, policy):
    result = solve(problem, OPTIONS, policy)

    metric, plan = result.metrics, result.plan
    started = {job.name for job in problem.jobs if job.name in plan.by_job}
    wholly = {
        job.name
        for job in problem.jobs
        if len(plan.by_job.get(job.name, ())) >= (job.min_replicas if job.gang else job.replicas)
    }
    assert metric.admitted_jobs == len(started)
    assert {p.job for p in result.pending} == {j.name for j in problem.jobs} - wholly
    new_milli = sum(p.share_milli * len(p.gpus) for p in plan.placements)
    assert metric.admitted_gpus == pytest.approx(new_milli / 1000)
    waiting_milli = sum(
        problem.gpu_milli(role.shape)
        * (role.replicas - plan.started.get(RoleKey(job.name, role.name), 0))
        for job, role in problem.roles()
    )
    assert metric.pending_gpus == pytest.approx(waiting_milli / 1000)


@given(small_problems(), st.sampled_from(POLICIES))
def test_free_gpus_are_those_nobody_holds_on_nodes_that_are_ready(problem, policy):
    result = solve(problem, OPTIONS, policy)

    held: Counter[tuple[str, int]] = Counter()
    for running in problem.running:
        for replica in running.replicas:
            held.update({(replica.node, gpu): replica.share_milli for gpu in replica.gpus})
    for at in result.plan.placements:
        held.update({(at.node, gpu): at.share_milli for gpu in at.gpus})
    free = sum(
        1000 - held[node.name, gpu]
        for node in problem.nodes
        if node.schedulable
        for gpu in range(node.n_gpus)
        if gpu not in node.unhealthy_gpus | node.mig_gpus
    )
    assert result.metrics.free_gpus == pytest.approx(free / 1000)


@given(small_problems(), shapes().filter(lambda s: s.gpus > 0))
def test_stranded_gpus_of_a_shape_are_what_no_packing_of_it_can_use(problem, shape):
    """Against a search over all ways to put replicas of the shape on a node."""
    problem = replace(problem, reference_shapes=((shape, 1),))
    plan = greedy.place(problem, "best-fit", 1)
    states = states_after(problem, plan)
    ruler = Ruler(problem)
    (step,) = (step for step in ruler.steps if step.tier == "stranded")

    expected = 0
    for node in problem.nodes:
        empty = [1000 if g in node.usable_gpus else 0 for g in range(node.n_gpus)]
        if accepts(node, shape) and most(node, shape, empty, node.cpu_milli, node.memory_mib):
            state = states[node.name]
            left = list(state.gpu_left)
            count = most(node, shape, left, state.cpu_left, state.memory_left)
            expected += sum(left) - 1000 * shape.gpus * count

    assert ruler.value(step, plan) == expected


def accepts(node: Node, shape: Shape) -> bool:
    """Whether the node's state, taints and labels let the shape in."""
    return (
        node.ready
        and not node.cordoned
        and all(t.repels <= any(s.tolerates(t) for s in shape.tolerations) for t in node.taints)
        and all(node.all_labels.get(key) == value for key, value in shape.node_selector)
    )


def most(node: Node, shape: Shape, gpu_left: list[int], cpu: int | None, memory: int | None) -> int:
    """Most replicas of a shape with whole GPUs, by trying every set of free GPUs in turn."""
    if (cpu is not None and shape.cpu_milli > cpu) or (
        memory is not None and shape.memory_mib > memory
    ):
        return 0
    models = node.topology.gpu_models
    usable = [
        gpu
        for gpu, left in enumerate(gpu_left)
        if left == 1000 and (not shape.gpu_models or models[gpu] in shape.gpu_models)
    ]
    found = 0
    for gpus in combinations(usable, shape.gpus):
        if shape.link is not LinkRule.NONE and not is_linked(node.topology, gpus):
            continue
        rest = [0 if gpu in gpus else left for gpu, left in enumerate(gpu_left)]
        # The lowest GPU of the first set is the lowest that any set has.
        rest = [0 if gpu < gpus[0] else left for gpu, left in enumerate(rest)]
        further = most(
            node,
            shape,
            rest,
            None if cpu is None else cpu - shape.cpu_milli,
            None if memory is None else memory - shape.memory_mib,
        )
        found = max(found, 1 + further)
        if found == len(usable) // shape.gpus:
            break
    return found
