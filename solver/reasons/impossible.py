"""Plain amounts that even the empty cluster does not have."""

from __future__ import annotations

from solver.cluster import GPU_MILLI
from solver.fit import capacity as fits_empty
from solver.reasons.desk import Desk
from solver.reasons.verdict import Verdict, number, wish
from solver.result import FactValue
from solver.result_text import counted
from solver.room import plain
from solver.workload import Job


def impossible(desk: Desk, job: Job) -> Verdict | None:
    """Plain amounts do not fit even if the whole cluster were empty and open."""
    for role in job.roles:
        shape = plain(role)
        needed = role.min_replicas if job.gang else 1
        capacity = sum(many * fits_empty(kind, shape) for kind, many in desk.opened.items())
        if capacity >= needed:
            continue
        gpus = desk.problem.gpu_milli(shape) / GPU_MILLI
        facts: dict[str, FactValue] = {
            "needs": number(gpus * needed),
            "capacity_when_empty": number(gpus * capacity),
            "short": number(gpus * (needed - capacity)),
        }
        wanted = wish(shape)
        if capacity == 0:
            largest = max((len(kind.usable_gpus) for kind in desk.opened), default=0)
            facts["largest_node_gpus"] = largest
            text = f"asks for {wanted} on one node; the largest node has {counted(largest, 'GPU')}"
            if shape.share_memory_mib:
                memories = (m for n in desk.opened for m in n.topology.gpu_memory_mib if m)
                most = max(memories, default=0)
                text = f"asks for {wanted}, beyond the card: the largest GPU has {most:,} MiB"
            elif largest >= shape.gpus:
                text = f"asks for {wanted} on one node; no node has as much even when empty"
        else:
            text = f"asks for {needed} x {wanted}; the empty cluster holds {capacity}"
        return Verdict("impossible", text, facts)
    return None
