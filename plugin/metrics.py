"""Counters and gauges of the plugin, in one registry of its own."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

CALL_BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5)


class Metrics:
    """What an operator watches: devices by health, registrations, calls, errors."""

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()
        self.devices = Gauge(
            "unstrand_plugin_devices",
            "Advertised devices by resource and health",
            ["resource", "health"],
            registry=registry,
        )
        self.registrations = Counter(
            "unstrand_plugin_registrations",
            "Registrations with the kubelet by outcome",
            ["resource", "outcome"],
            registry=registry,
        )
        self.xids = Counter(
            "unstrand_plugin_xids",
            "Critical errors reported by the driver",
            ["xid", "action"],
            registry=registry,
        )
        self.troubles = Counter(
            "unstrand_plugin_troubles",
            "Errors that were survived, by what failed",
            ["what"],
            registry=registry,
        )
        self.double_uses = Gauge(
            "unstrand_plugin_double_uses", "GPUs that pods use twice", registry=registry
        )
        self.unmonitored = Gauge(
            "unstrand_plugin_unmonitored_gpus",
            "GPUs whose critical errors the driver does not report",
            registry=registry,
        )
        self._exposed = Gauge(
            "unstrand_plugin_environment_accepted",
            "1 if unprivileged containers may name GPUs themselves, NaN if not known",
            registry=registry,
        )
        self._exposed.set(math.nan)
        self.ready = Gauge("unstrand_plugin_ready", "1 if all is registered", registry=registry)
        self._calls = Histogram(
            "unstrand_plugin_call_seconds",
            "Time to answer the kubelet",
            ["resource", "call", "outcome"],
            buckets=CALL_BUCKETS_S,
            registry=registry,
        )

    def call(self, resource: str, name: str, began: float, *, ok: bool) -> None:
        """Count a call that began at `began` (of ``time.perf_counter``)."""
        outcome = "ok" if ok else "refused"
        self._calls.labels(resource, name, outcome).observe(time.perf_counter() - began)

    def exposed(self, accepted: bool | None) -> None:
        """Say whether the runtime believes what unprivileged containers ask for."""
        self._exposed.set(math.nan if accepted is None else accepted)

    def health(self, resource: str, counts: Mapping[str, int]) -> None:
        """Set the devices of a resource by health."""
        for health, count in counts.items():
            self.devices.labels(resource, health).set(count)

    def text(self) -> bytes:
        """All values in the text format of Prometheus."""
        return generate_latest(self.registry)
