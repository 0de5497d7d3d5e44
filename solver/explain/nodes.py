"""Node by node: why it takes no replica of the job, and who holds what it would need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from solver.cluster import GPU_MILLI, Node
from solver.explain.explanation import NodeGroup, NodeReason
from solver.explain.question import Case
from solver.fit import allowed_gpus, feasible_gpus, fit, refusals
from solver.reasons.verdict import wish
from solver.result_text import counted
from solver.room import Lift, lifted
from solver.slices import unused
from solver.state import NodeState, initial_states
from solver.workload import Job, Role, Shape

SHOWN_NODES, SHOWN_HOLDERS = 10, 5
"""Names that are listed of a group of nodes, and of the work that holds the space."""


def node_reasons(case: Case) -> tuple[NodeReason, ...]:
    """One reason for each node, for the role that asks for most GPUs."""
    question = case.question
    role = max(case.part.roles, key=lambda r: (question.gpu_milli(r.shape), r.shape.cpu_milli))
    states = initial_states(question)
    holders: dict[str, list[str]] = {}
    for job in question.running:
        for name in dict.fromkeys(replica.node for replica in job.replicas):
            holders.setdefault(name, []).append(job.name)
    before = case.problem.node_by_name
    for node in question.nodes:
        users = (made.used_by for made in node.instances if made.used_by)
        known = holders.get(node.name, [])
        holders[node.name] = list(dict.fromkeys([*known, *users]))
    return tuple(
        _reason(
            node,
            _refused(before.get(node.name, node), role.shape),  # a GPU that the plan cuts is held
            role,
            states[node.name],
            tuple(holders.get(node.name, ())),
        )
        for node in question.nodes
    )


def _refused(node: Node, shape: Shape) -> tuple[str, ...]:
    """Rules by which the node would not take the shape, were nothing on it in use."""
    found = refusals(node, shape)
    idle = unused(node)
    if not found or not refusals(idle, shape):
        return ()
    mended = replace(idle, unhealthy_gpus=frozenset())
    return found if refusals(mended, shape) else ("unhealthy",)


def _reason(
    node: Node,
    refused: Sequence[str],
    role: Role,
    state: NodeState,
    holders: tuple[str, ...],
) -> NodeReason:
    shape = role.shape
    free, needs = state.free_milli / GPU_MILLI, _gpus(shape)
    room = 0 if refused else fit(node, shape, state)
    reason, said = (refused[0], _why(node, shape, refused[0])) if refused else ("", "")
    if room:
        reason = "has-room"
        said = f"room for {room} {'replica' if room == 1 else 'replicas'}"
    elif not refused:
        reason = _scarce(node, shape, state)
        if shape.slices and reason == "gpu-short":
            said = f"no slots free for {wish(shape)}"
        if reason in ("cpu-short", "mem-short"):
            cpu = reason == "cpu-short"
            left = state.cpu_left if cpu else state.memory_left
            free = (left or 0) / (1000 if cpu else 1024)
            needs = (shape.cpu_milli / 1000) if cpu else (shape.memory_mib / 1024)
    return NodeReason(
        node=node.name, reason=reason, free=free, needs=needs, said=said, holders=holders
    )


def _gpus(shape: Shape) -> float:
    return shape.share_milli / GPU_MILLI if shape.share_milli else float(shape.gpus)


def _why(node: Node, shape: Shape, refusal: str) -> str:
    """What the node has that the shape does not take, or the other way round."""
    match refusal:
        case "taint":
            mine = shape.tolerations
            marks = [t for t in node.taints if t.repels and not any(s.tolerates(t) for s in mine)]
            return "taint " + ", ".join(f"{t.key}={t.value}:{t.effect}" for t in marks)
        case "label":
            wrong = [(k, v) for k, v in shape.node_selector if node.all_labels.get(k) != v]
            return "no label " + ", ".join(f"{key}={value}" for key, value in wrong)
        case "model-mismatch":
            return "model " + ", ".join(
                sorted({model or "unknown" for model in node.topology.gpu_models})
            )
        case "no-nvlink-set":
            return f"no {shape.gpus} GPUs joined by NVLink"
        case "unhealthy":
            return f"{len(node.unhealthy_gpus)} of {counted(node.n_gpus, 'GPU')} failed"
        case "impossible":
            return "too small even when empty"
        case _:
            return refusal.replace("-", " ")


def _scarce(node: Node, shape: Shape, state: NodeState) -> str:
    """The one amount or rule without which the node would take a replica."""
    for rule in (Lift.CPU, Lift.MEMORY, Lift.LINK, Lift.MODEL):
        bare = lifted(Job(name="", roles=(Role(name="", shape=shape),)), [rule]).roles[0].shape
        if bare != shape and fit(node, bare, state):
            return rule.value
    left = sum(state.gpu_left[gpu] for gpu in allowed_gpus(node, shape))
    wanted = shape.share_milli or shape.gpus * GPU_MILLI
    if not shape.slices and left >= wanted and not feasible_gpus(node, shape, state):
        return "gpu-fragmented"
    return "gpu-short"


def grouped(case: Case, reasons: Iterable[NodeReason]) -> tuple[NodeGroup, ...]:
    """The nodes by reason, largest group first."""
    groups: dict[tuple[str, str], list[NodeReason]] = {}
    for each in reasons:
        groups.setdefault((each.reason, each.said), []).append(each)
    ranked = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    return tuple(_group(case, reason, said, members) for (reason, said), members in ranked)


def _group(case: Case, reason: str, said: str, members: list[NodeReason]) -> NodeGroup:
    low, high = min(m.free for m in members), max(m.free for m in members)
    span = f"{low:g}" if low == high else f"{low:g}-{high:g}"
    gpus = "GPU" if low == high == 1 else "GPUs"
    unit = {"cpu-short": "CPU", "mem-short": "GiB"}.get(reason, gpus)
    text = said or f"{span} {unit} free, {members[0].needs:g} wanted"
    if reason in ("no-nvlink-set", "model-mismatch", "gpu-fragmented") and not said:
        words = {
            "no-nvlink-set": "none of them joined by NVLink",
            "model-mismatch": "of another model",
            "gpu-fragmented": "in parts of GPUs",
        }
        text = f"{span} {gpus} free, {words[reason]}"
    facts: dict[str, object] = {
        "needs": _number(members[0].needs),
        "free_min": _number(low),
        "free_max": _number(high),
    }
    # Who is on a node that would not take the job even when empty is not what keeps it waiting.
    scarce = not said and reason in ("gpu-fragmented", "no-nvlink-set", "model-mismatch")
    if scarce or reason.endswith("-short"):
        facts |= _held(case, members)
    names = tuple(m.node for m in members[:SHOWN_NODES])
    return NodeGroup(reason=reason, count=len(members), names=names, text=text, facts=facts)


def _held(case: Case, members: list[NodeReason]) -> dict[str, object]:
    """Who holds the space, those on most of the nodes first, and when the first of them ends."""
    held = Counter(name for member in members for name in member.holders)
    if not held:
        return {}
    ranked = sorted(held, key=lambda name: (-held[name], name))
    facts: dict[str, object] = {"held_by": ranked[:SHOWN_HOLDERS], "holders": len(ranked)}
    ends = [
        j.ends_in_s for j in case.question.running if j.name in held and j.ends_in_s is not None
    ]
    if ends:
        facts["first_ends_in_s"] = min(ends)
    return facts


def _number(value: float) -> int | float:
    return int(value) if value == int(value) else round(value, 3)
