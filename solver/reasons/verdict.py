"""A reason in the making, and the words that all of them use."""

from __future__ import annotations

from dataclasses import dataclass

from solver import metrics
from solver.cluster import GPU_MILLI
from solver.problem import Problem
from solver.result import FactValue
from solver.workload import Job, ResourceName, Shape


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a job waits: the code of the rule, a sentence, and the numbers behind it."""

    reason: str
    text: str
    facts: dict[str, FactValue]


def main_shape(problem: Problem, job: Job) -> Shape:
    """The shape of the role that asks for most GPUs."""
    return max(job.roles, key=lambda role: problem.gpu_milli(role.shape)).shape


def wish(shape: Shape) -> str:
    """What a replica asks for, in a sentence."""
    label = metrics.shape_label(shape)
    return label.replace(" GPU", " GPUs", 1) if shape.gpus > 1 else label


def amount_text(resource: ResourceName, amount: int) -> str:
    """An amount in the unit that users write it in."""
    if resource == "gpu_milli":
        return f"{amount / GPU_MILLI:g} {'GPU' if amount == GPU_MILLI else 'GPUs'}"
    return f"{amount / 1000:g} CPU" if resource == "cpu_milli" else f"{amount / 1024:g} GiB"


def number(value: float) -> int | float:
    """Whole numbers as integers, so that they are printed and compared as such."""
    return int(value) if value == int(value) else round(value, 3)
