"""What only the mock can do: time that passes, broken streams, calls that hang."""

import asyncio
import contextlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from grpc import aio

from plugin.kubelet import KubeletPaths, register
from plugin.mock_kubelet.books import GRACE_S, Books, Inventory
from plugin.mock_kubelet.manager import MockKubelet
from plugin.mock_kubelet.registrations import Duplicates
from plugin.proto.deviceplugin.v1beta1 import api_pb2, api_pb2_grpc
from tests.kubelet.driver import GPU, Loop, MockedKubelet, Plugin, eventually


def test_a_resource_keeps_its_capacity_for_five_minutes():
    books = Books(inventories={GPU: Inventory(healthy={"a", "b"})})
    books.inventories[GPU].lose(100)

    assert books.capacity(100 + GRACE_S) == ({GPU: 2}, {GPU: 0}, [])
    assert books.capacity(100 + GRACE_S + 1) == ({}, {}, [GPU])


def test_a_stream_that_breaks_alone_is_noticed(mock: MockedKubelet, loop: Loop, root: Path):
    mock.do("start")
    ours = Plugin(loop, root)
    eventually(lambda: mock.allocatable() == 8)

    mock.do("drop_streams")
    assert mock.allocatable() == 0

    eventually(lambda: mock.allocatable() == 8)
    ours.stop()


@pytest.mark.parametrize("rule", list(Duplicates))
def test_restarts_and_takeovers_work_under_both_rules(rule: Duplicates, loop: Loop, root: Path):
    kubelet = MockedKubelet(root, loop, rule)
    kubelet.do("start")
    ours = Plugin(loop, root)
    eventually(lambda: kubelet.allocatable() == 8)
    for _ in range(3):
        ours.stop()
        ours.start()
        eventually(lambda: kubelet.allocatable() == 8)
        kubelet.do("restart")
        eventually(lambda: kubelet.allocatable() == 8)
    ours.stop()
    kubelet.close()


@pytest.mark.parametrize("strategy", ["envvar", "volume-mounts", "cdi-annotations", "cdi-cri"])
def test_of_two_kinds_of_instance_the_environment_shows_either_and_the_others_show_both(
    loop: Loop, root: Path, strategy: str
):
    """A hundred pods; in which order a kubelet sees the requests of a container is chance."""
    kubelet = MockedKubelet(root, loop)
    kubelet.do("start")
    layout = [{"profile": "3g.40gb", "start": 4}, {"profile": "2g.20gb", "start": 0}]
    (root / "fake.json").write_text(json.dumps({"mig": {"0": layout}}))
    flags = {"migStrategy": "mixed", "plugin": {"deviceListStrategy": strategy}}
    ours = Plugin(loop, root, config={"flags": flags})
    both = ("nvidia.com/mig-3g.40gb", "nvidia.com/mig-2g.20gb")
    eventually(lambda: all(kubelet.allocatable(name) == 1 for name in both))
    instances = frozenset(one.uuid for one in ours.source.scan().gpus[0].instances)

    shown = set()
    for pod in range(100):
        kubelet.admit(f"pod-{pod}", dict.fromkeys(both, 1))
        told = json.dumps(kubelet.told(f"pod-{pod}"))
        shown.add(frozenset(uuid for uuid in instances if uuid in told))
        kubelet.do("remove_pod", uid=f"pod-{pod}")

    one_each = {frozenset({uuid}) for uuid in instances}
    assert shown == (one_each if strategy == "envvar" else {instances})
    ours.stop()
    kubelet.close()


class Recorder(api_pb2_grpc.DevicePluginServicer):
    """A plugin that only listens."""

    async def GetDevicePluginOptions(self, request: Any, context: Any) -> Any:
        return api_pb2.DevicePluginOptions()

    async def ListAndWatch(self, request: Any, context: Any) -> Any:
        yield api_pb2.ListAndWatchResponse(devices=[api_pb2.Device(ID="a", health="Healthy")])
        await asyncio.sleep(60)


def test_the_same_path_is_refused_while_it_is_connected_and_taken_afterwards(
    loop: Loop, root: Path
):
    kubelet = MockedKubelet(root, loop, Duplicates.BY_PATH)
    kubelet.do("start")
    paths = KubeletPaths(plugins=root / "device-plugins")
    socket = paths.plugins / "same.sock"

    async def story() -> None:
        server = aio.server()
        api_pb2_grpc.add_DevicePluginServicer_to_server(Recorder(), server)
        server.add_insecure_port(f"unix:{socket}")
        await server.start()
        options = api_pb2.DevicePluginOptions()
        await register(paths, socket, GPU, options)
        with pytest.raises(aio.AioRpcError, match="already connected"):
            await register(paths, socket, GPU, options)
        await kubelet.kubelet.drop_streams()
        await register(paths, socket, GPU, options)
        await server.stop(0)

    loop.call(story())
    kubelet.close()


def test_the_end_of_another_plugin_s_stream_does_not_leave_the_node_with_nothing(
    mock: MockedKubelet, loop: Loop, root: Path
):
    """A kubelet that knows plugins by resource takes that end for ours, and our stream goes on."""
    mock.do("start")
    options = api_pb2.DevicePluginOptions()
    paths = KubeletPaths(plugins=root / "device-plugins")
    other = []

    async def another() -> None:
        server = aio.server()
        api_pb2_grpc.add_DevicePluginServicer_to_server(Recorder(), server)
        server.add_insecure_port(f"unix:{paths.plugins / 'other.sock'}")
        await server.start()
        await register(paths, paths.plugins / "other.sock", GPU, options)
        other.append(server)

    loop.call(another())
    ours = Plugin(loop, root, confirm_s=0.3)
    eventually(lambda: mock.allocatable() == 8)

    loop.call(other[0].stop(0))
    eventually(lambda: mock.allocatable() == 0)

    eventually(lambda: mock.allocatable() == 8)
    ours.stop()


