"""How fast the device plugin answers a kubelet, how soon it is there, and how much memory it takes.

The plugin runs as a process of its own, as on a node; the callers are in this one.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.registry import Benchmark, Row

if TYPE_CHECKING:
    from plugin.mock_kubelet.manager import MockKubelet

CALLERS = 10
CALLS = 300
"""By each caller."""

LIMIT_S = 0.005
START_LIMIT_S = 1.0
MEMORY_LIMIT_MIB = 80.0
REPLICAS = (1, 100)
STARTS = 5


def run_plugin(size: str | None) -> Iterator[Row]:
    """Rows for 8 GPUs, whole and in a hundred shares each."""
    for replicas in REPLICAS:
        if size in (None, str(replicas)):
            yield from asyncio.run(_measured(replicas))


async def _measured(replicas: int) -> list[Row]:
    from plugin.mock_kubelet.manager import MockKubelet

    name = f"8 GPUs x {replicas}"
    with tempfile.TemporaryDirectory(prefix="ub", dir="/tmp") as folder:
        root = Path(folder)
        kubelet = MockKubelet(folder=root / "device-plugins")
        await kubelet.start()
        took = []
        for _ in range(STARTS - 1):
            seconds, process = await _start(root, kubelet, replicas)
            took.append(seconds)
            await _stop(process)
        seconds, process = await _start(root, kubelet, replicas)
        took = sorted([*took, seconds])
        (socket,) = (root / "device-plugins").glob("unstrand_*.sock")
        rows = []
        for call in ("GetPreferredAllocation", "Allocate"):
            for callers in (1, CALLERS):
                before_s = _cpu_s(process.pid)
                p50, p99 = await _call(socket, call, callers)
                cpu_ms = 1000 * (_cpu_s(process.pid) - before_s) / (CALLS * callers)
                rows.append(
                    Row(
                        instance=name,
                        measure=f"{call}, {callers} at once, p99",
                        value=p99,
                        unit="s",
                        limit=LIMIT_S,
                        note=f"p50 {p50 * 1000:.2f} ms; {cpu_ms:.2f} ms of the plugin's CPU each",
                    )
                )
        memory = _resident_mib(process.pid)
        await _stop(process)
        await kubelet.stop()
    note = f"slowest of {STARTS} {took[-1]:.2f} s"
    rows.append(
        Row(
            instance=name,
            measure="start of the process to registered",
            value=took[len(took) // 2],
            unit="s",
            limit=START_LIMIT_S,
            note=note,
        )
    )
    rows.append(
        Row(
            instance=name,
            measure="resident memory",
            value=memory,
            unit="MiB",
            limit=MEMORY_LIMIT_MIB,
        )
    )
    return rows


async def _start(
    root: Path,
    kubelet: MockKubelet,
    replicas: int,
) -> tuple[float, subprocess.Popen[bytes]]:
    """Start the plugin; seconds until the kubelet has all its devices."""
    config = root / "config.yaml"
    entry = {"name": "nvidia.com/gpu", "replicas": replicas}
    shared = {"sharing": {"timeSlicing": {"resources": [entry]}}} if replicas > 1 else {}
    config.write_text(json.dumps({"version": "v1", **shared}))
    began = time.monotonic()
    process = subprocess.Popen(
        [
            sys.executable,
            "cli.py",
            *("plugin", "serve", "--fake", "hgx-h100", "--config-file", str(config)),
            *("--kubelet-dir", str(root), "--cdi-dir", str(root / "cdi")),
        ],
        stderr=subprocess.DEVNULL,
    )
    while kubelet.books.capacity(0)[1].get("nvidia.com/gpu", 0) != 8 * replicas:
        await asyncio.sleep(0.002)
    return time.monotonic() - began, process


async def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    await asyncio.to_thread(process.wait, 10)
    await asyncio.sleep(0.1)  # until the kubelet has seen the end of the stream


async def _call(socket: Path, call: str, callers: int) -> tuple[float, float]:
    """Median and 99th percentile of a call."""
    from grpc import aio

    from plugin.proto.deviceplugin.v1beta1 import api_pb2, api_pb2_grpc

    async with aio.insecure_channel(f"unix:{socket}") as channel:
        stub: Any = api_pb2_grpc.DevicePluginStub(channel)
        stream = stub.ListAndWatch(api_pb2.Empty())
        ids = [device.ID for device in (await stream.read()).devices]
        stream.cancel()
        # As bytes: what the kubelet takes to write a request is not the plugin's time.
        chance = random.Random(callers)
        wires = [[_request(call, ids, chance) for _ in range(CALLS)] for _ in range(callers)]
        ask: Any = channel.unary_unary(f"/v1beta1.DevicePlugin/{call}")
        await ask(_request(call, ids, chance))

        async def caller(mine: list[bytes]) -> list[float]:
            took = []
            for wire in mine:
                began = time.perf_counter()
                await ask(wire)
                took.append(time.perf_counter() - began)
            return took

        parts = await asyncio.gather(*(caller(mine) for mine in wires))
    took = sorted(one for part in parts for one in part)
    return took[len(took) // 2], took[int(len(took) * 0.99)]


def _request(call: str, ids: list[str], chance: random.Random) -> bytes:
    """A request as a filling node makes it: other devices free and another size each time."""
    from plugin.proto.deviceplugin.v1beta1 import api_pb2

    free = chance.sample(ids, chance.randint(max(2, len(ids) // 2), len(ids)))
    size = chance.randint(1, min(4, len(free)))
    if call == "Allocate":
        one = api_pb2.ContainerAllocateRequest(devices_ids=free[:size])
        return bytes(api_pb2.AllocateRequest(container_requests=[one]).SerializeToString())
    asked = api_pb2.ContainerPreferredAllocationRequest(
        available_deviceIDs=free,
        must_include_deviceIDs=free[: chance.choice((0, 0, 1))],  # of an init container
        allocation_size=size,
    )
    request = api_pb2.PreferredAllocationRequest(container_requests=[asked])
    return bytes(request.SerializeToString())


def _cpu_s(pid: int) -> float:
    """CPU time of a process so far."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def _resident_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024


PLUGIN = Benchmark(
    name="plugin",
    text="the device plugin: answers to the kubelet, start, memory",
    sizes=tuple(str(replicas) for replicas in REPLICAS),
    run=run_plugin,
)
