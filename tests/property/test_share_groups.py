"""Who shares a GPU with whom, against exhaustive search."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from solver import greedy
from solver.api import solve
from solver.cluster import Node
from solver.options import SolveOptions
from solver.problem import Problem
from solver.solution import Placement, Plan
from solver.tiers import Ruler
from solver.verify import Rule, verify
from solver.workload import Job, Role, RunningJob, RunningReplica, Shape
from tests.brute_force import best_values
from tests.scenario import machine

OPTIONS = SolveOptions(workers=1, seed=1, time_limit_s=60, deterministic_limit=30)


def share(name, milli, group="", replicas=1, priority=0):
    shape = Shape(share_milli=milli, share_group=group)
    role = Role(name="r", shape=shape, replicas=replicas, min_replicas=replicas)
    return Job(name=name, roles=(role,), priority=priority)


def runs(name, milli, group="", gpu=0, priority=0):
    held = RunningReplica(node="n", gpus=(gpu,), share_milli=milli, share_group=group)
    shapes = (Shape(share_milli=milli, share_group=group),)
    return RunningJob(name=name, replicas=(held,), shapes=shapes, priority=priority)


def one_node(gpus, jobs, running=()):
    node = Node(name="n", topology=machine(gpus))
    return Problem(nodes=(node,), jobs=tuple(jobs), running=tuple(running))


def test_shares_of_two_groups_on_one_gpu_are_found():
    problem = one_node(1, [share("a", 300, "x"), share("b", 300, "y"), share("c", 300, "x")])
    at = {name: Placement(name, "r", 0, "n", (0,), 300) for name in "abc"}

    assert not verify(problem, Plan.of([at["a"], at["c"]]))
    (found,) = verify(problem, Plan.of([at["a"], at["b"]]))
    assert found.rule is Rule.SHARE_GROUP
    assert "x, y" in found.text


def test_what_runs_already_has_a_group_too():
    problem = one_node(1, [share("a", 300, "x"), share("b", 300)], [runs("old", 100, "y")])

    for name in "ab":
        placed = Plan.of([Placement(name, "r", 0, "n", (0,), 300)])
        assert [v.rule for v in verify(problem, placed)] == [Rule.SHARE_GROUP]


def test_two_tenants_get_a_gpu_each_and_the_third_waits_and_is_told_why():
    problem = one_node(2, [share("a", 300, "x"), share("b", 300, "y"), share("c", 300, "z")])

    result = solve(problem, OPTIONS)

    assert result.status == "optimal"
    assert len(result.plan.by_job) == 2
    (waits,) = result.pending
    assert waits.reason == "gpu-fragmented"
    assert "beside shares of z only" in waits.text
    assert "other groups" in waits.text


def test_a_gpu_whose_share_gives_way_is_open_to_another_group():
    urgent = share("urgent", 300, "x", priority=9)
    problem = one_node(1, [urgent], [runs("old", 100, "y")])

    result = solve(problem, OPTIONS)

    assert set(result.plan.by_job) == {"urgent"}
    assert [eviction.job for eviction in result.plan.evictions] == ["old"]


@st.composite
def problems(draw):
    """A few shares in up to three groups, perhaps a whole GPU, perhaps one that runs."""
    groups = ["", "x", "y"]
    sizes = [100, 300, 500, 700, 900]
    gpus = draw(st.integers(1, 3))
    jobs = []
    for number in range(draw(st.integers(1, 4))):
        name, priority = f"j{number}", draw(st.integers(0, 1))
        if draw(st.integers(0, 4)) == 0:
            role = Role(name="r", shape=Shape(gpus=1))
            jobs.append(Job(name=name, roles=(role,), priority=priority))
            continue
        size, group = draw(st.sampled_from(sizes)), draw(st.sampled_from(groups))
        jobs.append(share(name, size, group, draw(st.integers(1, 2)), priority))
    running = []
    if draw(st.booleans()):
        size, group = draw(st.sampled_from(sizes)), draw(st.sampled_from(groups))
        running.append(runs("old", size, group, priority=draw(st.integers(0, 1))))
    return one_node(gpus, jobs, running)


@settings(max_examples=40)
@given(problems())
def test_shares_are_put_together_as_exhaustive_search_would(problem):
    result = solve(problem, OPTIONS)

    assert Ruler(problem).measure(result.plan) == best_values(problem)
    assert result.status == "optimal"


@settings(max_examples=20)
@given(problems(), st.sampled_from(sorted(greedy.POLICIES)))
def test_greedy_policies_mix_no_groups(problem, policy):
    assert not verify(problem, greedy.place(problem, policy))


@settings(max_examples=10)
@given(problems())
def test_without_groups_at_least_as_much_starts(problem):
    mixed = replace(
        problem,
        jobs=tuple(
            replace(job, roles=tuple(replace(r, shape=_free(r.shape)) for r in job.roles))
            for job in problem.jobs
        ),
        running=tuple(
            replace(
                job,
                replicas=tuple(replace(r, share_group="") for r in job.replicas),
                shapes=tuple(map(_free, job.shapes)),
            )
            for job in problem.running
        ),
    )

    def started(question):
        terms = solve(question, OPTIONS).objectives
        return [t.value for t in terms if t.step in ("kept", "started")]

    assert started(mixed) >= started(problem)


def _free(shape):
    return replace(shape, share_group="")
