"""What the planner answers to a case, in the case's own words: pods, jobs, nodes, GPUs."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from solver.aftermath import standing
from solver.api import solve
from solver.cluster import GPU_MILLI, Node
from solver.verify import explain_violations, verify
from specs.compile import compile_spec
from specs.loader import load_spec
from tests.acceptance.neutral import Case, Member, spec_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from solver.problem import Problem
    from solver.result import Pending, SolveResult
    from solver.solution import Placement
    from solver.workload import RunningJob

Load = Counter[tuple[str, int]]
"""Thousandths held of each GPU, by node and index."""


@dataclass(frozen=True)
class Answer:
    """A solved case; `members` says where the case's jobs are in the spec."""

    case: Case
    problem: Problem
    result: SolveResult
    members: Mapping[str, Member]

    def placements(self, job: str) -> tuple[Placement, ...]:
        """Pods of a job that start."""
        member = self.members[job]
        places = self.result.plan.by_job.get(member.job, ())
        return tuple(p for p in places if member.role in (None, p.role))

    def pending(self, job: str) -> Pending | None:
        """Why the job waits, if it is said to."""
        name = self.members[job].job
        return next((entry for entry in self.result.pending if entry.job == name), None)

    @property
    def pods_placed(self) -> int:
        """All pods that start."""
        return len(self.result.plan.placements)

    @property
    def pods_wanted(self) -> int:
        """All pods that wait or start."""
        return sum(member.pods for member in self.members.values())

    @cached_property
    def running_pods(self) -> tuple[tuple[str, str, int], ...]:
        """Pods of the case that run: their name, their job and their number in it."""
        number: Counter[str] = Counter()
        found = []
        for pod in self.case.get("running", []):
            job = pod.get("job", pod["pod"])
            found.append((pod["pod"], job, number[job]))
            number[job] += 1
        return tuple(found)

    @cached_property
    def victims(self) -> tuple[str, ...]:
        """Running pods that do not stay where they are."""
        displaced = self.result.plan.displaced
        return tuple(pod for pod, job, n in self.running_pods if n in displaced.get(job, ()))

    def goes_on(self, pod: str) -> str | None:
        """The node on which a running pod goes on that has to leave its own."""
        (where,) = ((job, number) for name, job, number in self.running_pods if name == pod)
        moves = self.result.plan.moves
        return next((m.node for m in moves if (m.job, m.replica) == where), None)

    @cached_property
    def held_before(self) -> Load:
        """What running work holds."""
        return _load(self.problem.running)

    @cached_property
    def held_after(self) -> Load:
        """What is left of the running work, and the plan, hold."""
        load = _load(standing(self.problem, self.result.plan))
        for at in self.result.plan.placements:
            for gpu in at.gpus:
                load[at.node, gpu] += at.share_milli
        return load

    def free_gpus(self, load: Load, node: Node) -> Fraction:
        """GPUs of a node that can still be given away."""
        left = sum(max(0, GPU_MILLI - load[node.name, gpu]) for gpu in node.usable_gpus)
        return Fraction(left, GPU_MILLI)

    def ask_again(self, change: Callable[[Case], Case]) -> Answer:
        """What the planner would answer if one thing were otherwise."""
        return answer(change(self.case))


def _load(running: Iterable[RunningJob]) -> Load:
    load: Load = Counter()
    for job in running:
        for replica in job.replicas:
            for gpu in replica.gpus:
                load[replica.node, gpu] += replica.share_milli
    return load


def answer(case: Case) -> Answer:
    """Put a case to the planner, by way of a spec file; its plan is checked."""
    text = spec_text(case)
    with tempfile.TemporaryDirectory() as folder:
        compiled = compile_spec(load_spec(text.write(Path(folder))))
    options = replace(compiled.options, workers=1)
    result = solve(compiled.problem, options, "cp-sat")
    broken = verify(compiled.problem, result.plan)
    assert not broken, explain_violations(broken)
    return Answer(case, compiled.problem, result, text.members)
