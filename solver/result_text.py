"""Amounts in a sentence, as reasons and fixes say them."""

from __future__ import annotations

from solver.cluster import GPU_MILLI
from solver.workload import ResourceName


def counted(count: float, noun: str) -> str:
    """A number with its noun.

    Examples
    --------
    >>> counted(1, "GPU"), counted(0.5, "GPU"), counted(8.0, "GPU"), counted(2, "node")
    ('1 GPU', '0.5 GPUs', '8 GPUs', '2 nodes')
    """
    return f"{count:.10g} {noun if count == 1 else noun + 's'}"


def amount_text(resource: ResourceName, amount: int) -> str:
    """An amount with its unit.

    Examples
    --------
    >>> (
    ...     amount_text("gpu_milli", 8000),
    ...     amount_text("cpu_milli", 1500),
    ...     amount_text("memory_mib", 512),
    ... )
    ('8 GPUs', '1.5 CPU', '0.5 GiB')
    """
    if resource == "gpu_milli":
        return counted(amount / GPU_MILLI, "GPU")
    return f"{amount / 1000:g} CPU" if resource == "cpu_milli" else f"{amount / 1024:g} GiB"
