"""Critical errors (XIDs) as NVML reports them, and the GPUs that report none."""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Mapping
from typing import Any

from plugin.devices.base import XidEvent
from plugin.errors import DriverError

NOBODY = 0xFFFFFFFF
NO_XIDS = "the driver reports no XID events of it"


def is_of_a_gpu(nvml: Any, error: Any) -> bool:  # noqa: ANN401
    """Whether an error is of the GPU that was asked; others may be ours, such as lost access."""
    return error.value in (
        nvml.NVML_ERROR_GPU_IS_LOST,
        nvml.NVML_ERROR_GPU_NOT_FOUND,
        nvml.NVML_ERROR_NOT_FOUND,
        nvml.NVML_ERROR_RESET_REQUIRED,
        nvml.NVML_ERROR_CORRUPTED_INFOROM,
        nvml.NVML_ERROR_INSUFFICIENT_POWER,
        nvml.NVML_ERROR_IRQ_ISSUE,
    )


class XidMonitor:
    """The driver's queue of critical errors.

    Attributes
    ----------
    unmonitored
        GPUs whose errors are not reported, with the reason: they are healthy until a probe fails.
    """

    def __init__(self, nvml: Any) -> None:  # noqa: ANN401 - the binding has no types
        self._nvml = nvml
        self._set: Any = None
        self._monitored: set[str] = set()
        self.unmonitored: dict[str, str] = {}

    @property
    def subscribed(self) -> bool:
        """Whether there is a queue to wait at."""
        return self._set is not None

    def subscribe(self, handles: Mapping[str, Any]) -> None:
        """Have every GPU report that does not yet; one that will not is `unmonitored`.

        Raises
        ------
        DriverError
            There is no queue, for a reason that is no property of the GPUs.
        """
        nvml = self._nvml
        if self._set is None:
            try:
                self._set = nvml.nvmlEventSetCreate()
            except nvml.NVMLError as error:
                if error.value in (
                    nvml.NVML_ERROR_NOT_SUPPORTED,
                    nvml.NVML_ERROR_FUNCTION_NOT_FOUND,
                ):
                    self.unmonitored = dict.fromkeys(handles, NO_XIDS)
                    return
                raise DriverError(f"NVML cannot report errors of GPUs: {error}") from error
        for uuid, handle in handles.items():
            if uuid in self._monitored:
                continue
            why = self._register(handle)
            if why is None:
                self._monitored.add(uuid)
                self.unmonitored.pop(uuid, None)
            else:
                self.unmonitored[uuid] = why

    def _register(self, handle: Any) -> str | None:  # noqa: ANN401
        nvml = self._nvml
        wanted = nvml.nvmlEventTypeXidCriticalError
        try:
            # Without this question a mask of nothing would be registered, and nothing reported.
            if not nvml.nvmlDeviceGetSupportedEventTypes(handle) & wanted:
                return NO_XIDS
            nvml.nvmlDeviceRegisterEvents(handle, wanted, self._set)
        except nvml.NVMLError as error:
            if error.value == nvml.NVML_ERROR_NOT_SUPPORTED:
                return NO_XIDS
            return f"{NO_XIDS} ({error})"
        return None

    def wait(self, timeout_s: float, handles: Mapping[str, Any]) -> XidEvent | None:
        """Wait for a critical error.

        Raises
        ------
        DriverError
            The monitor is broken, which does not say that any GPU is; `subscribe` makes a new one.
        """
        nvml = self._nvml
        if self._set is None:
            threading.Event().wait(timeout_s)
            return None
        try:
            data = nvml.nvmlEventSetWait_v2(self._set, int(timeout_s * 1000))
        except nvml.NVMLError as error:
            if error.value == nvml.NVML_ERROR_TIMEOUT:
                return None
            self.close()
            if error.value == nvml.NVML_ERROR_GPU_IS_LOST:
                # One lost GPU ends the wait for all: the others are watched by a new queue.
                threading.Event().wait(timeout_s)
                return None
            raise DriverError(f"NVML cannot report errors of GPUs: {error}") from error
        if data.eventType != nvml.nvmlEventTypeXidCriticalError:
            return None
        return XidEvent(
            xid=int(data.eventData),
            gpu=self._uuid(data.device, handles),
            gi=None if data.gpuInstanceId == NOBODY else int(data.gpuInstanceId),
            ci=None if data.computeInstanceId == NOBODY else int(data.computeInstanceId),
        )

    def _uuid(self, device: Any, handles: Mapping[str, Any]) -> str | None:  # noqa: ANN401
        """Whose error it is; None where nobody can tell.

        A GPU that has just been lost does not answer any more, but its handle is known.
        """
        for uuid, handle in handles.items():
            if _address(handle) == _address(device):
                return uuid
        try:
            return str(self._nvml.nvmlDeviceGetUUID(device))
        except self._nvml.NVMLError:
            return None

    def close(self) -> None:
        """Give the queue back."""
        if self._set is not None:
            with contextlib.suppress(self._nvml.NVMLError):
                self._nvml.nvmlEventSetFree(self._set)
        self._set, self._monitored = None, set()


def _address(handle: Any) -> Any:  # noqa: ANN401
    """What two handles of one GPU have in common: pointers are compared by where they point."""
    return ctypes.cast(handle, ctypes.c_void_p).value if hasattr(handle, "contents") else handle
