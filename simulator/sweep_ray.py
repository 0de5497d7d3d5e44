"""The same sweep on a Ray cluster (``pip install 'unstrand[ray]'``)."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from simulator.sweep import (
    ATTEMPTS,
    Failures,
    LostWorkerError,
    Result,
    Sweep,
    failed,
    run_cell,
)

ROOT = Path(__file__).resolve().parents[1]


CONNECT_S = 5.0
"""How long the head of a cluster may take until it listens."""

ANSWER_S = 30.0
"""How long it may take until it has answered. Ray itself tries for minutes, and cannot be stopped
meanwhile."""

PROBE = "import ray, sys; ray.init(sys.argv[1], log_to_driver=False, logging_level='ERROR')"
"""What a process of its own tries first."""

CLIENT_PORT = 10001
"""Where ``ray://HOST`` listens unless a port is said."""


class MissingRayError(ImportError):
    """Ray is not installed."""


class UnreachableRayError(ConnectionError):
    """No Ray cluster answers at the address."""

    def __init__(self, address: str, why: str) -> None:
        super().__init__(f"no Ray cluster answers at {address}: {why}")


def run_ray(sweep: Sweep, address: str | None, workers: int) -> Iterator[Result]:
    """Several runs at once; results come as they are finished.

    Parameters
    ----------
    address
        The head of a cluster (``HOST:PORT``, ``ray://…`` or ``auto``); None starts a local one with
        so many workers and ends it again.

    Raises
    ------
    MissingRayError
        Ray is not installed.
    UnreachableRayError
        No cluster answers at the address.
    FailedRunError
        A run went wrong; the others were made before that is said.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError as error:
        text = "the ray engine needs Ray: pip install 'unstrand[ray]'"
        raise MissingRayError(text) from error

    if address is None:
        _import_here()
        ray.init(
            address="local",  # whatever else of Ray runs, or did, on this machine
            num_cpus=workers,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    else:
        _knock(address)
        _ask(address)
        ray.init(
            address=address,
            log_to_driver=False,
            logging_level=logging.ERROR,
            runtime_env={"env_vars": {"PYTHONPATH": str(ROOT)}},
        )
    try:
        remote = ray.remote(max_retries=ATTEMPTS)(run_cell)
        shared = ray.put(sweep)
        queue = iter(sweep.in_turn)
        limit = 2 * max(workers, int(ray.cluster_resources().get("CPU", 1)))  # type: ignore[no-untyped-call]
        failures = Failures()
        cells = {remote.remote(shared, cell): cell for cell in islice(queue, limit)}
        while cells:
            done, _ = ray.wait(list(cells))
            for finished in done:
                cell = cells.pop(finished)
                try:
                    result = ray.get(finished)
                except ray.exceptions.RayTaskError as error:
                    failures.add(error.cause)
                except ray.exceptions.RayError as error:
                    why = LostWorkerError(" ".join(str(error).split()))
                    failures.add(failed(cell, why))
                else:
                    yield result
            cells |= {remote.remote(shared, cell): cell for cell in islice(queue, len(done))}
        failures.tell()
    finally:
        ray.shutdown()


def _import_here() -> None:
    """Let the workers of a local cluster import this checkout (or installation).

    They inherit the environment. A ``runtime_env`` would do too, but then Ray ends the workers that
    it has started already and starts others: some seconds.
    """
    others = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = f"{ROOT}{os.pathsep}{others}" if others else str(ROOT)


def _knock(address: str) -> None:
    """Find out at once whether anybody listens."""
    if address == "auto":
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host:
        host, port = port, str(CLIENT_PORT)
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_S).close()
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UnreachableRayError(address, why) from error


def _ask(address: str) -> None:
    """Find out soon whether it is a Ray cluster that listens."""
    words = [sys.executable, "-c", PROBE, address]
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=ANSWER_S
        )
    except subprocess.TimeoutExpired as error:
        raise UnreachableRayError(address, f"not in {ANSWER_S:.0f} s") from error
    if done.returncode:
        *_, why = ["it fails", *done.stderr.strip().splitlines()]
        raise UnreachableRayError(address, why)
