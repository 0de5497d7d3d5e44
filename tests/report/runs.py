"""Small runs for reports: two nodes, two queues, jobs that have to wait for each other."""

from __future__ import annotations

from dataclasses import replace

from report.simulation_view import SimulationRow
from simulator.outcome import Outcome, Summary
from simulator.run import simulate
from simulator.scenario import MS, Arrival, Scenario
from solver.cluster import Node
from solver.workload import Job, Queue, Role, Shape
from topology.graph import NodeTopology

FOUR = NodeTopology("four", ["A100-40GB"] * 4)


def arrival(name: str, queue: str, gpus: int, at_s: int, for_s: int) -> Arrival:
    return Arrival(
        job=Job(name=name, queue=queue, roles=(Role(name="main", shape=Shape(gpus=gpus)),)),
        arrival_ms=at_s * MS,
        duration_ms=for_s * MS,
    )


SCENARIO = Scenario(
    name="tiny",
    nodes=tuple(Node(name=f"n{i}", topology=FOUR) for i in range(2)),
    queues=(Queue(name="research"), Queue(name="prod")),
    arrivals=(
        arrival("a", "research", 3, 0, 600),
        arrival("b", "research", 3, 0, 900),
        arrival("c", "prod", 4, 60, 300),
        arrival("d", "prod", 1, 120, 300),
        arrival("e", "research", 2, 180, 3600),
    ),
)
CAPACITY_MILLI = 8000

POLICIES = ("fifo-strict+first-fit", "easy+best-fit")


def run(policy: str, seed: int = 1, scenario: Scenario = SCENARIO) -> Outcome:
    """A run that took no time, so that reports of it are the same every time."""
    outcome = simulate(scenario, policy, seed)
    return replace(outcome, summary=replace(outcome.summary, run_s=0.25))


OUTCOMES = tuple(run(policy) for policy in POLICIES)

STRICT, EASY = (outcome.summary for outcome in OUTCOMES)


def row(summary: Summary, trace: str = "tiny", **changes: object) -> SimulationRow:
    return SimulationRow(trace, replace(summary, **changes))
