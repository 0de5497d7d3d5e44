"""One solve of one generated cluster in a process of its own; prints its figures as JSON.

python -m benchmarks.worker --size L --seed 1 --seconds 30
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time

PROCESS_BEGAN = time.monotonic()

CP_SAT = "cp-sat"


def main() -> None:
    """Solve, so that the whole process takes about the seconds asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.worker")
    parser.add_argument("--size", required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--reserve", type=float, default=0.0, help="seconds for check and metrics")
    parser.add_argument("--model", default="auto")
    parser.add_argument("--policy", default=CP_SAT)
    parser.add_argument("--admission-only", action="store_true")
    chosen = parser.parse_args()
    sys.stdout.write(json.dumps(figures(chosen)) + "\n")


def figures(chosen: argparse.Namespace) -> dict[str, object]:
    """What was measured, in plain types."""
    from dataclasses import replace

    from benchmarks.gaps import admission_gap, cost_gaps, worst_values
    from benchmarks.instances import SIZES, half_occupied
    from solver.api import solve
    from solver.options import ModelChoice, SolveOptions
    from solver.progress import Progress

    began = time.monotonic()
    problem = half_occupied(SIZES[chosen.size], chosen.seed)
    if chosen.admission_only:
        problem = replace(problem, objectives=("guarantee", "priority"))
    generated_s = time.monotonic() - began
    first_plan_s: list[float] = []

    def listen(progress: Progress) -> None:
        if progress.tier == "plan" and not first_plan_s:
            first_plan_s.append(progress.elapsed_s)

    left_s = chosen.seconds - (time.monotonic() - PROCESS_BEGAN) - chosen.reserve
    options = SolveOptions(time_limit_s=max(0.1, left_s), model=ModelChoice(chosen.model))
    result = solve(problem, options, chosen.policy, listen)
    terms = result.objectives
    worst = worst_values(problem)
    return {
        "generated_s": generated_s,
        "first_plan_s": first_plan_s[0] if first_plan_s else None,
        "timing": {
            "build_s": result.timing.build_s,
            "solve_s": result.timing.solve_s,
            "verify_s": result.timing.verify_s,
            "total_s": result.timing.total_s,
        },
        "model": result.model,
        "status": result.status.value,
        "admitted_gpus": result.metrics.admitted_gpus,
        "stranded_gpus": result.metrics.stranded_gpus,
        "free_gpus": result.metrics.free_gpus + result.metrics.admitted_gpus,
        "admission_gap": admission_gap(problem, terms, result.metrics.admitted_gpus),
        "cost_gaps": cost_gaps(problem, terms, worst),
        "terms": [[t.name, t.level, t.step, t.value, t.bound] for t in terms],
        "notes": list(result.notes),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "process_s": time.monotonic() - PROCESS_BEGAN,
    }


if __name__ == "__main__":
    main()
