"""Slices against exhaustive search: small GPUs and nodes, some of it in use, some left over."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from solver import greedy
from solver.api import solve
from solver.cluster import GPU_MILLI, MigInstance, Node
from solver.geometry import gpu_plans
from solver.options import SolveOptions
from solver.problem import Problem
from solver.solution import PlacedInstance, Placement, Plan
from solver.tiers import Ruler
from solver.verify import explain_violations, verify
from solver.workload import Job, Role, Shape, Slice
from tests.scenario import machine
from tests.topology.mig.test_creation import replay
from topology.mig.layouts import Instance, fits, layouts
from topology.mig.tables import mig_table

OPTIONS = SolveOptions(workers=1, seed=1, time_limit_s=60, deterministic_limit=30)
MODELS = ("A100-40GB", "A30-24GB")


@st.composite
def problems(draw, gpus, most_jobs):
    """A node of so many GPUs: each whole, or in MIG mode with instances in use or left over."""
    model = draw(st.sampled_from(MODELS))
    table = mig_table(model)
    every = list(layouts(table, table.base))
    held, modes = [], set()
    count = draw(st.integers(*gpus))
    for gpu in range(count):
        if draw(st.booleans()):
            modes.add(gpu)
            for instance in draw(st.sampled_from(every)):
                user = draw(st.sampled_from(["", "somebody"]))
                held.append(MigInstance(gpu=gpu, instance=instance, used_by=user))
    used = {h.gpu for h in held if h.used_by}
    back = draw(st.booleans())
    fixed = modes if not back else used
    node = Node(
        name="n",
        topology=machine([model] * count, memory_gib=table.memory_gb),
        mig_gpus=frozenset(fixed),
        mig_mode=frozenset(modes),
        cuttable_gpus=frozenset(range(count)) - fixed,
        instances=tuple(held),
    )
    names = [profile.name for profile in table.profiles]
    jobs = []
    for number in range(draw(st.integers(1, most_jobs))):
        kind = draw(st.sampled_from(["slice", "slice", "slice", "whole", "amount"]))
        if kind == "whole":
            shape = Shape(gpus=1)
        elif kind == "amount":
            wish = Slice(memory_mib=draw(st.sampled_from([4000, 9000, 18000])))
            shape = Shape(slices=((wish, 1),)) if wish.on(table) else Shape(gpus=1)
        else:
            shape = Shape(slices=((Slice(draw(st.sampled_from(names))), 1),))
        role = Role(name="replica", shape=shape)
        jobs.append(Job(name=f"j{number}", roles=(role,), priority=draw(st.integers(0, 1))))
    limit = draw(st.sampled_from([None, None, 0, 1]))
    return Problem(nodes=(node,), jobs=tuple(jobs), most_recut_gpus=limit)


def every_plan(problem):
    """Every valid plan, by trying each job on each GPU at each start."""
    (node,) = problem.nodes
    used = [list(layout) for layout in node.used_layouts]

    def grow(at, whole, cut, placed):
        if at == len(problem.jobs):
            plan = Plan.of(placed)
            if not verify(problem, plan):
                yield plan
            return
        job = problem.jobs[at]
        shape = job.roles[0].shape
        yield from grow(at + 1, whole, cut, placed)
        if shape.gpus:
            free = [g for g in node.usable_gpus if g not in whole and not cut[g]]
            for gpus in combinations(free, shape.gpus):
                place = Placement(job.name, "replica", 0, "n", gpus, GPU_MILLI)
                yield from grow(at + 1, whole | set(gpus), cut, [*placed, place])
            return
        ((wish, _),) = shape.slices
        for gpu in range(node.n_gpus):
            table = node.mig_tables[gpu]
            profile = wish.on(table)
            for start in profile.starts if profile and gpu not in whole else ():
                made = Instance(start, profile.name)
                if not fits(table, [*used[gpu], *cut[gpu], made]):
                    continue
                more = [[*c, made] if g == gpu else c for g, c in enumerate(cut)]
                instances = (PlacedInstance(gpu, made),)
                place = Placement(job.name, "replica", 0, "n", (), 0, instances)
                yield from grow(at + 1, whole, more, [*placed, place])

    yield from grow(0, frozenset(), [[] for _ in range(node.n_gpus)], [])


def check(problem):
    ruler = Ruler(problem)
    best = max(ruler.key(plan) for plan in every_plan(problem))

    result = solve(problem, OPTIONS)

    assert ruler.key(result.plan) == best
    assert result.status == "optimal"
    bounds = [term.bound for term in result.objectives]
    assert bounds == [term.value for term in result.objectives]
    return result


@settings(max_examples=30)
@given(problems(gpus=(1, 1), most_jobs=4))
def test_one_gpu_is_cut_as_exhaustive_search_would(problem):
    check(problem)


@settings(max_examples=15)
@given(problems(gpus=(2, 3), most_jobs=2))
def test_a_node_is_cut_as_exhaustive_search_would(problem):
    check(problem)


@settings(max_examples=25)
@given(problems(gpus=(1, 3), most_jobs=6))
def test_instances_in_use_stay_and_the_order_ends_in_the_plan(problem):
    result = solve(problem, OPTIONS)

    for gpu in gpu_plans(problem, result.plan):
        before = {h.instance for h in problem.nodes[0].instances if h.gpu == gpu.gpu}
        used = set(problem.nodes[0].used_layouts[gpu.gpu])
        final = {instance for instance, _ in gpu.final}
        assert used <= final
        assert not used & set(gpu.destroy)
        there = before - set(gpu.destroy)
        assert fits(gpu.table, sorted(final))
        assert there | set(gpu.creation.order) == final
        if not gpu.creation.starts_must_be_passed:
            assert replay(gpu.table, gpu.creation.order, sorted(there)) == sorted(final)


@settings(max_examples=15)
@given(problems(gpus=(1, 3), most_jobs=6), st.sampled_from(sorted(greedy.POLICIES)))
def test_greedy_policies_break_no_rule(problem, policy):
    plan = greedy.place(problem, policy)

    assert not verify(problem, plan), explain_violations(verify(problem, plan))


@settings(max_examples=15)
@given(problems(gpus=(1, 2), most_jobs=4))
def test_one_more_gpu_never_hurts(problem):
    (node,) = problem.nodes
    model = node.topology.gpu_models[0]
    more = Node(name="more", topology=machine([model]), cuttable_gpus=frozenset([0]))
    larger = replace(problem, nodes=(node, more))

    def started(question):
        result = solve(question, OPTIONS)
        return [t.value for t in result.objectives if t.step == "started"]

    assert started(larger) >= started(problem)