class Deaf(api_pb2_grpc.RegistrationServicer):
    """A kubelet that never answers."""

    def __init__(self):
        self.calls = 0

    async def Register(self, request: Any, context: Any) -> Any:
        self.calls += 1
        await asyncio.sleep(60)


def test_a_registration_that_hangs_is_given_up_and_tried_again(
    mock: MockedKubelet, loop: Loop, root: Path
):
    deaf = Deaf()
    servers = []

    async def listen() -> None:
        server = aio.server()
        api_pb2_grpc.add_RegistrationServicer_to_server(deaf, server)
        server.add_insecure_port(f"unix:{root / 'device-plugins' / 'kubelet.sock'}")
        await server.start()
        servers.append(server)

    loop.call(listen())
    ours = Plugin(loop, root, register_timeout_s=0.2)
    eventually(lambda: deaf.calls >= 2)

    loop.call(servers[0].stop(0))
    mock.do("start")

    eventually(lambda: mock.allocatable() == 8)
    ours.stop()


def test_under_another_root_the_kubelet_is_told_the_base_name_of_our_socket(
    mock: MockedKubelet, loop: Loop, root: Path, monkeypatch: pytest.MonkeyPatch
):
    """It joins the name to a folder of its own: a path of our container would lead nowhere."""
    told = []
    take = MockKubelet.register

    async def listen(self: MockKubelet, request: Any) -> None:
        told.append(request.endpoint)
        await take(self, request)

    monkeypatch.setattr(MockKubelet, "register", listen)
    mock.do("start")
    ours = Plugin(loop, root)
    eventually(lambda: mock.allocatable() == 8)

    assert told == mock.our_sockets()
    assert "/" not in told[0]
    ours.stop()


def test_a_root_without_a_kubelet_is_said_with_the_way_out(loop: Loop, root: Path):
    ours = Plugin(loop, root)
    shutil.rmtree(root / "device-plugins")

    eventually(lambda: "--kubelet-dir" in ours.daemon.unready.get("reconcile", ""))
    ours.stop()


def test_calls_under_way_end_well_when_the_plugin_stops(
    mock: MockedKubelet, loop: Loop, root: Path
):
    mock.do("start")
    ours = Plugin(loop, root)
    eventually(lambda: mock.allocatable() == 8)
    endpoint = ours.daemon.endpoints[GPU]

    async def story() -> list[Any]:
        async with aio.insecure_channel(f"unix:{endpoint.socket}") as channel:
            stub: Any = api_pb2_grpc.DevicePluginStub(channel)
            await channel.channel_ready()
            request = api_pb2.AllocateRequest(
                container_requests=[api_pb2.ContainerAllocateRequest(devices_ids=[ours.uuid(0)])]
            )
            calls = [stub.Allocate(request) for _ in range(50)]
            await calls[0]
            stopping = asyncio.create_task(endpoint.stop())
            answers = await asyncio.gather(*calls, return_exceptions=True)
            await stopping
            return answers

    answers = loop.call(story())

    done = [one for one in answers if isinstance(one, api_pb2.AllocateResponse)]
    refused = [one for one in answers if isinstance(one, aio.AioRpcError)]
    assert done
    assert len(done) + len(refused) == 50
    ours.stop()


def test_an_unknown_id_is_an_error_and_a_repeat_is_not(mock: MockedKubelet, loop: Loop, root: Path):
    mock.do("start")
    ours = Plugin(loop, root)
    eventually(lambda: mock.allocatable() == 8)

    async def ask(*ids: str) -> Any:
        socket = ours.daemon.endpoints[GPU].socket
        async with aio.insecure_channel(f"unix:{socket}") as channel:
            stub: Any = api_pb2_grpc.DevicePluginStub(channel)
            containers = [api_pb2.ContainerAllocateRequest(devices_ids=ids)]
            return await stub.Allocate(api_pb2.AllocateRequest(container_requests=containers))

    with pytest.raises(aio.AioRpcError, match="has no device GPU-elsewhere"):
        loop.call(ask("GPU-elsewhere"))
    assert loop.call(ask(ours.uuid(1))) == loop.call(ask(ours.uuid(1)))
    ours.stop()


def test_7_2_nothing_that_a_source_raises_ends_the_process(
    mock: MockedKubelet, loop: Loop, root: Path
):
    mock.do("start")
    ours = Plugin(loop, root)
    eventually(lambda: mock.allocatable() == 8)

    def broken(*_: object) -> Any:
        raise RuntimeError("out of order")

    for name in ("scan", "events", "probe"):
        setattr(ours.source, name, broken)
    eventually(lambda: {"reconcile", "events", "probe"} <= set(ours.daemon.unready), 15)
    mock.do("restart")

    eventually(lambda: mock.allocatable() == 8)
    for name in ("scan", "events", "probe"):
        with contextlib.suppress(AttributeError):
            delattr(ours.source, name)
    eventually(lambda: not ours.daemon.unready)
    ours.stop()


def test_a_folder_whose_path_is_too_long_is_said(loop: Loop, root: Path):
    deep = root / ("d" * 90)
    (deep / "device-plugins").mkdir(parents=True)

    ours = Plugin(loop, deep)

    eventually(lambda: "at most 107" in ours.daemon.unready.get(GPU, ""))
    ours.stop()
