"""Published workloads offered at once: the plan that is found, what is proved, and how soon."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.registry import Benchmark, Row
from benchmarks.spine import OPENB, ROOT, process_s
from specs.importers.openb import OpenbPod, read_pods

ALL_MILLI = 6_212_000
LIMIT_S = 30.0
SEARCH = "12s"
"""Time limit of the search; reading, checking and explaining 8,152 jobs come on top."""


WORKLOADS: Mapping[str, int | None] = {
    "default": 5_999_610,
    "cpu100": 5_999_610,
    "multigpu20": 6_177_800,
    "gpushare60": None,
    "gpushare100": None,
    "cpu250": 5_999_610,
}
"""Lists, and the optimum in GPU-milli that is known for each; None where everything starts.

They are shown beside what is found and do not enter a solve.
"""


def run_openb_ceiling(size: str | None) -> Iterator[Row]:
    """One process for each list."""
    for workload, known in WORKLOADS.items():
        if size not in (None, workload):
            continue
        instance = f"openb, {workload}"
        if not OPENB.exists():
            yield Row(
                instance=instance, measure="plan", value=None, unit="milli", note="no trace data"
            )
            continue
        path = _pods_of(workload)
        answer, took_s, used_s = _solved(path)
        yield from _rows(instance, known, read_pods(path), answer)
        yield Row(
            instance=instance,
            measure="solve, whole process",
            value=took_s,
            unit="s",
            limit=LIMIT_S,
            note=f"{answer['model']} model; {used_s:.1f} s of CPU",
        )


def _pods_of(workload: str) -> Path:
    pods = OPENB / f"openb_pod_list_{workload}.csv"
    return pods if pods.exists() else pods.with_suffix(".csv.gz")


def _solved(pods: Path) -> tuple[Mapping[str, Any], float, float]:
    """The answer, seconds of the whole process, and seconds of CPU that it used."""
    with tempfile.TemporaryDirectory() as folder:
        spec = Path(folder) / "openb.yaml"
        process_s(
            *("import", "openb", "--save", str(spec)),
            *("--nodes", str(OPENB / "openb_node_list_gpu_node.csv")),
            *("--pods", str(pods)),
        )
        began, before_s = time.monotonic(), _used_s()
        done = subprocess.run(
            (
                *(sys.executable, str(ROOT / "cli.py"), "solve", str(spec)),
                *("--time-limit", SEARCH, "--output", "json"),
            ),
            capture_output=True,
            text=True,
            check=True,
        )
        return json.loads(done.stdout), time.monotonic() - began, _used_s() - before_s


def _used_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _rows(
    instance: str, known: int | None, pods: Sequence[OpenbPod], answer: Mapping[str, Any]
) -> Iterator[Row]:
    steps = {step["step"]: step for step in answer["objectives"]}
    value, bound = steps["started"]["value"], steps["started"]["bound"]
    wanted = sum(pod.gpus * pod.gpu_milli for pod in pods)
    optimum = wanted if known is None else known
    yield Row(
        instance=instance,
        measure="plan: below the known optimum",
        value=optimum - value,
        unit="milli-GPU",
        limit=0,
        note=f"{value:,} milli, {100 * value / ALL_MILLI:.4f} %; known {optimum:,} of {wanted:,}",
    )
    yield Row(
        instance=instance,
        measure="plan: below the bound that is proved",
        value=bound - value,
        unit="milli-GPU",
        limit=0,
        note=f"bound {bound:,}",
    )
    value, bound = steps["cpu-only"]["value"], steps["cpu-only"]["bound"]
    wanted = sum(pod.cpu_milli for pod in pods if not pod.gpus)
    yield Row(
        instance=instance,
        measure="CPU-only pods left out that may have a place",
        value=0 if bound < wanted else wanted - value,
        unit="milli-CPU",
        limit=0,
        note=f"{value:,} of {wanted:,} placed"
        + (f"; proved: no more than {bound:,}" if bound < wanted else ""),
    )


OPENB_CEILING = Benchmark(
    name="openb-ceiling",
    text="all pods of a list of the openb trace offered at once, against the known optimum",
    sizes=tuple(WORKLOADS),
    run=run_openb_ceiling,
)
