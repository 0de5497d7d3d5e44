"""A model of a cluster: objects that change as the API server would change them.

It knows what the exported requests do, and just enough of the rest: a pod that its controller makes
anew, and a scheduler that binds those and pods whose node selector leaves one node, at once and
wherever there is room.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

Object = dict[str, Any]
GPU = "nvidia.com/gpu"
AGAIN = "-again"


class Cluster:
    """Objects by kind, namespace and name."""

    def __init__(self, objects: list[Object]) -> None:
        self.objects = {self._key(entry): copy.deepcopy(entry) for entry in objects}

    @staticmethod
    def _key(entry: Object) -> tuple[str, str, str]:
        meta = entry["metadata"]
        namespace = "" if entry["kind"] == "Node" else meta.get("namespace", "default")
        return entry["kind"], namespace, meta["name"]

    def apply(self, folder: Path) -> None:
        """Send the requests of an export, in their order."""
        for step in json.loads((folder / "steps.json").read_text())["steps"]:
            body = json.loads((folder / step["file"]).read_text()) if "file" in step else None
            key = (step["kind"], step.get("namespace", ""), step["name"])
            self.request(step["action"], key, body)

    def request(self, action: str, key: tuple[str, str, str], body: Object | None) -> None:
        """One request."""
        if action == "wait":
            assert key not in self.objects, "a pod that was evicted is still there"
        elif action == "evict":
            assert body
            self._evict(key, body)
        elif action == "bind":
            assert body
            self._bind(key, body)
        else:
            self._patch(key, body)
        self._schedule()

    def _evict(self, key: tuple[str, str, str], body: Object) -> None:
        assert (body["apiVersion"], body["kind"]) == ("policy/v1", "Eviction")
        pod = self.objects[key]
        wanted = body.get("deleteOptions", {}).get("preconditions", {}).get("uid")
        assert wanted in (None, pod["metadata"].get("uid")), "another pod of this name"
        del self.objects[key]
        if pod["metadata"].get("ownerReferences"):
            again = copy.deepcopy(pod)
            again["metadata"]["name"] += AGAIN
            again["metadata"].pop("uid", None)
            again["spec"].pop("nodeName")
            again["status"] = {"phase": "Pending"}
            self.objects[self._key(again)] = again

    def _bind(self, key: tuple[str, str, str], body: Object) -> None:
        pod = self.objects[key]
        assert (body["metadata"]["namespace"], body["metadata"]["name"]) == key[1:]
        assert not pod["spec"].get("nodeName"), "bound already"
        assert not pod["spec"].get("schedulingGates"), "gated pods cannot be bound"
        assert not pod["spec"].get("resourceClaims"), "a binding allocates no claim"
        self._run(pod, body["target"]["name"])

    def _run(self, pod: Object, node: str) -> None:
        assert ("Node", "", node) in self.objects
        pod["spec"]["nodeName"] = node
        pod["status"]["phase"] = "Running"

    def _patch(self, key: tuple[str, str, str], body: object) -> None:
        entry = self.objects[key]
        before = copy.deepcopy(entry)
        _merge(entry, body)
        if key[0] != "Pod":
            return
        old, new = before["spec"].get("nodeSelector", {}), entry["spec"].get("nodeSelector", {})
        assert new.items() >= old.items(), "labels of a selector can only be added"
        if new != old:
            assert before["spec"].get("schedulingGates"), "only gated pods can be changed so"

    def _schedule(self) -> None:
        nodes = {key[2]: entry for key, entry in self.objects.items() if key[0] == "Node"}
        for key, pod in self.objects.items():
            spec = pod["spec"]
            if key[0] != "Pod" or spec.get("nodeName") or spec.get("schedulingGates"):
                continue
            wanted = spec.get("nodeSelector", {})
            fits = [
                name
                for name, node in nodes.items()
                if wanted.items() <= node["metadata"]["labels"].items()
                and not node["spec"].get("unschedulable")
            ]
            if "kubernetes.io/hostname" in wanted and len(fits) == 1:
                self._run(pod, fits[0])
            elif key[2].endswith(AGAIN):
                with_room = (name for name in fits if self._free(nodes[name]) >= _gpus(pod))
                if (name := next(with_room, None)) is not None:
                    self._run(pod, name)

    def _free(self, node: Object) -> int:
        pods = (entry for key, entry in self.objects.items() if key[0] == "Pod")
        name = node["metadata"]["name"]
        held = sum(_gpus(pod) for pod in pods if pod["spec"].get("nodeName") == name)
        return int(node["status"]["allocatable"].get(GPU, 0)) - held


def _gpus(pod: Object) -> int:
    amounts = (entry["resources"].get("requests", {}) for entry in pod["spec"]["containers"])
    return sum(int(amount.get(GPU, 0)) for amount in amounts)


def _merge(target: Object, patch: Any) -> None:
    """JSON merge patch (RFC 7386)."""
    for name, value in patch.items():
        if value is None:
            target.pop(name, None)
        elif isinstance(value, dict):
            _merge(target.setdefault(name, {}), value)
        else:
            target[name] = value
