"""The rules of a core in words, with their numbers."""

from __future__ import annotations

from solver.cluster import GPU_MILLI
from solver.explain.explanation import CoreRule
from solver.explain.question import Case
from solver.fair_share import held_by_queue
from solver.fit import refusals
from solver.metrics import shape_label
from solver.queues import subtree
from solver.result_text import amount_text, counted
from solver.state import empty_state, initial_states
from solver.workload import RESOURCES, Shape


def told(case: Case, rules: tuple[str, ...]) -> tuple[CoreRule, ...]:
    """What the job wants, what stands against it, and, unless work holds it, what nodes have."""
    said = [CoreRule(rule="job", detail=_wants(case))]
    said += [CoreRule(rule=rule, detail=_detail(case, rule)) for rule in rules]
    if "held" not in rules and set(rules) <= {"cpu", "memory", "topology", "spread", "link"}:
        said.append(CoreRule(rule="capacity", detail=_capacity(case, rules)))
    return tuple(said)


def _wants(case: Case) -> str:
    job = case.part
    if not job.gang:
        return f"one more replica of {shape_label(job.roles[0].shape)}"
    parts = [f"{role.min_replicas} x {shape_label(role.shape)}" for role in job.roles]
    return f"{' and '.join(parts)}{' together' if job.min_replicas > 1 else ' on one node'}"


def _capacity(case: Case, rules: tuple[str, ...]) -> str:
    """GPUs of the empty cluster, and most CPU and memory of a node, where these are rules."""
    nodes = case.problem.nodes
    empty = [empty_state(node) for node in nodes]
    gpus = [state.free_milli // GPU_MILLI for state in empty]
    where = f"{counted(len(nodes), 'node')}, at most {max(gpus, default=0)} on one"
    said = f"{counted(sum(gpus), 'GPU')} on {where}"
    if any(role.shape.wants_gpu for role in case.part.roles):
        empty = [state for state in empty if state.free_milli]
    cpus = [state.cpu_left for state in empty if state.cpu_left is not None]
    memories = [state.memory_left for state in empty if state.memory_left is not None]
    # A node without a limit has no most.
    if "cpu" in rules and cpus and len(cpus) == len(empty):
        said += f"; at most {amount_text('cpu_milli', max(cpus))} on one"
    if "memory" in rules and memories and len(memories) == len(empty):
        said += f"; at most {amount_text('memory_mib', max(memories))} on one"
    return said


def _detail(case: Case, rule: str) -> str:
    question, job = case.question, case.part
    shapes = [role.shape for role in job.roles]
    match rule:
        case "held":
            return _held(case)
        case "not-ready" | "cordoned":
            which = [
                n for n in question.nodes if (n.cordoned if rule == "cordoned" else not n.ready)
            ]
            free = sum(empty_state(n).free_milli for n in which) // GPU_MILLI
            names = ", ".join(n.name for n in which[:3]) + (", …" if len(which) > 3 else "")
            take = "takes" if len(which) == 1 else "take"
            nodes = counted(len(which), "node")
            return f"{nodes} with {counted(free, 'GPU')} {take} nothing new: {names}"
        case "unhealthy":
            failed = sum(len(node.unhealthy_gpus) for node in question.nodes)
            return f"{counted(failed, 'GPU')} {'has' if failed == 1 else 'have'} failed"
        case "cpu":
            return f"asks for {_each(shapes, 'cpu_milli')} per replica"
        case "memory":
            return f"asks for {_each(shapes, 'memory_mib')} per replica"
        case "spread":
            assert job.spread is not None
            return f"at most {counted(job.spread.max_per, 'replica')} in one {job.spread.over}"
        case "share-group":
            groups = sorted({shape.share_group for shape in shapes if shape.is_share})
            own = " and ".join(group or "no group" for group in groups)
            return f"shares a GPU only with shares of {own}"
        case "topology":
            assert job.topology is not None
            return f"all within one {job.topology.within}"
        case "link":
            return "the GPUs of a replica are joined by NVLink"
        case "model":
            models = sorted({model for shape in shapes for model in shape.gpu_models})
            return f"only {' or '.join(models)}"
        case "label":
            pairs = sorted({pair for shape in shapes for pair in shape.node_selector})
            return f"only nodes with {', '.join(f'{k}={v}' for k, v in pairs)}"
        case "taint":
            refused = [n for n in question.nodes if any("taint" in refusals(n, s) for s in shapes)]
            marks = sorted({f"{t.key}={t.value}" for n in refused for t in n.taints if t.repels})
            nodes = counted(len(refused), "node")
            have = "has" if len(refused) == 1 else "have"
            return f"{nodes} {have} taints that it does not tolerate: {', '.join(marks)}"
        case "mig-limit":
            left, most = question.most_recut_gpus, case.problem.most_recut_gpus
            gpus = counted(most or 0, "GPU")
            return f"a plan may change the geometry of {gpus} (mig.limit), {left} of them still"
        case "start-group":
            partners = [other.name for other in question.jobs if other.name != job.name]
            return f"starts only together with {', '.join(partners)}"
        case _:
            return f"limits of queues: {', '.join(_limits(case))}"


def _limits(case: Case) -> list[str]:
    """Limits of its queue and those above it: those that the job would go beyond, or else all."""
    question, job = case.question, case.part
    used = held_by_queue(question, question.running)
    beyond: list[str] = []
    others: list[str] = []
    for queue in question.queues:
        members = subtree(question.queues, queue.name)
        if job.queue not in members:
            continue
        for resource in RESOURCES:
            if resource not in queue.limit:
                continue
            wanted = sum(
                (role.min_replicas if job.gang else 1) * question.amount(role.shape, resource)
                for role in job.roles
            )
            held = sum(used[name][resource] for name in members)
            said = f"{queue.name} {amount_text(resource, queue.limit[resource])}"
            (beyond if wanted and held + wanted > queue.limit[resource] else others).append(said)
    return beyond or others


def _each(shapes: list[Shape], part: str) -> str:
    if part == "cpu_milli":
        return amount_text("cpu_milli", max(shape.cpu_milli for shape in shapes))
    return amount_text("memory_mib", max(shape.memory_mib for shape in shapes))


def _held(case: Case) -> str:
    states = initial_states(case.question)
    free = [states[n.name].free_milli / GPU_MILLI for n in case.question.nodes if n.schedulable]
    planned = len(case.plan.by_job.keys() - {case.job.name})
    also = f" and {counted(planned, 'job')} of the plan" if planned else ""
    stay = "stay" if planned else "stays"
    most = max(free, default=0)
    gpus = f"{counted(sum(free), 'GPU')} free, at most {most:g} on one node"
    return f"what runs{also} {stay}: {gpus}"
