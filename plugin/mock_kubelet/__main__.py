"""The mock kubelet over JSON lines, with the same commands as the Go program of the tests.

``python -m plugin.mock_kubelet FOLDER [--duplicates by-path]``: each line on standard input is a
command ``{"op": "start"}``, each line on standard output its result or error.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import grpc

from plugin.mock_kubelet.books import AdmissionError
from plugin.mock_kubelet.checkpoint import CHECKPOINT
from plugin.mock_kubelet.manager import MockKubelet
from plugin.mock_kubelet.pods import Container, Pod
from plugin.mock_kubelet.registrations import Duplicates


def pod_of(data: Mapping[str, Any]) -> Pod:
    """A pod as the commands write it."""

    def containers(key: str) -> tuple[Container, ...]:
        return tuple(
            Container(name=one["name"], limits=dict(one["limits"])) for one in data.get(key) or ()
        )

    return Pod(
        uid=data["uid"],
        containers=containers("containers"),
        init_containers=containers("init_containers"),
    )


async def do(kubelet: MockKubelet, command: Mapping[str, Any]) -> Any:  # noqa: ANN401
    """Carry one command out."""
    uid = command.get("uid", "")
    match command["op"]:
        case "start" | "stop" | "restart" | "drop_streams" as name:
            await getattr(kubelet, name)()
        case "capacity":
            capacity, allocatable, removed = kubelet.books.capacity(kubelet.clock())
            return {"capacity": capacity, "allocatable": allocatable, "removed": removed}
        case "admit":
            return await kubelet.admit(pod_of(command["pod"]))
        case "remove_pod":
            kubelet.remove_pod(uid)
        case "devices":
            return kubelet.devices(uid)
        case "run_options":
            return await kubelet.run_options(uid)
        case "health":
            return kubelet.health(uid)
        case "sockets":
            return sorted(path.name for path in kubelet.folder.glob("*.sock"))
        case "checkpoint":
            return json.loads((kubelet.folder / CHECKPOINT).read_text(encoding="utf-8"))
        case "wipe_checkpoint":
            (kubelet.folder / CHECKPOINT).unlink()
        case other:
            raise ValueError(f"there is no op {other!r}")
    return None


async def serve(kubelet: MockKubelet) -> None:
    """Answer commands until standard input ends."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        try:
            answer: dict[str, Any] = {"result": await do(kubelet, json.loads(line))}
        except (AdmissionError, ValueError, KeyError, OSError, grpc.RpcError) as error:
            answer = {"error": str(error)}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def main() -> None:
    """Read the options, serve."""
    options = argparse.ArgumentParser(prog="python -m plugin.mock_kubelet")
    options.add_argument("folder", type=Path)
    options.add_argument("--duplicates", type=Duplicates, default=Duplicates.BY_NAME)
    options.add_argument("--pod-resources", type=Path, default=None)
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    kubelet = MockKubelet(
        folder=given.folder,
        duplicates=given.duplicates,
        seed=given.seed,
        pod_resources=given.pod_resources,
    )
    asyncio.run(serve(kubelet))


if __name__ == "__main__":
    main()
