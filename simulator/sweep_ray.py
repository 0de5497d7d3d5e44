"""The same sweep on a Ray cluster (``pip install 'unstrand[ray]'``)."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from simulator.sweep import ATTEMPTS, Result, Sweep, run_cell

ROOT = Path(__file__).resolve().parents[1]


class MissingRayError(ImportError):
    """Ray is not installed."""


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
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError as error:
        text = "the ray engine needs Ray: pip install 'unstrand[ray]'"
        raise MissingRayError(text) from error

    # Workers import this checkout (or installation), wherever they were started.
    environment = {"env_vars": {"PYTHONPATH": str(ROOT)}}
    if address is None:
        ray.init(
            num_cpus=workers,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            runtime_env=environment,
        )
    else:
        ray.init(
            address=address,
            log_to_driver=False,
            logging_level=logging.ERROR,
            runtime_env=environment,
        )
    try:
        remote = ray.remote(max_retries=ATTEMPTS)(run_cell)
        shared = ray.put(sweep)
        queue = iter(sweep.in_turn)
        limit = 2 * max(workers, int(ray.cluster_resources().get("CPU", 1)))  # type: ignore[no-untyped-call]
        waiting = [remote.remote(shared, cell) for cell in islice(queue, limit)]
        while waiting:
            done, waiting = ray.wait(waiting)
            for finished in done:
                yield ray.get(finished)
            waiting += [remote.remote(shared, cell) for cell in islice(queue, len(done))]
    finally:
        ray.shutdown()
