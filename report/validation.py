"""What ``validate`` says: a line for people, an object for programs."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from report.text import plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from solver.problem import Problem
    from specs.errors import SpecFault

VALIDATE_SCHEMA = "unstrand/validate/v1"


def counts(problem: Problem) -> dict[str, int]:
    """How much of everything a spec has."""
    return {
        "nodes": len(problem.nodes),
        "gpus": sum(node.n_gpus for node in problem.nodes),
        "queues": len(problem.queues),
        "running": len(problem.running),
        "jobs": len(problem.jobs),
    }


def valid_report(problem: Problem, notes: Sequence[str]) -> dict[str, Any]:
    """The answer for a sound spec (schema ``unstrand/validate/v1``)."""
    return {
        "schema": VALIDATE_SCHEMA,
        "valid": True,
        "faults": [],
        "counts": counts(problem),
        "notes": list(notes),
    }


def fault_report(faults: Sequence[SpecFault]) -> dict[str, Any]:
    """The answer for a spec with faults (schema ``unstrand/validate/v1``)."""
    return {
        "schema": VALIDATE_SCHEMA,
        "valid": False,
        "faults": [asdict(fault) for fault in faults],
    }


def summary(problem: Problem) -> str:
    """One line about a sound spec."""
    words = {
        "nodes": "node",
        "gpus": "GPU",
        "queues": "queue",
        "running": "running job",
        "jobs": "pending job",
    }
    amounts = [plural(count, words[key]) for key, count in counts(problem).items()]
    return f"ok: {', '.join(amounts)}"
