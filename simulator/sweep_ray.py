"""The same sweep on a Ray cluster (``pip install 'unstrand[ray]'``)."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from simulator.sweep import ATTEMPTS, Result, Sweep, run_cell

ROOT = Path(__file__).resolve().parents[1]


CONNECT_S = 5.0
"""How long the head of a cluster may take to answer."""

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
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    os.environ.setdefault("RAY_NUM_REDIS_GET_RETRIES", str(round(CONNECT_S)))  # one a second
    try:
        import ray
    except ImportError as error:
        text = "the ray engine needs Ray: pip install 'unstrand[ray]'"
        raise MissingRayError(text) from error

    # Workers import this checkout (or installation), wherever they were started.
    environment = {"env_vars": {"PYTHONPATH": str(ROOT)}}
    if address is None:
        ray.init(
            address="local",  # whatever else of Ray runs, or did, on this machine
            num_cpus=workers,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            runtime_env=environment,
        )
    else:
        _knock(address)
        try:
            ray.init(
                address=address,
                log_to_driver=False,
                logging_level=logging.ERROR,
                runtime_env=environment,
            )
        except (ConnectionError, TimeoutError) as error:
            raise UnreachableRayError(address, str(error)) from error
    try:
        remote = ray.remote(max_retries=ATTEMPTS)(run_cell)
        shared = ray.put(sweep)
        queue = iter(sweep.in_turn)
        limit = 2 * max(workers, int(ray.cluster_resources().get("CPU", 1)))  # type: ignore[no-untyped-call]
        waiting = [remote.remote(shared, cell) for cell in islice(queue, limit)]
        while waiting:
            done, waiting = ray.wait(waiting)
            for finished in done:
                try:
                    yield ray.get(finished)
                except ray.exceptions.RayTaskError as error:
                    raise error.cause from error
            waiting += [remote.remote(shared, cell) for cell in islice(queue, len(done))]
    finally:
        ray.shutdown()


def _knock(address: str) -> None:
    """Find out soon whether anybody listens: Ray itself tries for minutes."""
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
