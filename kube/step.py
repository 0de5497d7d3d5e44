"""One request to the API, and what all requests that realise a plan have in common."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kube.importer import Imported
    from kube.records import Pod
    from kube.work import Work
    from solver.solution import Plan

    AtByRole = Mapping[str, Mapping[int, str]]
    """Node of each replica, by role."""

Body = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One request to the API.

    Parameters
    ----------
    action
        ``cordon``, ``evict``, ``wait``, ``bind``, ``pin``, ``uncordon``, ``lift`` or ``steer``.
    kind, namespace, name
        The object that it is about; nodes have no namespace.
    node
        Where the pod is that a ``wait`` is about.
    body
        What is sent; None for ``wait``.
    text
        The step for people.
    """

    action: str
    kind: str
    name: str
    namespace: str = ""
    node: str = ""
    body: Body | None = None
    text: str


@dataclass
class Steps:
    """The steps of a plan, and what of it they cannot bring about."""

    steps: list[Step] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


def about(pod: Pod, action: str, body: Body | None, text: str) -> Step:
    """A step that is about a pod."""
    return Step(
        action=action, kind="Pod", namespace=pod.namespace, name=pod.name, body=body, text=text
    )


def meta(pod: Pod) -> Body:
    """Which pod it is, in a request about it."""
    return {"name": pod.name, "namespace": pod.namespace}


def starts(plan: Plan, imported: Imported) -> Iterator[tuple[Work, AtByRole]]:
    """Work that starts, and the node of each of its replicas."""
    for job, places in plan.by_job.items():
        work = imported.pending[job]
        at_by_role: dict[str, dict[int, str]] = {task.role: {} for task in work.tasks}
        for place in places:
            at_by_role[place.role][place.replica] = place.node
        yield work, at_by_role
