"""What a pod asks for, exactly as the scheduler computes it.

The rule, for each resource: containers and restartable init containers (sidecars) run together;
while init container i runs, so do the sidecars before it. The pod needs the larger of the two,
or what it says for the pod as a whole (cpu, memory, hugepages), and its overhead on top:

    max(sum of containers + sum of sidecars,
        max over i of (request of init i + sum of sidecars before i)) + overhead

A limit without a request is a request (the API server fills it in when a pod is made, not in
templates); so extended resources such as GPUs may be given as limits only. For a pod that runs,
a resize in place counts with the largest of desired, allocated and actual requests.

References
----------
KEP-753 (sidecars), KEP-2837 (pod level resources), KEP-1287 (in-place resize);
``k8s.io/component-helpers/resource``, with which the tests compare it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from specs.models.base import MAX_AMOUNT

if TYPE_CHECKING:
    from collections.abc import Mapping
    from fractions import Fraction

    from specs.importers.fields import Fields

Amounts = dict[str, "Fraction"]


def pod_requests(spec: Fields, status: Fields | None = None) -> Amounts:
    """The effective request of a pod by resource: cores, bytes, devices.

    Parameters
    ----------
    spec
        ``spec`` of a pod, or of a pod template.
    status
        ``status`` of the pod, for resizes in place.

    Raises
    ------
    ObjectFault
        A field has the wrong type, or an amount is no quantity.
    """
    statuses, infeasible = _statuses(status)
    aggregate = _aggregate(spec, statuses, infeasible)
    total = dict(aggregate)
    level = spec.map("resources")
    if level:
        requests, limits = level.amounts("requests"), level.amounts("limits")
        if limits:
            plain = aggregate if not statuses else _aggregate(spec, {}, infeasible)
            for name, amount in (*plain.items(), *limits.items()):
                requests.setdefault(name, amount)
        total |= {name: amount for name, amount in requests.items() if _pod_level(name)}
    _add(total, spec.amounts("overhead"))
    for name, amount in total.items():
        if amount > MAX_AMOUNT:
            raise spec.fault("", f"the pod asks for more {name} than any cluster has")
    return total


def _pod_level(resource: str) -> bool:
    """Resources that a pod may ask for as a whole."""
    return resource in ("cpu", "memory") or resource.startswith("hugepages-")


def _aggregate(spec: Fields, statuses: Mapping[str, Fields], infeasible: bool) -> Amounts:
    total: Amounts = {}
    for container in spec.maps("containers"):
        _add(total, _container(container, statuses, infeasible))
    sidecars: Amounts = {}
    initial: Amounts = {}
    for container in spec.maps("initContainers"):
        if container.text("restartPolicy") == "Always":
            requests = _container(container, statuses, infeasible)
            _add(total, requests)
            _add(sidecars, requests)
            _raise(initial, sidecars)
        else:
            phase = _container(container, {}, infeasible)
            _add(phase, sidecars)
            _raise(initial, phase)
    _raise(total, initial)
    return total


def _container(container: Fields, statuses: Mapping[str, Fields], infeasible: bool) -> Amounts:
    resources = container.map("resources")
    requests = resources.amounts("limits")
    requests |= resources.amounts("requests")
    status = statuses.get(container.text("name"))
    if status is not None and status.has("resources"):
        actual = status.map("resources").amounts("requests")
        if infeasible:
            requests = actual
        else:
            _raise(requests, actual)
        _raise(requests, status.amounts("allocatedResources"))
    return requests


def _statuses(status: Fields | None) -> tuple[Mapping[str, Fields], bool]:
    """Status of each container, and whether a wanted resize can never be done."""
    if status is None:
        return {}, False
    by_name = {
        entry.text("name"): entry
        for key in ("containerStatuses", "initContainerStatuses")
        for entry in status.maps(key)
    }
    for condition in status.maps("conditions"):
        if condition.text("type") == "PodResizePending":
            return by_name, condition.text("reason") == "Infeasible"
    return by_name, False


def _add(total: Amounts, more: Mapping[str, Fraction]) -> None:
    for name, amount in more.items():
        total[name] = total[name] + amount if name in total else amount


def _raise(total: Amounts, least: Mapping[str, Fraction]) -> None:
    for name, amount in least.items():
        if name not in total or total[name] < amount:
            total[name] = amount
