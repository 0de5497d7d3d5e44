"""Small scenarios for properties: the problems of `tests.strategies`, spread over time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from simulator.scenario import DAY_MS, Arrival, DailyLoad, Scenario
from solver.cluster import Node
from solver.problem import Problem
from solver.workload import Job, Role, Shape
from tests.scenario import machine
from tests.strategies import rarely, small_problems

CPUS = [None, None, 4000, 6000]


@st.composite
def scenarios(draw: Any, *, endless: bool = False) -> Scenario:
    """Jobs of a small problem that come and go; amounts and times meet exactly often enough.

    Parameters
    ----------
    endless
        Whether some jobs do not end by themselves.
    """
    problem: Problem = draw(small_problems())
    arrivals = []
    for job in problem.jobs:
        copies = draw(st.integers(1, 3)) if job.start_group is None else 1
        for copy in range(copies):
            service = endless and job.start_group is None and rarely(draw, 5)
            one = replace(
                job,
                name=f"{job.name}-{copy}",
                gang=True,
                kind="inference" if service else "training",
            )
            ends = not (endless and rarely(draw, 5))
            arrivals.append(
                Arrival(
                    job=one,
                    arrival_ms=draw(st.sampled_from([0, 0, 5, 10, 10, 15, 30, 50])),
                    duration_ms=draw(st.sampled_from([1, 5, 10, 10, 20, 45])) if ends else None,
                    preemptible=not rarely(draw, 3),
                    checkpoint_ms=draw(st.sampled_from([None, 3, 10])),
                    restart_ms=draw(st.sampled_from([0, 2])),
                    load=DailyLoad(step_ms=DAY_MS // 4) if service else None,
                )
            )
    return Scenario(
        name="drawn",
        levels=problem.levels,
        nodes=problem.nodes,
        queues=problem.queues,
        arrivals=tuple(sorted(arrivals, key=lambda arrival: arrival.arrival_ms)),
    )


@st.composite
def crowded(draw: Any) -> Scenario:
    """More work than room: a few nodes, wide gangs among small jobs, CPU that binds at times."""
    machines = draw(st.lists(st.sampled_from([2, 4, 4]), min_size=1, max_size=3))
    nodes = tuple(
        Node(name=f"n{n}", topology=machine(gpus, "NV12"), cpu_milli=draw(st.sampled_from(CPUS)))
        for n, gpus in enumerate(machines)
    )
    arrivals = []
    for number in range(draw(st.integers(4, 10))):
        shape = Shape(
            gpus=draw(st.sampled_from([1, 1, 2, 4])),
            cpu_milli=draw(st.sampled_from([0, 1000, 3000])),
        )
        count = draw(st.sampled_from([1, 1, 1, 2, 3]))
        role = Role(name="worker", shape=shape, replicas=count, min_replicas=count)
        arrivals.append(
            Arrival(
                job=Job(name=f"j{number}", roles=(role,)),
                arrival_ms=draw(st.integers(0, 12)),
                duration_ms=draw(st.integers(1, 12)),
            )
        )
    arrivals.sort(key=lambda arrival: arrival.arrival_ms)
    return Scenario(name="crowded", nodes=nodes, arrivals=tuple(arrivals))
