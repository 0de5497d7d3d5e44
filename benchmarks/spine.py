"""The main job in numbers: generated clusters, a real one, the command line."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.gaps import cost_gaps, worst_values
from benchmarks.instances import SIZES, Size, explicit_nodes_yaml, half_occupied
from benchmarks.registry import Benchmark, Row
from solver.options import SolveOptions
from solver.result import ObjectiveTerm, SolveResult

ROOT = Path(__file__).resolve().parent.parent
OPENB = ROOT.parent / "shared" / "data" / "traces" / "openb"
SEEDS = (1, 2, 3)
ADMISSION = ("guarantee", "priority")
WITHIN = 0.01
"""Gap that every tier of the large instance has to reach."""

S_PROVED_S = 2.0
M_ADMISSION_S = 10.0
M_LIMIT_S = 30.0
HELP_S = 0.5
CLUSTER_S = 5.0
OPENB_PODS = 300
OPENB_S = 90.0
LOAD_NODES = 1250
LOAD_S = 2.0


def run_spine(size: str | None) -> Iterator[Row]:
    """All measurements, or those of one size."""
    parts = {"S": small, "M": large, "cli": command_line, "openb": openb, "load": load}
    for name, part in parts.items():
        if size in (None, name):
            yield from part()


def small() -> Iterator[Row]:
    """16 nodes: proved on all tiers."""
    for seed in SEEDS:
        instance, result = _solved(SIZES["S"], seed, M_LIMIT_S)
        yield from _phases(instance, result)
        yield Row(
            instance=instance,
            measure="all tiers proved, whole solve",
            value=result.timing.total_s if _open(result) == [] else float("inf"),
            unit="s",
            limit=S_PROVED_S,
            note=_what_is_open(result),
        )


def large() -> Iterator[Row]:
    """128 nodes: admission proved in 10 s, and every tier within 1 % in 30 s."""
    for seed in SEEDS:
        instance, early = _solved(SIZES["M"], seed, M_ADMISSION_S)
        admission = [term for term in _open(early) if term.name in ADMISSION]
        yield Row(
            instance=instance,
            measure=f"admission steps not proved in {M_ADMISSION_S:g} s",
            value=len(admission),
            unit="steps",
            limit=0,
            note=_what_is_open(early),
        )
        instance, result = _solved(SIZES["M"], seed, M_LIMIT_S)
        yield from _phases(instance, result)
        problem = half_occupied(SIZES["M"], seed)
        gaps = {_name(term): term.gap_ratio for term in result.objectives}
        gaps |= cost_gaps(problem, result.objectives, worst_values(problem))
        widest = max(gaps, key=lambda name: gaps[name])
        yield Row(
            instance=instance,
            measure=f"widest gap after {M_LIMIT_S:g} s",
            value=gaps[widest],
            unit="ratio",
            limit=WITHIN,
            note=f"{widest}; {_what_is_open(result)}" if gaps[widest] else "",
        )


def command_line() -> Iterator[Row]:
    """Whole processes, best of three: help, and the tour."""
    yield Row(
        instance="cli.py --help",
        measure="whole process",
        value=min(process_s("--help") for _ in range(3)),
        unit="s",
        limit=HELP_S,
    )
    solve = ("solve", str(ROOT / "specs" / "cluster.yaml"))
    yield Row(
        instance="solve specs/cluster.yaml",
        measure="whole process, proved optimal",
        value=min(process_s(*solve, expect=": optimal") for _ in range(3)),
        unit="s",
        limit=CLUSTER_S,
    )


def openb() -> Iterator[Row]:
    """A published cluster with 1,213 nodes: every policy's row, cp-sat never worse."""
    from commands.policies import all_policies
    from solver.api import solve
    from solver.tiers import Ruler
    from specs.compile import compile_spec
    from specs.loader import load_spec

    instance = f"openb, {OPENB_PODS} pods"
    if not OPENB.exists():
        yield Row(
            instance=instance, measure="compare", value=None, unit="s", note="no trace data here"
        )
        return
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        spec = Path(folder) / "openb.yaml"
        process_s(
            *("import", "openb", "--limit", str(OPENB_PODS), "--save", str(spec)),
            *("--nodes", str(OPENB / "openb_node_list_gpu_node.csv")),
            *("--pods", str(OPENB / "openb_pod_list_default.csv")),
        )
        compiled = compile_spec(load_spec(spec))
    ruler = Ruler(compiled.problem)
    keys = {}
    for policy in all_policies():
        result = solve(compiled.problem, compiled.options, policy)
        keys[policy] = ruler.key(result.plan)
        if policy == "cp-sat":
            yield from _phases(instance, result)
    ours = keys["cp-sat"]
    yield Row(
        instance=instance,
        measure="import and compare",
        value=time.monotonic() - began,
        unit="s",
        limit=OPENB_S,
        note=_what_is_open(result),
    )
    yield Row(
        instance=instance,
        measure="policies better than cp-sat",
        value=sum(key > ours for key in keys.values()),
        unit="rows",
        limit=0,
        note=f"of {len(keys)} rows",
    )


def load() -> Iterator[Row]:
    """Reading a large spec: text to problem."""
    from specs.compile import compile_spec
    from specs.loader import parse_spec

    text = explicit_nodes_yaml(LOAD_NODES)
    began = time.monotonic()
    compiled = compile_spec(parse_spec(text))
    took_s = time.monotonic() - began
    yield Row(
        instance=f"YAML of {len(compiled.problem.nodes):,} nodes",
        measure="load and compile",
        value=took_s,
        unit="s",
        limit=LOAD_S,
        note=f"{len(text) // 1024} KiB",
    )


def _solved(size: Size, seed: int, limit_s: float) -> tuple[str, SolveResult]:
    import ortools.sat.python.cp_model  # noqa: F401 - loaded once, before the clock starts

    from solver.api import solve

    problem = half_occupied(size, seed)
    result = solve(problem, SolveOptions(time_limit_s=limit_s))
    return f"{size.name}: {size.nodes} nodes, seed {seed}", result


def _phases(instance: str, result: SolveResult) -> Iterator[Row]:
    timing = result.timing
    for measure, value in (
        ("build", timing.build_s),
        ("solve", timing.solve_s),
        ("verify", timing.verify_s),
        ("all", timing.total_s),
    ):
        yield Row(instance=instance, measure=measure, value=value, unit="s")


def _open(result: SolveResult) -> list[ObjectiveTerm]:
    return [term for term in result.objectives if term.value != term.bound]


def _name(term: ObjectiveTerm) -> str:
    tier = term.name if term.level is None else f"{term.name} {term.level}"
    return f"{tier} {term.step}"


def _what_is_open(result: SolveResult) -> str:
    terms = _open(result)
    shown = ", ".join(f"{_name(t)} {t.value:g} of {t.bound:g}" for t in terms[:3])
    more = f" and {len(terms) - 3} more" if len(terms) > 3 else ""
    return f"open: {shown}{more}" if terms else ""


def process_s(*words: str, expect: str = "") -> float:
    """Seconds of a whole process; infinite where its output lacks `expect`."""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, str(ROOT / "cli.py"), *words], capture_output=True, text=True, check=True
    )
    took_s = time.monotonic() - began
    return took_s if expect in done.stdout else float("inf")


SPINE = Benchmark(
    name="spine",
    text="generated clusters of 16 and 128 nodes, the openb cluster, the command line",
    sizes=("S", "M", "cli", "openb", "load"),
    run=run_spine,
)
