"""Jobs of a spec and the pods that they are made of."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kube.records import Group, GroupKey, Pod, Template

IMPLICIT_ROLE = "replica"
"""Role of a job that has only one, as plans name it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Alike members of a job: pods that are there, and how many of them it wants."""

    role: str
    template: Template
    count: int
    least: int
    pods: tuple[Pod, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A job of the spec.

    Parameters
    ----------
    key
        What holds its pods together.
    fixed
        Whether its scheduler stops it for nobody, once it runs.
    source
        The object whose pods are still to be made, where there are none yet.
    gang
        Whether it starts whole, or at least `least` of each task.
    missing
        Members that a gang needs to start, and that nobody has made yet.
    """

    name: str
    key: GroupKey
    tasks: tuple[Task, ...]
    queue: str
    priority: int
    gang: bool
    created: str
    topology: tuple[str, bool] | None = None
    spread: str | None = None
    fixed: bool = False
    source: Group | None = None
    missing: int = 0


def tasks_of(pods: list[Pod]) -> list[Task]:
    """Pods of one role that ask for the same, in their order."""
    alike: dict[tuple[object, ...], list[Pod]] = defaultdict(list)
    for pod in sorted(pods, key=lambda pod: (pod.order, pod.name)):
        alike[pod.role, signature(pod.template)].append(pod)
    tasks = [
        Task(
            role=group[0].role or IMPLICIT_ROLE,
            template=group[0].template,
            count=len(group),
            least=len(group),
            pods=tuple(group),
        )
        for group in alike.values()
    ]
    return distinct(tasks)


def distinct(tasks: list[Task]) -> list[Task]:
    """Tasks with a role name of their own each."""
    if len(tasks) == 1:
        return [replace(tasks[0], role=IMPLICIT_ROLE)]
    seen: set[str] = set()
    named = []
    for task in tasks:
        role, number = task.role, 2
        while role in seen:
            role, number = f"{task.role}-{number}", number + 1
        seen.add(role)
        named.append(replace(task, role=role))
    return named


def signature(template: Template) -> tuple[object, ...]:
    """What makes two pods alike."""
    return (
        tuple(sorted(template.requests.items())),
        template.choice,
        template.tolerations,
        template.share_milli,
        template.share_memory,
        template.spread,
    )
