"""Shares with groups and limits, and MIG instances, over time: `verify` sees every decision."""

from __future__ import annotations

import pytest

from simulator.audit import Audit
from simulator.lives import State
from simulator.policies import ORDERS, SimulationOptions
from simulator.run import simulate
from simulator.schedulers.rolling import Rolling
from solver.options import SolveOptions
from specs.compile import compile_spec
from specs.loader import parse_spec
from specs.simulation import scenario_of

SPEC = """
cluster:
  nodes:
    - {name: a, gpu_model: H100-80GB, gpus: 2, mig: [{gpu: 0}], oversubscribe: 2}
    - {name: b, gpu_model: H100-80GB, gpus: 2}
queues: [{name: x}, {name: y}]
sharing: {among: queue}
jobs:
  - {name: limited, queue: x, gpus: 0.5, gpu_memory: 10Gi, arrival: 0s, duration: 10s}
  - {name: other-queue, queue: y, gpus: 0.5, arrival: 1s, duration: 10s}
  - {name: pair, queue: x, gpus: 1, gpu_memory: 20Gi, replicas: 2, arrival: 2s, duration: 10s}
  - {name: halves, queue: x, mig: {3g.40gb: 1}, replicas: 2, across_instances: true, arrival: 2s,
     duration: 10s}
  - {name: two-small, queue: y, mig: {1g.10gb: 2}, arrival: 3s, duration: 10s}
  - {name: whole, queue: y, gpus: 2, arrival: 4s, duration: 10s}
  - {name: all-of-one, queue: y, mig: {7g.80gb: 1}, arrival: 5s, duration: 10s}
  - {name: small, queue: x, mig: {1g.10gb: 1}, replicas: 6, across_instances: true, arrival: 6s,
     duration: 4s}
  - {name: late, queue: y, gpus: 0.3, gpu_memory: 60Gi, arrival: 7s, duration: 3s}
"""


PAIRS = [
    (order, placement)
    for order in sorted(ORDERS)
    for placement in ("best-fit", "fgd", "cp-sat")
    if (order, placement) != ("per-pod", "cp-sat")  # The solver places jobs, not pods.
]


@pytest.mark.parametrize(("order", "placement"), PAIRS)
def test_shares_and_instances_come_and_go_and_nothing_is_given_twice(order, placement):
    loaded = parse_spec(SPEC, "spec.yaml", None)
    scenario = scenario_of(loaded, compile_spec(loaded))
    quick = Rolling(options=SolveOptions(time_limit_s=10, deterministic_limit=0.5, workers=1))
    options = SimulationOptions(rolling=quick)

    audit = Audit(gangs=order != "per-pod")
    outcome = simulate(scenario, f"{order}+{placement}", options=options, observers=[audit])

    assert audit.decisions
    assert all(job.state is State.FINISHED for job in outcome.jobs)


def test_shares_by_memory_count_on_a_limit_as_on_the_smallest_card_wherever_they_are():
    """On its H100 `first` holds half a GPU; a limit counts it as one, and so there is none left."""
    text = """
cluster: {nodes: [{name: large, gpu_model: H100-80GB, gpus: 1},
                  {name: small, gpu_model: A100-40GB, gpus: 3}]}
queues: [{name: red, limit: {gpus: 1.8}}]
jobs:
  - {name: first, queue: red, gpu_memory: 20Gi, replicas: 2, gpu_models: [H100-80GB],
     duration: 10s}
  - {name: second, queue: red, gpu_memory: 20Gi, replicas: 2, duration: 10s}
"""
    loaded = parse_spec(text, "spec.yaml", None)

    outcome = simulate(
        scenario_of(loaded, compile_spec(loaded)), "defrag+best-fit", observers=[Audit()]
    )

    first, second = outcome.jobs
    assert second.start_ms == first.end_ms


def test_replicas_that_become_jobs_bear_names_of_their_own():
    text = """
cluster: {nodes: [{name: n, gpus: 8}]}
running: [{job: a//1, replicas: [{node: n, gpus: [0]}]}]
jobs:
  - {name: a, gpus: 1, replicas: 2, gang: false, duration: 1s}
  - {name: a/0, gpus: 1, duration: 1s}
"""
    loaded = parse_spec(text, "spec.yaml", None)
    scenario = scenario_of(loaded, compile_spec(loaded))

    assert [arrival.job.name for arrival in scenario.arrivals] == ["a///0", "a///1", "a/0"]
    assert scenario.problem.jobs
