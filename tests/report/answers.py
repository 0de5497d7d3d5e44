"""Answers written by hand, so that reports are tested without any solver."""

from __future__ import annotations

from dataclasses import replace

from solver.cluster import Node
from solver.problem import Problem
from solver.result import (
    Metrics,
    ObjectiveTerm,
    Pending,
    QueueReport,
    SolveResult,
    SolveStatus,
    Timing,
)
from solver.solution import Placement, Plan
from solver.workload import Job, LinkRule, Queue, Role, Shape
from topology.graph import NodeTopology

EIGHT = NodeTopology("eight", ["H100-80GB"] * 8)

PROBLEM = Problem(
    name="demo",
    nodes=tuple(Node(name=f"h100-{i}", topology=EIGHT) for i in range(4)),
    queues=(
        Queue(name="research", quota={"gpu_milli": 16_000}),
        Queue(name="prod", quota={"gpu_milli": 8_000}),
    ),
    jobs=(
        Job(
            name="llm-70b",
            queue="research",
            priority=10,
            roles=(Role(name="main", shape=Shape(gpus=8), replicas=2, min_replicas=2),),
        ),
        Job(
            name="serve[blue]",
            queue="prod",
            priority=50,
            gang=False,
            roles=(Role(name="main", shape=Shape(share_milli=500), replicas=2),),
        ),
        Job(
            name="wide",
            queue="research",
            priority=10,
            roles=(
                Role(name="head", shape=Shape(cpu_milli=4000)),
                Role(name="worker", shape=Shape(gpus=8, link=LinkRule.REQUIRED), replicas=3),
            ),
        ),
    ),
)

OPTIMAL = SolveResult(
    status=SolveStatus.OPTIMAL,
    policy="cp-sat",
    model="direct",
    plan=Plan.of(
        [
            Placement("llm-70b", "main", 0, "h100-0", tuple(range(8))),
            Placement("llm-70b", "main", 1, "h100-1", tuple(range(8))),
            Placement("serve[blue]", "main", 0, "h100-3", (0,), 500),
            Placement("serve[blue]", "main", 1, "h100-3", (0,), 500),
        ]
    ),
    objectives=(
        ObjectiveTerm(
            name="guarantee",
            level=None,
            step="gpu_milli",
            sense="max",
            unit="milli-GPU",
            value=17_000,
            bound=17_000,
        ),
        ObjectiveTerm(
            name="priority",
            level=50,
            step="kept",
            sense="max",
            unit="milli-GPU",
            value=0,
            bound=0,
        ),
        ObjectiveTerm(
            name="stranded",
            level=None,
            step="gpus",
            sense="min",
            unit="GPUs",
            value=1.75,
            bound=1.75,
        ),
    ),
    pending=(
        Pending(
            job="wide",
            reason="gpu-fragmented",
            text="3 replicas of 8 GPUs: 15 GPUs are free, but only 1 node has 8 free together",
            facts={"needs": 24, "free": 15, "best_node_free": 8},
        ),
    ),
    queues=(
        QueueReport(
            name="research",
            quota={"gpu_milli": 16_000},
            demand={"gpu_milli": 40_000},
            used={"gpu_milli": 16_000},
            entitled={"gpu_milli": 31_000},
            dominant_share=0.5,
        ),
        QueueReport(
            name="prod",
            quota={"gpu_milli": 8_000},
            demand={"gpu_milli": 1_000},
            used={"gpu_milli": 1_000},
            entitled={"gpu_milli": 1_000},
            dominant_share=0.03125,
            borrowed_from={"research": 0},
        ),
    ),
    metrics=Metrics(
        admitted_jobs=2,
        admitted_gpus=17.0,
        pending_jobs=1,
        pending_gpus=24.0,
        free_gpus=15.0,
        stranded_gpus=1.75,
        stranded_by_shape={"8 GPU": 7.0, "0.5 GPU": 0.0},
        stranded_by_cause={"shape": 1.75, "links": 0.0, "cpu": 0.0, "memory": 0.0},
        fragmentation_gpus=2.25,
        utilization_ratio=17 / 32,
        worst_dominant_share=0.5,
        topology_cost=0.0,
        topology_cost_by_step={"links": 0.0},
    ),
    timing=Timing(build_s=0.01, solve_s=0.25, verify_s=0.001, total_s=0.3),
    notes=("indices of the GPUs held by train-a on h100-2 are assumed",),
)

FIRST_FIT = replace(
    OPTIMAL,
    status=SolveStatus.FEASIBLE,
    policy="first-fit",
    model="greedy",
    objectives=(
        replace(OPTIMAL.objectives[0], value=9_000),
        OPTIMAL.objectives[1],
        replace(OPTIMAL.objectives[2], value=6.5),
    ),
    metrics=replace(OPTIMAL.metrics, admitted_jobs=1, admitted_gpus=9.0, stranded_gpus=6.5),
    timing=Timing(solve_s=0.002, total_s=0.004),
)
