"""Published and independently checked results come out of our own replay."""

from __future__ import annotations

import csv
import gzip

import pytest

from benchmarks.philly import CHECKED, NODES, SINCE, UNTIL, figures
from simulator.levels import levels
from simulator.run import simulate
from simulator.traces.openb import read_openb
from simulator.traces.philly import read_philly
from tests.paths import SHARED, needs_shared

pytestmark = needs_shared

TRACES = SHARED / "data" / "traces"
OPENB = TRACES / "openb"
CAPACITY_MILLI = 6_212_000


def published(name: str, policy: str, seed: str) -> dict[int, float]:
    with gzip.open(OPENB / name, "rt", newline="") as file:
        for row in csv.DictReader(file):
            if (row["workload"], row["policy"], row["seed"]) == ("default", policy, seed):
                return {int(at): float(value) for at, value in row.items() if at.isdigit()}
    raise LookupError(policy)


@pytest.mark.parametrize(("ours", "theirs"), [("fgd", "FGD"), ("best-fit", "BestFit")])
def test_the_published_curves_of_openb_come_out_at_every_level(ours: str, theirs: str):
    scenario = read_openb(OPENB, "default").scenario(42)

    curve = levels(simulate(scenario, ours, 42), CAPACITY_MILLI, range(131))

    for level, value in published("published_alloc_pct.csv.gz", theirs, "42").items():
        assert curve[level].allocated_pct == pytest.approx(value, abs=0.01), level
    for level, value in published("published_frag_pct.csv.gz", theirs, "42").items():
        assert curve[level].fragmented_pct == pytest.approx(value, abs=0.01), level


def test_the_published_end_state_of_fgd_comes_out():
    summary = simulate(read_openb(OPENB, "default").scenario(42), "fgd", 42).summary

    assert summary.allocated_milli == 5_919_410
    assert summary.failed + summary.unschedulable == 2532
    assert summary.fragmentation_milli == pytest.approx(291_361.65, abs=0.01)


@pytest.mark.parametrize(
    ("policy", "allocated_milli", "failed", "fragmentation_milli"),
    [
        ("dot-product", 5_417_520, 777, 776_671.5),
        ("gpu-clustering", 5_502_550, 663, 671_302.1),
        ("gpu-packing", 5_541_790, 614, 646_224.9),
    ],
)
def test_in_file_order_the_checked_totals_of_openb_come_out(
    policy: str, allocated_milli: int, failed: int, fragmentation_milli: float
):
    summary = simulate(read_openb(OPENB, "default").scenario(None), policy, series=False).summary

    assert summary.allocated_milli == allocated_milli
    assert summary.failed + summary.unschedulable == failed
    assert summary.fragmentation_milli == pytest.approx(fragmentation_milli, abs=0.05)


def test_pods_that_no_empty_node_hosts_are_said_never_to_fit():
    outcome = simulate(read_openb(OPENB, "gpuspec10").scenario(42), "best-fit", 42, series=False)

    reasons = {job.reason.partition(":")[0] for job in outcome.jobs if job.end_ms is not None}

    assert outcome.summary.unschedulable >= 2
    assert "no room when it arrived" in reasons
    assert len(reasons) > 1


@pytest.mark.parametrize(("vc", "order"), [pair for pair in CHECKED if pair[0] != "11cb48"])
def test_queueing_of_a_philly_cluster_comes_out_to_the_last_digit(vc: str, order: str):
    scenario = read_philly(TRACES / "philly", vc, NODES[vc], SINCE, UNTIL)

    summary = simulate(scenario, f"{order}+philly-pack", series=False).summary

    assert figures(summary) == CHECKED[vc, order]


def test_short_jobs_first_waits_far_less_than_first_come_as_published():
    scenario = read_philly(TRACES / "philly", "7f04ca", 12, SINCE, UNTIL)

    fifo, sjf = (simulate(scenario, f"{o}+philly-pack").summary for o in ("fifo-strict", "sjf"))

    assert fifo.wait_mean_s > 2 * sjf.wait_mean_s
