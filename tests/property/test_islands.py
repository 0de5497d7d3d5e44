"""Cuts and islands against exhaustive search: GPUs in a row, the middle ones are bridges."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from solver import greedy
from solver.api import solve
from solver.cluster import GPU_MILLI, Node
from solver.options import SolveOptions
from solver.problem import Problem
from solver.solution import PlacedInstance, Placement, Plan
from solver.tiers import Ruler
from solver.verify import Rule, verify
from solver.workload import Job, Role, Shape, Slice, TopologyRule
from tests.scenario import machine
from topology.mig.layouts import Instance

OPTIONS = SolveOptions(workers=1, seed=1, time_limit_s=60, deterministic_limit=30)
MODEL = "A100-40GB"
WHOLE_CARD = Shape(slices=((Slice("7g.40gb"), 1),))


def row(gpus, links, cuttable, switchable=()):
    topology = machine([MODEL] * gpus, dict.fromkeys(links, "NV12"), memory_gib=40)
    return Node(
        name="n",
        topology=topology,
        mig_mode=frozenset(switchable),
        cuttable_gpus=frozenset(cuttable) | frozenset(switchable),
    )


def gang(name, replicas, priority=0):
    roles = (Role(name="r", shape=Shape(gpus=1), replicas=replicas, min_replicas=replicas),)
    return Job(name=name, roles=roles, priority=priority, topology=TopologyRule(within="island"))


def slices(name, priority=0):
    return Job(name=name, roles=(Role(name="r", shape=WHOLE_CARD),), priority=priority)


def whole(job, replica, gpu):
    return Placement(job, "r", replica, "n", (gpu,), GPU_MILLI)


def cut(job, gpu):
    return Placement(job, "r", 0, "n", (), 0, (PlacedInstance(gpu, Instance(0, "7g.40gb")),))


def test_a_gang_is_not_in_one_island_once_the_bridge_between_its_gpus_is_cut():
    node = row(3, [(0, 1), (1, 2)], cuttable=[0, 1, 2])
    problem = Problem(nodes=(node,), jobs=(gang("g", 2), slices("s")))
    ends = [whole("g", 0, 0), whole("g", 1, 2)]

    assert not verify(problem, Plan.of(ends))
    assert not verify(problem, Plan.of([whole("g", 0, 0), whole("g", 1, 1), cut("s", 2)]))
    (found,) = verify(problem, Plan.of([*ends, cut("s", 1)]))
    assert found.rule is Rule.TOPOLOGY


def test_a_gpu_that_stays_in_mig_mode_is_no_bridge():
    node = row(3, [(0, 1), (1, 2)], cuttable=[], switchable=[1])
    problem = Problem(nodes=(node,), jobs=(gang("g", 2), gang("h", 3)))

    assert verify(problem, Plan.of([whole("g", 0, 0), whole("g", 1, 2)]))
    assert not verify(problem, Plan.of([whole("h", n, n) for n in range(3)]))


def test_the_solver_cuts_an_end_of_the_row_and_not_its_middle():
    node = row(3, [(0, 1), (1, 2)], cuttable=[1, 2])
    problem = Problem(nodes=(node,), jobs=(gang("g", 2, priority=1), slices("s")))

    result = solve(problem, OPTIONS)

    assert result.status == "optimal"
    (placed,) = result.plan.by_job["s"]
    assert [entry.gpu for entry in placed.instances] == [2]


def test_with_only_the_middle_to_cut_either_of_the_two_waits():
    node = row(3, [(0, 1), (1, 2)], cuttable=[1])
    jobs = (gang("g", 2, priority=1), slices("s"))

    result = solve(Problem(nodes=(node,), jobs=jobs), OPTIONS)

    assert result.status == "optimal"
    assert set(result.plan.by_job) == {"g"}


def test_whole_gpus_leave_the_one_that_may_be_cut_to_slices():
    pairs = [(0, 1), (0, 2), (1, 2)]
    one = Job(name="one", roles=(Role(name="r", shape=Shape(gpus=1)),))
    problem = Problem(nodes=(row(3, pairs, cuttable=[0]),), jobs=(one, slices("s")))

    assert set(solve(problem, OPTIONS).plan.by_job) == {"one", "s"}


@st.composite
def problems(draw):
    """Three or four GPUs with some links, two gangs or slices or single GPUs."""
    gpus = draw(st.integers(3, 4))
    pairs = list(combinations(range(gpus), 2))
    chain = [(n, n + 1) for n in range(gpus - 1)]
    links = draw(st.sampled_from([chain, [*chain, (0, gpus - 1)], pairs, chain[:-1]]))
    mode = draw(st.sets(st.integers(0, gpus - 1), max_size=1))
    cuttable = draw(st.sets(st.integers(0, gpus - 1))) - mode
    jobs = []
    for number in range(draw(st.integers(2, 3))):
        name, priority = f"j{number}", draw(st.integers(0, 1))
        if draw(st.booleans()):
            jobs.append(slices(name, priority))
        elif draw(st.booleans()):
            jobs.append(gang(name, draw(st.integers(1, 3)), priority))
        else:
            jobs.append(
                Job(name=name, roles=(Role(name="r", shape=Shape(gpus=1)),), priority=priority)
            )
    return Problem(nodes=(row(gpus, links, cuttable, mode),), jobs=tuple(jobs))


def every_plan(problem):
    """Every valid plan: each job nowhere, or on each set of GPUs."""
    (node,) = problem.nodes

    def grow(at, free, placed):
        if at == len(problem.jobs):
            plan = Plan.of(placed)
            if not verify(problem, plan):
                yield plan
            return
        job = problem.jobs[at]
        (role,) = job.roles
        yield from grow(at + 1, free, placed)
        if role.shape.slices:
            for gpu in free:
                yield from grow(at + 1, free - {gpu}, [*placed, cut(job.name, gpu)])
            return
        for gpus in combinations(sorted(free), role.replicas):
            more = [whole(job.name, n, gpu) for n, gpu in enumerate(gpus)]
            yield from grow(at + 1, free - set(gpus), [*placed, *more])

    yield from grow(0, frozenset(range(node.n_gpus)), [])


@settings(max_examples=40)
@given(problems())
def test_islands_are_kept_and_cut_as_exhaustive_search_would(problem):
    ruler = Ruler(problem)
    best = max(ruler.key(plan) for plan in every_plan(problem))

    result = solve(problem, OPTIONS)

    assert ruler.key(result.plan) == best
    assert result.status == "optimal"


@settings(max_examples=20)
@given(problems(), st.sampled_from(sorted(greedy.POLICIES)))
def test_greedy_policies_tear_no_gang_apart(problem, policy):
    assert not verify(problem, greedy.place(problem, policy))
