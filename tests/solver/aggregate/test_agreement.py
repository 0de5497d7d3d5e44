"""Counting over classes and patterns says the same as the model that knows every node."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solver.cluster import Node
from solver.cpsat import lexicographic
from solver.cpsat.lexicographic import improve
from solver.options import SolveOptions
from solver.problem import Problem
from solver.solution import Plan
from solver.tiers import Ruler
from solver.verify import verify
from solver.workload import (
    Job,
    LinkRule,
    Role,
    RunningJob,
    RunningReplica,
    Shape,
    SpreadRule,
    TopologyRule,
)
from topology.presets import preset

MACHINES = ("hgx-h100", "hgx-a100-4", "a100-pcie-pairs")
OPTIONS = SolveOptions(time_limit_s=60, workers=8)


@st.composite
def fleets(draw: st.DrawFn) -> Problem:
    """Several nodes of few kinds, part of their GPUs held, and gangs that compete for the rest."""
    machines = draw(st.lists(st.sampled_from(MACHINES), min_size=1, max_size=2, unique=True))
    scarce = draw(st.booleans())
    nodes, running = [], []
    for index in range(draw(st.integers(3, 7))):
        topology = preset(draw(st.sampled_from(machines)))
        name = f"n{index}"
        nodes.append(
            Node(
                name=name,
                topology=topology,
                cpu_milli=draw(st.sampled_from([8000, 16000])) if scarce else 64000,
                location={"rack": f"r{index % 2}"},
            )
        )
        held = draw(st.integers(0, topology.n_gpus))
        if held:
            replica = RunningReplica(node=name, gpus=tuple(range(held)), cpu_milli=1000 * held)
            shape = Shape(gpus=held, cpu_milli=1000 * held)
            running.append(RunningJob(name=f"run-{name}", replicas=(replica,), shapes=(shape,)))
    jobs = [
        draw(jobs_named(f"j{index}", cpu_per_gpu=4000 if scarce else 2000))
        for index in range(draw(st.integers(2, 6)))
    ]
    return Problem(levels=("rack",), nodes=tuple(nodes), running=tuple(running), jobs=tuple(jobs))


@st.composite
def jobs_named(draw: st.DrawFn, name: str, cpu_per_gpu: int) -> Job:
    gpus = draw(st.sampled_from([1, 1, 2, 2, 3, 4]))
    replicas = draw(st.integers(1, 5))
    gang = draw(st.sampled_from([True, True, True, False]))
    shape = Shape(
        gpus=gpus,
        cpu_milli=draw(st.sampled_from([0, 1000, cpu_per_gpu])) * gpus,
        link=draw(st.sampled_from([LinkRule.NONE, LinkRule.NONE, LinkRule.PREFERRED])),
    )
    roles = [
        Role(
            name="worker",
            shape=shape,
            replicas=replicas,
            min_replicas=draw(st.integers(1, replicas)) if draw(st.booleans()) else replicas,
        )
    ]
    if gang and draw(st.integers(0, 4)) == 0:
        roles.append(Role(name="driver", shape=Shape(cpu_milli=1000)))
    if gang and draw(st.integers(0, 4)) == 0:
        roles.append(Role(name="leader", shape=Shape(gpus=1)))
    return Job(
        name=name,
        roles=tuple(roles),
        priority=draw(st.sampled_from([0, 1])),
        gang=gang,
        topology=draw(st.sampled_from([None, None, None, TopologyRule(within="rack")])),
        spread=draw(st.sampled_from([None, None, None, SpreadRule(over="node", max_per=2)])),
    )


@settings(deadline=None, max_examples=30)
@given(fleets())
def test_classes_and_patterns_reach_the_same_values_as_named_nodes(problem):
    ruler = Ruler(problem)

    counted = improve(problem, ruler, Plan(), OPTIONS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lexicographic, "patterns_apply", lambda problem, step: False)
        patch.setattr(lexicographic, "LOOKS_AT_NODES", frozenset(s.kind for s in ruler.steps))
        named = improve(problem, ruler, Plan(), OPTIONS)

    assert verify(problem, counted.plan) == []
    assert ruler.measure(counted.plan) == ruler.measure(named.plan)
    assert counted.bounds == ruler.measure(counted.plan)
    assert named.bounds == ruler.measure(named.plan)
