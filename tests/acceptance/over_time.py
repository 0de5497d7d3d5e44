"""Cases that ask what happens over time: replayed by the policy that their theme is about."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from simulator.run import simulate
from simulator.scenario import MS
from solver.cluster import GPU_MILLI
from specs.compile import compile_spec
from specs.loader import load_spec
from specs.simulation import scenario_of
from tests.acceptance.neutral import spec_text

if TYPE_CHECKING:
    from simulator.outcome import Outcome
    from tests.acceptance.neutral import Case

POLICY = {"backfill": "easy+best-fit", "inference-vs-training": "priority+best-fit"}
"""By theme: what the case assumes of the policy."""

PER_ARRIVAL = {"pods": "replicas", "min": "min", "gpus": "gpus", "cpu": "cpu", "mem": "memory",
               "priority": "priority", "queue": "queue"}  # fmt: skip


@dataclass(frozen=True)
class Replay:
    """A case with what came of it under its policy, and under one without reservations."""

    case: Case
    outcome: Outcome
    greedy: Outcome

    def start_s(self, job: str, outcome: Outcome | None = None) -> Fraction | None:
        start = next(j.start_ms for j in (outcome or self.outcome).jobs if j.job == job)
        return None if start is None else Fraction(start, MS)

    def end_s(self, job: str) -> Fraction | None:
        end = next(j.end_ms for j in self.outcome.jobs if j.job == job)
        return None if end is None else Fraction(end, MS)

    def gpus_at(self, time_s: int, job: str) -> Fraction:
        """What a job holds once all of a moment has happened."""
        held = 0
        for entry in self.outcome.log:
            if entry.job == job and entry.time_ms <= time_s * MS:
                held = entry.gpu_milli
        return Fraction(held, GPU_MILLI)


def replay(case: Case) -> Replay:
    text = spec_text({**case, "pending": []})
    document = {
        **text.document,
        "jobs": [job for entry in case["arrivals"] for job in _jobs(entry)],
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cluster.yaml"
        path.write_text(yaml.safe_dump(document, sort_keys=False))
        loaded = load_spec(str(path))
    scenario = scenario_of(loaded, compile_spec(loaded))
    return Replay(
        case, simulate(scenario, POLICY[case["theme"]]), simulate(scenario, "fifo-skip+best-fit")
    )


def _jobs(entry: dict[str, Any]) -> list[dict[str, Any]]:
    spec = {word: entry[key] for key, word in PER_ARRIVAL.items() if key in entry}
    spec["kind"] = entry.get("role", "training")
    spec["gang"] = bool(entry.get("gang") or "min" in entry or entry.get("pods", 1) == 1)
    if "duration" in entry:
        spec["duration"] = f"{entry['duration']}s"
    if "preemptible" in entry:
        spec["preemption"] = {"allowed": entry["preemptible"]}
    if "every" not in entry:
        return [{"name": entry["job"], "arrival": f"{entry['t']}s", **spec}]
    return [
        {"name": f"{entry['job']}{n}", "arrival": f"{entry['t'] + n * entry['every']}s", **spec}
        for n in range(entry["count"])
    ]


def differences(case: Case) -> list[str]:
    """What a replay does otherwise than the case expects.

    Raises
    ------
    LookupError
        The case expects something whose meaning is not coded.
    """
    told = replay(case)
    found = []
    for key, expected in case["expect"].items():
        if key == "start":
            said = {job: told.start_s(job) for job in expected}
        elif key == "gpus_at":
            said = {t: {j: told.gpus_at(t, j) for j in jobs} for t, jobs in expected.items()}
        elif key == "numbers":
            said = {name: _number(name, told) for name in expected}
        else:
            raise LookupError(f'nobody has said what "expect: {key}" means')
        if said != expected:
            found.append(f"{key}: {said}, expected {expected}")
    return found


def _number(name: str, told: Replay) -> object:
    big = next((e["job"] for e in told.case["arrivals"] if e.get("pods", 1) > 1), "")
    if name == "small_jobs_started_before_big":
        others = [job for job in told.outcome.jobs if job.job != big and job.arrival_ms is not None]
        small = [j for j in others if j.job not in _running_names(told.case)]
        start = told.start_s(big)
        starts = [told.start_s(job.job) for job in small]
        return sum(s is not None and start is not None and s < start for s in starts)
    if name.endswith("_end"):
        return told.end_s(name.removesuffix("_end"))
    if name.endswith("_start_without_reservation"):
        return told.start_s(name.removesuffix("_start_without_reservation"), told.greedy)
    if name.startswith("idle_at_"):
        time_s = int(name.removeprefix("idle_at_"))
        jobs = {job.job for job in told.outcome.jobs}
        return _gpus(told.case) - sum(told.gpus_at(time_s, job) for job in jobs)
    raise LookupError(f"nobody has said what the number {name} means")


def _running_names(case: Case) -> set[str]:
    return {pod.get("job", pod["pod"]) for pod in case.get("running", [])}


def _gpus(case: Case) -> int:
    return sum(n["gpus"] if isinstance(n["gpus"], int) else len(n["gpus"]) for n in case["nodes"])
