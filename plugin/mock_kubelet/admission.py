"""The way of a pod through the device manager: what it is given, what its containers are told."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import grpc

from plugin.kubelet import reason_of
from plugin.mock_kubelet.books import AdmissionError, Books
from plugin.mock_kubelet.pods import Container, Pod
from plugin.mock_kubelet.registrations import Connection, Registrations
from plugin.proto.deviceplugin.v1beta1 import api_pb2


@dataclass(slots=True)
class Admissions:
    """Gives devices to pods and keeps what plugins answered.

    Parameters
    ----------
    seed
        Of the order in which a container's resources are seen, a map's at the kubelet.
    """

    books: Books
    plugins: Registrations
    say: Callable[[str], None]
    seed: int
    _answers: dict[tuple[str, str, str], api_pb2.ContainerAllocateResponse] = field(
        default_factory=dict
    )
    _random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    async def admit(self, pod: Pod) -> None:
        """Admit a pod, container by container, or refuse it.

        Raises
        ------
        AdmissionError
            What was missing; what containers before got stays booked until the next admission.
        """
        reusable: dict[str, set[str]] = {}
        for container in pod.init_containers:
            await self._allocate(pod, container, reusable)
            for name in container.limits:
                held = self.books.held.get((pod.uid, container.name, name), frozenset())
                reusable.setdefault(name, set()).update(held)
        for container in pod.containers:
            await self._allocate(pod, container, reusable)
            for name in container.limits:
                held = self.books.held.get((pod.uid, container.name, name), frozenset())
                reusable.setdefault(name, set()).difference_update(held)

    async def _allocate(
        self, pod: Pod, container: Container, reusable: Mapping[str, set[str]]
    ) -> None:
        names = list(container.limits)
        self._random.shuffle(names)  # a map's order at the kubelet
        for name in names:
            if name not in self.books.inventories:
                continue  # nobody's resource: not the manager's business
            key = (pod.uid, container.name, name)
            if key in self.books.held:
                continue
            spare = reusable.get(name, set())
            sure, available, missing = self.books.choose(name, container.limits[name], spare)
            plugin = self.plugins.serving(name)
            ids = [*sure, *await self._choose(plugin, sure, available, missing)]
            request = api_pb2.AllocateRequest(
                container_requests=[api_pb2.ContainerAllocateRequest(devices_ids=ids)]
            )
            self.books.held[key] = frozenset(ids)
            try:
                answer = await plugin.stub.Allocate(request)
            except grpc.RpcError as error:
                del self.books.held[key]
                raise AdmissionError(f"Allocate failed due to {reason_of(error)}") from error
            if not answer.container_responses:
                del self.books.held[key]
                raise AdmissionError(f"no containers in allocation response {name}")
            self._answers[key] = answer.container_responses[0]
            self.say(f"allocate {name} to {pod.uid}/{container.name}: {', '.join(sorted(ids))}")

    async def _choose(
        self, plugin: Connection, sure: list[str], available: set[str], missing: int
    ) -> list[str]:
        """Follow the plugin's preference as far as it goes; the rest at random."""
        if not missing:
            return []
        preferred: set[str] = set()
        if plugin.options.get_preferred_allocation_available and len(available) > missing:
            request = api_pb2.ContainerPreferredAllocationRequest(
                available_deviceIDs=sorted(available | set(sure)),
                must_include_deviceIDs=sure,
                allocation_size=missing + len(sure),
            )
            try:
                answer = await plugin.stub.GetPreferredAllocation(
                    api_pb2.PreferredAllocationRequest(container_requests=[request])
                )
            except grpc.RpcError as error:
                raise AdmissionError(
                    f"GetPreferredAllocation failed due to {reason_of(error)}"
                ) from error
            if answer.container_responses:
                preferred = set(answer.container_responses[0].deviceIDs)
        chosen = sorted(preferred & available)[:missing]
        rest = sorted(available - set(chosen))
        self._random.shuffle(rest)
        return [*chosen, *rest[: missing - len(chosen)]]

    async def run_options(self, pod: Pod) -> dict[str, dict[str, Any]]:
        """What the runtime is told: answers of several resources merged, the first one wins.

        Raises
        ------
        AdmissionError
            A plugin that wants to be asked before the start says no.
        """
        told = {}
        for container in pod.containers:
            keys = [key for key in self._answers if key[:2] == (pod.uid, container.name)]
            self._random.shuffle(keys)
            merged: dict[str, Any] = {"envs": {}, "annotations": {}}
            mounts: dict[str, str] = {}
            nodes: dict[str, str] = {}
            cdi: list[str] = []
            for key in keys:
                await self._before_start(key)
                answer = self._answers[key]
                merged["envs"] = {**answer.envs, **merged["envs"]}
                merged["annotations"] = {**answer.annotations, **merged["annotations"]}
                for mount in answer.mounts:
                    mounts.setdefault(mount.container_path, mount.host_path)
                for device in answer.devices:
                    nodes.setdefault(device.container_path, device.host_path)
                cdi += [device.name for device in answer.cdi_devices]
            merged["mounts"] = [f"{host}:{inside}" for inside, host in mounts.items()]
            merged["devices"] = list(nodes.values())
            merged["cdi"] = sorted(cdi)
            told[container.name] = merged
        return told

    async def _before_start(self, key: tuple[str, str, str]) -> None:
        plugin = self.plugins.serving(key[2])
        if plugin.options.pre_start_required:
            request = api_pb2.PreStartContainerRequest(devices_ids=sorted(self.books.held[key]))
            try:
                await plugin.stub.PreStartContainer(request, timeout=30)
            except grpc.RpcError as error:
                raise AdmissionError(f"PreStartContainer failed: {reason_of(error)}") from error
