"""Share groups: which work may be put on one GPU with which other work."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from specs.queues import DEFAULT_QUEUE

if TYPE_CHECKING:
    from solver.workload import Job, Shape
    from specs.models.scenario import ClusterSpec
    from specs.models.workload import WorkSpec


def share_group(spec: ClusterSpec, entry: WorkSpec) -> str:
    """The group of a job's shares: its own word, else what ``sharing.among`` says of its queue.

    Work without a group is a group too.
    """
    if entry.share_group is not None:
        return f"group {entry.share_group}"
    queue = entry.queue or DEFAULT_QUEUE
    if spec.sharing.among == "queue":
        return f"queue {queue}"
    if spec.sharing.among == "trust":
        level = _trust(spec, queue)
        return f"trust {level}" if level else ""
    return ""


def _trust(spec: ClusterSpec, name: str | None) -> str | None:
    """The trust level of a queue, else of the nearest queue above that has one."""
    queues = {queue.name: queue for queue in spec.queues}
    seen: set[str] = set()
    while name is not None and name in queues and name not in seen:
        seen.add(name)
        if queues[name].trust is not None:
            return queues[name].trust
        name = queues[name].parent
    return None


def in_group(shape: Shape, group: str) -> Shape:
    """The shape in a share group, if it is a share."""
    return replace(shape, share_group=group) if group and shape.is_share else shape


def job_in_group(job: Job, group: str) -> Job:
    """The job with all its shares in a group."""
    roles = (replace(role, shape=in_group(role.shape, group)) for role in job.roles)
    return replace(job, roles=tuple(roles)) if group else job
