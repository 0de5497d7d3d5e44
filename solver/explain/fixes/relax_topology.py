"""Let the gang spread over a wider group: a block instead of a rack, or wherever there is room."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from solver.explain.fixes.change import Change, with_job
from solver.explain.question import Case
from solver.problem import Problem
from solver.solution import Plan
from solver.workload import TopologyRule


def relax_topology(case: Case) -> Iterator[Change]:
    """The next wider levels, innermost first, and at last the level as a wish."""
    rule = case.job.topology
    if rule is None or not rule.required:
        return
    outward = ["island", "node", "domain", *reversed(case.problem.levels)]
    name, within = case.job.name, rule.within
    wider = [TopologyRule(within=w) for w in outward[outward.index(within) + 1 :]]
    for other in (*wider, TopologyRule(within=within, required=False)):
        text = f"one {other.within} instead of one {within}"
        if not other.required:
            text = f"prefer one {within} instead of requiring it"

        def told(problem: Problem, plan: Plan) -> Mapping[str, Any]:
            nodes = (problem.node_by_name[p.node] for p in plan.by_job[name])
            level = "node" if within == "island" else within
            used = Counter(node.group(level, problem.levels) for node in nodes)
            return {"groups_used": len(used), "split": sorted(used.values(), reverse=True)}

        yield Change(
            kind="relax-topology",
            text=text,
            params={"from": within, "to": other.within if other.required else "preferred"},
            apply=with_job(name, lambda job, other=other: replace(job, topology=other)),  # type: ignore[misc]
            told=told,
        )
