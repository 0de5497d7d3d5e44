"""What a pod of a case really requests, by way of the pod that Kubernetes would have."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any

from kube.requests import pod_requests
from specs.importers.fields import Fields, Place
from specs.models.quantity import MIB, memory_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping
    from fractions import Fraction

    from tests.acceptance.neutral import Case

RESOURCES = {"cpu": "cpu", "mem": "memory", "memory": "memory"}
RESOURCES |= {"gpus": "nvidia.com/gpu", "gpu": "nvidia.com/gpu"}


class UnknownPartError(LookupError):
    """The case says something of a pod, or expects something, whose meaning is not coded."""


def differences_of_requests(case: Case) -> list[str]:
    """One line for each amount that is not the expected one."""
    found = []
    for pod in case["pods"]:
        requests = pod_requests(Fields(pod_spec(pod), Place(str(case["id"]), 1), pod["name"]))
        for key, expected in case["expect"]["effective"].get(pod["name"], {}).items():
            value = _amount(requests, key)
            wanted = memory_bytes(str(expected)) if key in ("mem", "memory") else expected
            if str(value) != str(wanted):
                found.append(f"effective: {key} of {pod['name']} is {value}, expected {wanted}")
    return found


def _amount(requests: Mapping[str, Fraction], key: str) -> int:
    match key:
        case "cpu_m":
            return ceil(requests.get("cpu", 0) * 1000)
        case "mem_mib":
            return ceil(requests.get("memory", 0) / MIB)
    if key not in RESOURCES:
        raise UnknownPartError(f"effective: nobody has said what {key} is")
    return ceil(requests.get(RESOURCES[key], 0))


def pod_spec(pod: Mapping[str, Any]) -> dict[str, Any]:
    """The spec of a pod of a case."""
    known = {"name", "init", "containers", "overhead", "requests", "limits"}
    if unknown := set(pod) - known:
        raise UnknownPartError(f"pods: nobody has said what {', '.join(sorted(unknown))} is")
    spec: dict[str, Any] = {
        "initContainers": [_container(entry) for entry in pod.get("init", [])],
        "containers": [_container(entry) for entry in pod.get("containers", [])],
    }
    if "overhead" in pod:
        spec["overhead"] = _table(pod["overhead"])
    own = {key: _table(pod[key]) for key in ("requests", "limits") if key in pod}
    return spec | ({"resources": own} if own else {})


def _container(entry: Mapping[str, Any]) -> dict[str, Any]:
    beside = ("name", "restart", "requests", "limits")
    plain = {key: value for key, value in entry.items() if key not in beside}
    resources = {"requests": _table({**plain, **entry.get("requests", {})})}
    if "limits" in entry:
        resources["limits"] = _table(entry["limits"])
    container: dict[str, Any] = {"name": entry.get("name", "c"), "resources": resources}
    if entry.get("restart") == "always":
        container["restartPolicy"] = "Always"
    return container


def _table(amounts: Mapping[str, Any]) -> dict[str, str]:
    if unknown := [key for key in amounts if key not in RESOURCES]:
        raise UnknownPartError(f"pods: nobody has said what {', '.join(unknown)} is")
    return {RESOURCES[key]: str(value) for key, value in amounts.items()}
