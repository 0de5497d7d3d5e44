"""The device manager: one run of a kubelet after the other on a folder."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grpc import aio

from plugin.mock_kubelet.admission import Admissions
from plugin.mock_kubelet.books import AdmissionError, Books, Inventory
from plugin.mock_kubelet.checkpoint import read_checkpoint, write_checkpoint
from plugin.mock_kubelet.pods import Pod
from plugin.mock_kubelet.registrations import Duplicates, Registrations
from plugin.mock_kubelet.services import PodResourcesService, RegistrationService
from plugin.proto.deviceplugin.v1beta1 import api_pb2, api_pb2_grpc
from plugin.proto.podresources.v1 import api_pb2_grpc as pods_grpc


@dataclass(slots=True)
class MockKubelet:
    """A device manager on a folder.

    Parameters
    ----------
    folder
        Plugin folder, where ``kubelet.sock`` appears.
    duplicates
        Which kubelet's rule holds for a second plugin of a resource.
    say
        Told what happens, one line each.
    pod_resources
        Socket of the PodResources service; None serves none.
    registry
        Folder of the plugin watcher; None watches none.
    """

    folder: Path
    duplicates: Duplicates = Duplicates.BY_NAME
    seed: int = 1
    clock: Callable[[], float] = time.monotonic
    say: Callable[[str], None] = lambda line: None
    pod_resources: Path | None = None
    registry: Path | None = None
    books: Books = field(default_factory=Books)
    pods: dict[str, Pod] = field(default_factory=dict)
    _plugins: Registrations = field(init=False)
    _admissions: Admissions = field(init=False)
    _servers: list[aio.Server] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._plugins = Registrations(
            self.folder, self.duplicates, self.books, self.clock, self.say, self._save
        )
        self._admissions = Admissions(self.books, self._plugins, self.say, self.seed)

    def _save(self) -> None:
        write_checkpoint(self.folder, self.books)

    # --- runs ----------------------------------------------------------------------------------

    async def start(self) -> None:
        """Begin a run: read the checkpoint, delete every socket, listen on a new one."""
        self.folder.mkdir(parents=True, exist_ok=True)
        read_checkpoint(self.folder, self.books, self.clock())
        for path in self.folder.iterdir():
            if path.is_socket():
                path.unlink()
        registration = aio.server()
        api_pb2_grpc.add_RegistrationServicer_to_server(RegistrationService(self), registration)
        await self._listen(registration, self.folder / "kubelet.sock")
        if self.pod_resources is not None:
            self.pod_resources.parent.mkdir(parents=True, exist_ok=True)
            self.pod_resources.unlink(missing_ok=True)
            lister = aio.server()
            pods_grpc.add_PodResourcesListerServicer_to_server(PodResourcesService(self), lister)
            await self._listen(lister, self.pod_resources)
        if self.registry is not None:
            self.registry.mkdir(parents=True, exist_ok=True)
            self._plugins.watch(self.registry)

    async def _listen(self, server: aio.Server, path: Path) -> None:
        server.add_insecure_port(f"unix:{path}")
        await server.start()
        self._servers.append(server)

    async def stop(self) -> None:
        """End the run; streams end with it."""
        await self._plugins.close()
        for server in self._servers:
            await server.stop(0)
        self._servers = []
        self.books.inventories = {}

    async def restart(self) -> None:
        """Stop and start: registered resources come back from the checkpoint with no devices."""
        known = set(self.books.inventories)
        await self.stop()
        await self.start()
        for name in known:
            self.books.inventories.setdefault(name, Inventory(left_at=self.clock()))

    async def drop_streams(self) -> None:
        """Close all streams as on a broken connection, without a restart."""
        await self._plugins.drop_streams()

    async def register(self, request: api_pb2.RegisterRequest) -> None:
        """Take a registration; ValueError says why it is refused."""
        await self._plugins.register(request)

    # --- pods ----------------------------------------------------------------------------------

    async def admit(self, pod: Pod) -> dict[str, dict[str, list[str]]]:
        """Admit a pod, container by container, or refuse it.

        Raises
        ------
        AdmissionError
            What was missing; what containers before got stays booked until the next admission.
        """
        self.books.free_pods(self.pods)
        self.pods[pod.uid] = pod
        try:
            await self._admissions.admit(pod)
        except AdmissionError:
            self.pods.pop(pod.uid)
            raise
        self._save()
        return self.devices(pod.uid)

    def remove_pod(self, uid: str) -> None:
        """A pod is over; what it held is free at the next admission."""
        self.pods.pop(uid, None)
        self.books.free_pods(self.pods)

    def devices(self, uid: str) -> dict[str, dict[str, list[str]]]:
        """IDs by container and resource."""
        pod = self.pods[uid]
        told: dict[str, dict[str, list[str]]] = {
            container.name: {} for container in (*pod.init_containers, *pod.containers)
        }
        for (holder, container, resource), ids in self.books.held.items():
            if holder == uid:
                told[container][resource] = sorted(ids)
        return told

    async def run_options(self, uid: str) -> dict[str, dict[str, Any]]:
        """What the runtime is told for each container of a pod.

        Raises
        ------
        AdmissionError
            A plugin that wants to be asked before the start says no.
        """
        return await self._admissions.run_options(self.pods[uid])

    def health(self, uid: str) -> dict[str, str]:
        """Health of what a pod holds; an ID that vanished reads healthy, as at the kubelet."""
        told = {}
        for (holder, _, resource), ids in self.books.held.items():
            if holder == uid:
                inventory = self.books.inventories.get(resource, Inventory())
                for one in ids:
                    told[one] = "Unhealthy" if one in inventory.unhealthy else "Healthy"
        return told
