"""Where flavors of Kueue let pending work go: their node labels, put into its pods at admission.

A pod set with GPUs gets one flavor of its ClusterQueue, and with it the flavor's node labels as a
node selector and the flavor's tolerations. So it goes to nodes of one of these flavors.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from kube.pods import read_tolerations
from kube.records import QueueKey
from kube.selectors import Requirement

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kube.records import Template, Toleration
    from kube.tenancy import Tenancy
    from kube.work import Work
    from specs.importers.fields import Fields
    from specs.importers.report import ImportReport

TAINTS = "node taints of ResourceFlavors: those of the nodes count"
UNKNOWN = "ResourceFlavors of its queue are not all in the input: any node will do for work"


class Flavor(NamedTuple):
    """A ResourceFlavor: labels of its nodes, and what pods on it tolerate."""

    labels: tuple[tuple[str, str], ...]
    tolerations: tuple[Toleration, ...] = ()


def read_flavor(obj: Fields) -> tuple[Flavor, tuple[str, ...]]:
    """A ResourceFlavor, and what of it a spec cannot say."""
    spec = obj.map("spec")
    tolerations, _ = read_tolerations(spec)
    labels = tuple(sorted(spec.table("nodeLabels").items()))
    return Flavor(labels, tolerations), (TAINTS,) if spec.has("nodeTaints") else ()


def in_flavors(
    work: Work, tenancy: Tenancy, flavors: Mapping[str, Flavor], report: ImportReport
) -> Work:
    """Pending work, with its pods that have devices kept to nodes of its queue's flavors.

    Work stays as it is where some flavor of its queue has no labels, or is not in the input;
    the latter is said.
    """
    queue = tenancy.queues.get(QueueKey("ClusterQueue", work.queue))
    if queue is None:
        return work
    tasks, unknown = [], False
    for task in work.tasks:
        devices = _devices(task.template)
        names = dict.fromkeys(flavor for flavor, resource in queue.flavors if resource in devices)
        found = [flavors[name] for name in names if name in flavors]
        unknown = unknown or len(found) < len(names)
        if not found or len(found) < len(names) or not all(flavor.labels for flavor in found):
            tasks.append(task)
            continue
        terms = tuple(
            tuple(Requirement(key, "In", (value,)) for key, value in flavor.labels)
            for flavor in found
        )
        tolerations = [one for flavor in found for one in flavor.tolerations]
        template = replace(
            task.template,
            choice=task.template.choice.within(terms),
            tolerations=tuple(dict.fromkeys([*task.template.tolerations, *tolerations])),
        )
        tasks.append(replace(task, template=template))
    if unknown:
        report.assumed.add(UNKNOWN, work.name)
    return replace(work, tasks=tuple(tasks))


def _devices(template: Template) -> set[str]:
    return {name for name, amount in template.requests.items() if amount and "/" in name}
