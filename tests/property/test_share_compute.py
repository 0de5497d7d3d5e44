"""Shares with a memory limit and a part of the compute, against exhaustive search."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solver import greedy
from solver.api import solve
from solver.cluster import Node
from solver.options import ModelChoice, SolveOptions
from solver.problem import Problem
from solver.solution import Placement, Plan
from solver.tiers import Ruler
from solver.verify import Rule, verify
from solver.workload import Job, Role, RunningJob, RunningReplica, Shape
from tests.brute_force import best_values
from tests.scenario import machine

OPTIONS = SolveOptions(workers=1, seed=1, time_limit_s=60, deterministic_limit=30)


def share(name, milli, compute=0, priority=0, gang=True, replicas=1):
    """A share of so many thousandths of the memory, with a part of the compute if it says one."""
    shape = Shape(share_milli=milli, compute_milli=compute)
    least = replicas if gang else 0
    role = Role(name="r", shape=shape, replicas=replicas, min_replicas=least)
    return Job(name=name, roles=(role,), priority=priority, gang=gang)


def runs(name, milli, compute=0, priority=0):
    held = RunningReplica(node="n", gpus=(0,), share_milli=milli, compute_milli=compute)
    shapes = (Shape(share_milli=milli, compute_milli=compute),)
    return RunningJob(name=name, replicas=(held,), shapes=shapes, priority=priority)


def one_node(gpus, jobs, running=(), limit=1000):
    node = Node(name="n", topology=machine(gpus), compute_limit_milli=limit)
    return Problem(nodes=(node,), jobs=tuple(jobs), running=tuple(running))


@pytest.mark.parametrize(("limit", "starts"), [(1000, 2), (1500, 3), (2000, 4), (100_000, 5)])
def test_compute_is_given_as_often_as_the_node_says_and_memory_once(limit, starts):
    problem = one_node(1, [share("a", 200, 500, gang=False, replicas=9)], limit=limit)

    result = solve(problem, OPTIONS)

    assert result.status == "optimal"
    assert len(result.plan.placements) == starts


def test_the_judge_adds_up_compute_of_what_runs_stays_and_starts():
    problem = one_node(1, [share("a", 100, 400), share("b", 200)], [runs("old", 100, 500)])
    a, b = (Placement(name, "r", 0, "n", (0,), milli) for name, milli in (("a", 100), ("b", 200)))

    assert not verify(problem, Plan.of([a]))
    assert not verify(problem, Plan.of([b]))
    (found,) = verify(problem, Plan.of([a, b]))
    assert found.rule is Rule.COMPUTE
    assert "500 thousandths of compute, the plan adds 600, 100 too many" in found.text


def test_a_share_that_is_not_short_of_memory_is_told_that_the_compute_is_given_away():
    problem = one_node(1, [share("a", 100, 900), share("b", 100, 900)])

    (waits,) = solve(problem, OPTIONS).pending

    assert waits.reason == "gpu-fragmented"
    assert "compute is given to other shares" in waits.text


def test_work_that_gives_way_gives_its_compute_back():
    problem = one_node(1, [share("urgent", 100, 800, priority=9)], [runs("old", 100, 500)])

    result = solve(problem, OPTIONS)

    assert set(result.plan.by_job) == {"urgent"}
    assert [eviction.job for eviction in result.plan.evictions] == ["old"]


@st.composite
def problems(draw):
    """A few shares that say their compute or do not, perhaps a whole GPU, perhaps one that runs."""
    sizes, parts = [100, 300, 500, 700], [0, 0, 100, 400, 600, 1000]
    jobs = []
    for number in range(draw(st.integers(1, 4))):
        name, priority = f"j{number}", draw(st.integers(0, 1))
        if draw(st.integers(0, 5)) == 0:
            role = Role(name="r", shape=Shape(gpus=1))
            jobs.append(Job(name=name, roles=(role,), priority=priority))
            continue
        size, part = draw(st.sampled_from(sizes)), draw(st.sampled_from(parts))
        jobs.append(share(name, size, part, priority, replicas=draw(st.integers(1, 2))))
    running = []
    if draw(st.booleans()):
        size, part = draw(st.sampled_from(sizes)), draw(st.sampled_from(parts))
        running.append(runs("old", size, part, draw(st.integers(0, 1))))
    limit = draw(st.sampled_from([1000, 1300, 2000]))
    return one_node(draw(st.integers(1, 3)), jobs, running, limit)


@settings(max_examples=50)
@given(problems())
def test_compute_and_memory_are_shared_out_as_exhaustive_search_would(problem):
    result = solve(problem, OPTIONS)

    assert Ruler(problem).measure(result.plan) == best_values(problem)
    assert result.status == "optimal"


@settings(max_examples=20)
@given(problems(), st.sampled_from(sorted(greedy.POLICIES)))
def test_greedy_policies_keep_the_limits(problem, policy):
    assert not verify(problem, greedy.place(problem, policy))


@settings(max_examples=6)
@given(problems())
def test_the_aggregated_model_keeps_the_limits_and_its_bounds_hold(problem):
    best = dict(zip(Ruler(problem).steps, best_values(problem), strict=True))

    result = solve(problem, SolveOptions(workers=1, time_limit_s=1, model=ModelChoice.AGGREGATED))

    assert not verify(problem, result.plan)
    if not problem.running:
        (first,) = [t for t in result.objectives if t.step == "started"][:1]
        value = next(v for step, v in best.items() if step.kind == "started")
        assert first.bound >= value
