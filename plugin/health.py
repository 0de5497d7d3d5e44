"""Health of GPUs and instances: who fails, and when they are trusted again. Pure; time comes in.

A failure puts its target to `unhealthy`. After a hold-down in which every probe of the GPU found it
well, the target is healthy again. Each failure within an hour of the one before doubles the
hold-down, and a target that fails too often within an hour stays out until that hour is over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from plugin.devices.base import NodeDevices, XidEvent
from plugin.resources import Resource
from plugin.xids import XidAction, XidPolicy, reason

WHOLE_GPU = 0xFFFFFFFF
"""The driver's number for "no instance": the event is about the whole GPU."""

Target = tuple[str, int | None, int | None]
"""GPU, GPU instance, compute instance; None for all of them."""


@dataclass(slots=True)
class _Failure:
    why: str
    since_s: float
    well_since_s: float | None = None
    times_s: list[float] = field(default_factory=list)
    over: bool = False


@dataclass(slots=True)
class HealthBook:
    """What is known to be wrong on this node.

    Parameters
    ----------
    hold_down_s
        How long probes must find a GPU well after a failure.
    flap_window_s, flap_limit
        A target with so many failures in the window is out until the window has passed.
    """

    policy: XidPolicy = field(default_factory=XidPolicy)
    hold_down_s: float = 30.0
    flap_window_s: float = 3600.0
    flap_limit: int = 5
    _failures: dict[Target, _Failure] = field(default_factory=dict)
    _unreachable: dict[str, str] = field(default_factory=dict)

    def observe(self, event: XidEvent, gpus: Iterable[str], now_s: float) -> XidAction:
        """Take an error of the driver; one without a GPU is about all of them."""
        action = self.policy.action(event.xid)
        if action is XidAction.UNHEALTHY:
            for gpu in (event.gpu,) if event.gpu is not None else tuple(gpus):
                whole = event.gi in (None, WHOLE_GPU)
                gi = None if whole else event.gi
                ci = None if whole or event.ci == WHOLE_GPU else event.ci
                self._fail((gpu, gi, ci), reason(event.xid), now_s)
        return action

    def _fail(self, target: Target, why: str, now_s: float) -> None:
        failure = self._failures.get(target)
        if failure is None:
            failure = self._failures[target] = _Failure(why, now_s)
        recent = [at for at in failure.times_s if now_s - at < self.flap_window_s]
        failure.why, failure.since_s, failure.over = why, now_s, False
        failure.well_since_s, failure.times_s = None, [*recent, now_s]

    def probed(self, gpu: str, trouble: str | None, now_s: float) -> None:
        """Take the result of a probe: what is wrong with the GPU, or None."""
        if trouble is not None:
            if gpu not in self._unreachable:
                self._fail((gpu, None, None), trouble, now_s)
            self._unreachable[gpu] = trouble
        else:
            self._unreachable.pop(gpu, None)
        for target, failure in self._failures.items():
            if target[0] != gpu or failure.over:
                continue
            if trouble is not None:
                failure.well_since_s = None
                continue
            if failure.well_since_s is None:
                failure.well_since_s = now_s
            failure.over = now_s - failure.well_since_s >= self._hold_down_s(failure, now_s)

    def unseen(self, gpu: str) -> None:
        """Take it that a GPU could not be probed: it is not known to be well, nor to be ill."""
        for target, failure in self._failures.items():
            if target[0] == gpu:
                failure.well_since_s = None

    def _hold_down_s(self, failure: _Failure, now_s: float) -> float:
        recent = [at for at in failure.times_s if now_s - at < self.flap_window_s]
        if len(recent) >= self.flap_limit:
            return float("inf")
        return float(self.hold_down_s * 2 ** max(len(recent) - 1, 0))

    def reset(self, gpu: str) -> None:
        """Forget a GPU: it was reset, or cut anew."""
        self._failures = {t: f for t, f in self._failures.items() if t[0] != gpu}
        self._unreachable.pop(gpu, None)

    def why(self, gpu: str, gi: int | None = None, ci: int | None = None) -> str | None:
        """What is wrong with a GPU or an instance of it; None for a healthy one."""
        if gpu in self._unreachable:
            return self._unreachable[gpu]
        for (failed, failed_gi, failed_ci), failure in self._failures.items():
            if failure.over or failed != gpu:
                continue
            # Without an instance asked for, any failed part makes the whole unfit to be given out.
            if gi is None or failed_gi is None or (failed_gi == gi and failed_ci in (None, ci)):
                return failure.why
        return None

    def sick(self, resource: Resource) -> Iterator[str]:
        """Advertised IDs of a resource that are unhealthy: every share of each failed device."""
        for ids, device in zip(resource.ids, resource.devices, strict=True):
            gi, ci = (device.instance.gi, device.instance.ci) if device.instance else (None, None)
            if device.gpu.fault is not None or self.why(device.gpu.uuid, gi, ci) is not None:
                yield from ids

    def troubles(self, node: NodeDevices) -> dict[str, str]:
        """What is wrong, by UUID of the GPU; those in order are left out."""
        found = {gpu.uuid: gpu.fault or self.why(gpu.uuid) for gpu in node.gpus}
        return {uuid: why for uuid, why in found.items() if why}

    @property
    def suspects(self) -> frozenset[str]:
        """GPUs that failed and are not trusted again yet."""
        failed = {target[0] for target, failure in self._failures.items() if not failure.over}
        return frozenset(failed | set(self._unreachable))
