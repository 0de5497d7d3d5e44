"""What cases expect of running work that gives way: who goes, at what cost, and what is left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from solver.cluster import GPU_MILLI

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.acceptance.answers import Answer


def check_victims(told: Answer, expected: Mapping[str, Any]) -> list[str]:
    """Pods that go, by name or number, and the sum of what their loss costs."""
    costs = {pod["pod"]: pod.get("evict_cost", 0) for pod in told.case.get("running", [])}
    said: dict[str, Any] = {
        "pods": sorted(told.victims),
        "count": len(told.victims),
        "cost": sum(costs[pod] for pod in told.victims),
    }
    wanted = {**expected, "pods": sorted(expected["pods"])} if "pods" in expected else expected
    return [
        f"victims: {key} is {said[key]}, expected {value}"
        for key, value in wanted.items()
        if said[key] != value
    ]


def check_final_gpus(told: Answer, expected: Mapping[str, int]) -> list[str]:
    """GPUs that each queue has afterwards."""
    used = {queue.name: queue.used["gpu_milli"] for queue in told.result.queues}
    return [
        f"final_gpus: {queue} has {used[queue] / GPU_MILLI:g}, expected {gpus}"
        for queue, gpus in expected.items()
        if used[queue] != gpus * GPU_MILLI
    ]


def pods_left(told: Answer, job: str) -> int:
    """Pods of a running job that still run, wherever."""
    gone = {
        (eviction.job, number)
        for eviction in told.result.plan.evictions
        for number in eviction.replicas
    }
    return sum(1 for _, owner, n in told.running_pods if owner == job and (owner, n) not in gone)
