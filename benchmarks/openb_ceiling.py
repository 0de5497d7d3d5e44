"""A published workload offered at once: how near plan and bound are to the optimum."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.registry import Benchmark, Row
from benchmarks.spine import OPENB, process_s

OPTIMUM_MILLI = 5_999_610
"""What device patterns prove for the ``default`` list, in demand of the file."""

ALL_MILLI = 6_212_000
WITHIN_POINTS = 0.2
LIMIT_S = 60.0


def run_openb_ceiling(_size: str | None) -> Iterator[Row]:
    """One solve with a minute."""
    from dataclasses import replace

    from solver.api import solve
    from specs.compile import compile_spec
    from specs.loader import load_spec

    instance = "openb, default"
    if not OPENB.exists():
        yield Row(
            instance=instance, measure="admitted", value=None, unit="%", note="no trace data here"
        )
        return
    with tempfile.TemporaryDirectory() as folder:
        spec = Path(folder) / "openb.yaml"
        process_s(
            *("import", "openb", "--save", str(spec)),
            *("--nodes", str(OPENB / "openb_node_list_gpu_node.csv")),
            *("--pods", str(OPENB / "openb_pod_list_default.csv")),
        )
        compiled = compile_spec(load_spec(spec))
    began = time.monotonic()
    options = replace(compiled.options, time_limit_s=LIMIT_S * 0.8)
    result = solve(compiled.problem, options)
    took_s = time.monotonic() - began
    started = [(t.value, t.bound) for t in result.objectives if t.step == "started"]
    value, bound = (sum(pair) for pair in zip(*started, strict=True))
    optimum = 100 * OPTIMUM_MILLI / ALL_MILLI
    for measure, found in (("plan", value), ("bound", bound)):
        share = 100 * found / ALL_MILLI
        yield Row(
            instance=instance,
            measure=f"{measure}: points from the optimum",
            value=abs(share - optimum),
            unit="points",
            limit=WITHIN_POINTS,
            note=f"{found:,.0f} milli, {share:.4f} %; the optimum is {optimum:.4f} %",
        )
    yield Row(instance=instance, measure="solve", value=took_s, unit="s", limit=LIMIT_S,
              note=f"{result.model} model")  # fmt: skip


OPENB_CEILING = Benchmark(
    name="openb-ceiling",
    text="all pods of the openb trace offered at once, against the known optimum",
    sizes=("default",),
    run=run_openb_ceiling,
)
