"""Rules about where: the one that alone stands in the way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from solver import metrics
from solver.cluster import GPU_MILLI
from solver.fit import hosts, idle_allowed, refusals
from solver.islands import parts_now
from solver.reasons.desk import Desk
from solver.reasons.verdict import Verdict, amount_text, main_shape, number, wish
from solver.result import FactValue
from solver.result_text import counted
from solver.room import Lift, lifted
from solver.state import States
from solver.workload import Job, Shape
from topology.links import Link

NAMED = 3
"""As many kinds of nodes are told apart."""

_SAID = {
    "impossible": "too small",
    "not-ready": "not ready",
    "model-mismatch": "of other models",
    "no-nvlink-set": "not joined so by NVLink",
    "taint": "tainted",
    "label": "labelled otherwise",
}
"""What a node is that refuses by a rule."""

WHERE = (
    Lift.TAINT,
    Lift.LABEL,
    Lift.LINK,
    Lift.TOPOLOGY,
    Lift.SPREAD,
    Lift.SHARE_GROUP,
    Lift.MODEL,
)


def where(desk: Desk, job: Job, found: Callable[[], States]) -> Verdict | None:
    """The first rule without which the job has room in the states that are found."""
    asked = [rule for rule in WHERE if _asks(job, rule)]
    if Lift.TAINT in asked and not desk.tainted:
        asked.remove(Lift.TAINT)
    problem = desk.problem
    shares_differ = problem.has_share_groups or problem.has_share_compute
    if Lift.SHARE_GROUP in asked and not shares_differ:
        asked.remove(Lift.SHARE_GROUP)
    if not asked:
        return None
    states = found()
    for rule in asked:
        if desk.room(states, lifted(job, [rule])).fits:
            if desk.room(states, job).fits:
                return None
            return _tell_where(desk, job, rule, states)
    return None


def never(desk: Desk, job: Job) -> Verdict | None:
    """The first rule that alone would stand in the way even if nothing ran.

    Of jobs with one role: how roles share an empty cluster is only guessed here.
    """
    if len(job.roles) > 1:
        return None
    told = where(desk, job, lambda: desk.empty)
    if told is None:
        return None
    facts = {name: value for name, value in told.facts.items() if name != "free"}
    return Verdict(told.reason, f"even if nothing ran: {told.text}", facts)


def nowhere(desk: Desk, job: Job) -> Verdict | None:
    """No node would take a replica even when empty: the rules that stand in the way."""
    for role in job.roles:
        if any(hosts(node, role.shape) for node in desk.problem.nodes):
            continue
        found = [refusals(node, role.shape) for node in desk.problem.nodes]
        closest = min(found, key=len, default=())
        reason = next((r for r in closest if r in {lift.value for lift in WHERE}), None)
        if reason is None:
            continue
        kinds = Counter(" and ".join(_SAID.get(r, r) for r in rules) for rules in found)
        told = [f"{counted(many, 'node')} {rules}" for rules, many in kinds.most_common(NAMED)]
        told += ["…"] if len(kinds) > NAMED else []
        return Verdict(reason, f"no node would take it, even empty ({', '.join(told)})", {})
    return None


def _tell_where(desk: Desk, job: Job, rule: Lift, states: States) -> Verdict:
    shape = main_shape(desk.problem, job)
    free = number(desk.free(main_shape(desk.problem, lifted(job, [rule])), states))
    facts: dict[str, FactValue] = {"free": free}
    match rule:
        case Lift.TAINT:
            taints = sorted(
                {
                    f"{t.key}={t.value}:{t.effect}"
                    for node in desk.problem.nodes
                    if "taint" in refusals(node, shape)
                    for t in node.taints
                    if t.repels and not any(s.tolerates(t) for s in shape.tolerations)
                }
            )
            text = f"does not tolerate {', '.join(taints)}; {counted(free, 'GPU')} would be free"
        case Lift.LABEL:
            wanted = ", ".join(f"{k}={v}" for k, v in shape.node_selector)
            gpus = counted(free, "GPU")
            text = f"asks for nodes with {wanted}; {gpus} would be free without that"
        case Lift.LINK:
            best = _best_link(desk, shape, states)
            facts["best_link_among_free"] = best
            text = (
                f"wants {shape.gpus} GPUs joined by NVLink; "
                f"{free} are free, but no {shape.gpus} on one node are joined"
            )
        case Lift.TOPOLOGY:
            return _tell_topology(desk, job, facts, states)
        case Lift.SPREAD:
            spread = job.spread
            assert spread is not None
            text = f"may have {spread.max_per} replica(s) per {spread.over}; too few have room"
            return Verdict("gpu-fragmented", text, facts)
        case Lift.SHARE_GROUP:
            if not desk.problem.has_share_groups:
                text = (
                    f"wants {wish(shape)}; on GPUs with as much memory free"
                    " the compute is given to other shares"
                )
                return Verdict("gpu-fragmented", text, facts)
            own = f"shares of {shape.share_group}" if shape.share_group else "such without one"
            text = (
                f"wants {wish(shape)} beside {own} only; GPUs with as much room "
                f"have shares of other groups on them"
            )
            if desk.problem.has_share_compute:
                text += ", or have given their compute away"
            return Verdict("gpu-fragmented", text, facts)
        case _:
            mine, others = desk.free_by_model(shape, states)
            facts |= {"free_of_model": number(mine), "free_of_other_models": number(others)}
            models = " or ".join(shape.gpu_models)
            text = f"wants {models}: {number(mine)} free; {number(others)} of other models are free"
    return Verdict(rule.value, text, facts)


def _tell_topology(desk: Desk, job: Job, facts: dict[str, FactValue], states: States) -> Verdict:
    assert job.topology is not None
    level = job.topology.within
    if level == "island":
        return _tell_island(desk, job, facts, states)
    wanted = amount_text("gpu_milli", desk.need(job, "gpu_milli"))
    groups = desk.problem.groups[level].values()
    shape = main_shape(desk.problem, job)
    fewest = metrics.FewestGroups(desk.problem)
    needed = max(fewest(r.shape, "node", r.min_replicas) for r in job.roles)
    largest = max((sum(hosts(n, shape) for n in nodes) for nodes in groups), default=0)
    best = max(
        (sum(states[n.name].free_milli for n in nodes if hosts(n, shape)) for nodes in groups),
        default=0,
    )
    facts |= {"needs_nodes": needed, "largest_domain_nodes": largest}
    facts["best_group_free"] = number(best / GPU_MILLI)
    nodes = counted(needed, "node")
    text = f"wants {wanted} ({nodes}) within one {level}"
    if largest < needed:
        text += f"; the largest has {largest}"
    else:
        text += f"; the best one has {number(best / GPU_MILLI)} free"
    return Verdict(Lift.TOPOLOGY.value, text, facts)


def _tell_island(desk: Desk, job: Job, facts: dict[str, FactValue], states: States) -> Verdict:
    wanted = amount_text("gpu_milli", desk.need(job, "gpu_milli"))
    shape = main_shape(desk.problem, job)
    free = {
        (node.name, part): sum(states[node.name].gpu_left[gpu] for gpu in part)
        for node in desk.problem.nodes
        if set(refusals(node, shape)) <= {"no-nvlink-set"}
        for part in parts_now(node, states[node.name])
    }
    best = max(free.values(), default=0) / GPU_MILLI
    facts["best_group_free"] = number(best)
    text = f"wants {wanted} within one NVLink island; the best one has {number(best)} free"
    return Verdict(Lift.TOPOLOGY.value, text, facts)


def _best_link(desk: Desk, shape: Shape, states: States) -> str:
    links: list[Link] = []
    for node in desk.problem.nodes:
        if set(refusals(node, shape)) <= {"no-nvlink-set"}:
            idle = idle_allowed(node, shape, states[node.name])
            pairs = ((a, b) for a in idle for b in idle if a < b)
            links += [node.topology.link(a, b) for a, b in pairs]
    return str(min(links, key=lambda link: link.rank)) if links else "none"


def _asks(job: Job, rule: Lift) -> bool:
    """Whether the job has that rule at all; every job can be kept out by a taint."""
    shapes = [role.shape for role in job.roles]
    match rule:
        case Lift.LABEL:
            return any(shape.node_selector for shape in shapes)
        case Lift.LINK:
            return any(shape.link == "required" for shape in shapes)
        case Lift.TOPOLOGY:
            return job.topology is not None and job.topology.required
        case Lift.SPREAD:
            return job.spread is not None
        case Lift.SHARE_GROUP:
            return any(shape.is_share for shape in shapes)
        case Lift.MODEL:
            return any(shape.gpu_models for shape in shapes)
        case _:
            return True
