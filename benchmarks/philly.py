"""``run philly``: queueing values of Philly's virtual clusters, ours beside checked ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.registry import Benchmark, Row
from simulator.outcome import Summary
from simulator.run import simulate
from simulator.traces.philly import read_philly

PHILLY = Path(__file__).resolve().parents[2] / "shared" / "data" / "traces" / "philly"
SINCE, UNTIL = "2017-10-01", "2017-11-15"

NODES: Mapping[str, int] = {"11cb48": 16, "2869ce": 16, "0e4a51": 16, "7f04ca": 12, "ee9e8c": 24}

CHECKED: Mapping[tuple[str, str], str] = {
    ("11cb48", "fifo-strict"): "322.97 0 0 14955 25301 0.09479",
    ("11cb48", "sjf"): "253.82 0 0 12811 25323 0.09479",
    ("2869ce", "fifo-strict"): "12918.36 0 65884 92700 101822 0.40859",
    ("2869ce", "fifo-skip"): "4898.74 0 20 92700 101822 0.40859",
    ("2869ce", "sjf"): "4816.11 0 0 100652 102672 0.40859",
    ("0e4a51", "fifo-strict"): "25760.54 0 76501 279022 311101 0.49668",
    ("0e4a51", "fifo-skip"): "18221.80 0 39156 279022 311101 0.49668",
    ("0e4a51", "sjf"): "17099.48 0 39541 274528 310953 0.49668",
    ("7f04ca", "fifo-strict"): "236258.37 237976 452620 532797 546940 0.83065",
    ("7f04ca", "fifo-skip"): "185728.76 160817 421779 528967 550148 0.83000",
    ("7f04ca", "sjf"): "85685.32 9545 328983 901554 1017804 0.84943",
    ("ee9e8c", "fifo-strict"): "98439.10 0 260946 327687 335288 0.64980",
    ("ee9e8c", "fifo-skip"): "44123.60 0 168019 397056 1214174 0.67186",
    ("ee9e8c", "sjf"): "22150.87 0 32000 539372 1103228 0.63395",
}
"""By VC and queue order: mean, p50, p90, p99 and longest wait in seconds, utilization."""


def run(size: str | None) -> Iterator[Row]:
    """Measure one VC, or all."""
    if not PHILLY.is_dir():
        yield Row(instance="philly", measure="everything", value=None, unit="", note="no trace")
        return
    for vc, nodes in NODES.items():
        if size not in (None, vc):
            continue
        scenario = read_philly(PHILLY, vc, nodes, SINCE, UNTIL)
        for (name, order), checked in CHECKED.items():
            if name == vc:
                ours = figures(simulate(scenario, f"{order}+philly-pack", series=False).summary)
                yield Row(
                    instance=f"{vc} {order}",
                    measure="figures that differ",
                    value=sum(a != b for a, b in zip(ours.split(), checked.split(), strict=True)),
                    unit="of 6",
                    limit=0,
                    note=f"ours {ours}; checked {checked}",
                )


def figures(summary: Summary) -> str:
    """The figures of a run as the table of checked values prints them."""
    return (
        f"{summary.wait_mean_s:.2f} {summary.wait_p50_s:.0f} {summary.wait_p90_s:.0f} "
        f"{summary.wait_p99_s:.0f} {summary.wait_max_s:.0f} {summary.utilization_ratio:.5f}"
    )


PHILLY_BENCHMARK = Benchmark(
    name="philly",
    text="queueing of Philly's virtual clusters, to the last digit of checked values",
    sizes=tuple(NODES),
    run=run,
)
