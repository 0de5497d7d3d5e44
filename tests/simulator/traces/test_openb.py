"""The openb layout: lists, orders, tuning, rows that break naive readers."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from simulator.traces.openb import read_openb
from simulator.traces.table import TraceError

NODES = """sn,cpu_milli,memory_mib,gpu,model
n1,64000,262144,2,T4
n2,96000,393216,4,P100
cpu-only,96000,393216,0,
"""
PODS = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos
p1,3152,0,1,460,,LS
p2,8000,30720,2,1000,T4|T4|P100,BE
p3,4000,1024,0,0,,LS
p1,1000,1024,1,1000,,LS
p5,1000,1024,2,500,,LS
p6,x,1024,1,500,,LS
"""


ALL_NODES = "7,node,0,n2\n7,node,1,cpu-only\n7,node,2,n1\n"


def trace(folder: Path, pods: str = PODS, orders: str | None = None) -> Path:
    (folder / "openb_node_list_gpu_node.csv").write_text(NODES)
    (folder / "openb_pod_list_small.csv").write_text(pods)
    if orders is not None:
        import gzip

        (folder / "orders").mkdir()
        with gzip.open(folder / "orders" / "small.csv.gz", "wt") as file:
            file.write(orders)
    return folder


def test_rows_that_cannot_be_used_are_kept_apart_with_their_lines(tmp_path: Path):
    found = read_openb(trace(tmp_path), "small")

    assert [pod.name for pod in found.pods] == ["p1", "p2", "p3"]
    assert [(row.line, row.reason) for row in found.rejected] == [
        (5, "a pod has a name of its own"),
        (6, "gpu_milli is 0 without GPUs, 1 to 1000 with one, 1000 with several"),
        (7, "cpu_milli, memory_mib, num_gpu and gpu_milli are whole numbers"),
    ]


def test_gpu_milli_is_per_device_and_models_are_named_once(tmp_path: Path):
    share, pair, none = read_openb(trace(tmp_path), "small").pods

    assert (share.shape().share_milli, share.demand_milli) == (460, 460)
    assert (pair.shape().gpus, pair.demand_milli) == (2, 2000)
    assert pair.shape().gpu_models == ("P100", "T4")
    assert not none.shape().wants_gpu


def test_an_orders_file_says_who_comes_when_and_clones_are_jobs_of_their_own(tmp_path: Path):
    orders = "seed,kind,pos,name\n7,pod,1,p1\n7,pod,0,p2\n7,pod,2,p1\n"
    orders += "7,node,0,n2\n7,node,1,cpu-only\n7,node,2,n1\n"

    scenario = read_openb(trace(tmp_path, orders=orders), "small").scenario(7)

    assert [arrival.job.name for arrival in scenario.arrivals] == ["0-p2", "1-p1", "2-p1"]
    assert [node.name for node in scenario.nodes] == ["n2", "cpu-only", "n1"]
    assert [note.partition(":")[0] for note in scenario.notes] == [
        "pods arrive one a second and none departs"
    ]


def test_a_seed_without_an_order_is_told_which_have_one(tmp_path: Path):
    rows = [f"{seed},pod,0,p1\n{ALL_NODES.replace('7', str(seed))}" for seed in (7, 8, 9)]

    found = read_openb(trace(tmp_path, orders="seed,kind,pos,name\n" + "".join(rows)), "small")

    assert "for seed 1 (there is one for 7-9)" in found.scenario(1).notes[0]


def test_without_an_order_the_list_is_shuffled_and_tuned_and_that_is_said(tmp_path: Path):
    found = read_openb(trace(tmp_path), "small")

    scenario = found.scenario(1)

    assert scenario.arrivals == found.scenario(1).arrivals
    assert "no published order for seed 1" in scenario.notes[0]
    demand = Counter(arrival.job.name.partition("-")[2] for arrival in scenario.arrivals)
    total = sum(pod.demand_milli * demand[pod.name] for pod in found.pods)
    assert 6000 < total <= 1.3 * 6000 + 1000


def test_an_order_that_names_what_is_not_there_is_refused_with_its_line(tmp_path: Path):
    folder = trace(tmp_path, orders="seed,kind,pos,name\n7,pod,0,p9\n")

    with pytest.raises(TraceError, match=r"small\.csv\.gz:2: no pod is named 'p9'"):
        read_openb(folder, "small")


@pytest.mark.parametrize(
    ("rows", "rule"),
    [
        ("7,pod,0,p1\n" + ALL_NODES + "7,po\n", ":6: "),
        ("7,pod,0,p1\n", "seed 7 has 0 nodes, and not each of the 3 once"),
        ("7,pod,0,p1\n7,node,0,n1\n", "seed 7 has 1 nodes"),
        ("7,pod,0,p1\n7,node,0,n1\n7,node,1,n1\n7,node,2,n2\n", "not each of the 3 once"),
        (ALL_NODES, "seed 7 has no pods"),
        ("7,pod,0,p1\n7,pod,0,p2\n" + ALL_NODES, "positions of pods of seed 7 do not run"),
        ("7,pod,0,p1\n7,pod,7,p2\n" + ALL_NODES, "positions of pods of seed 7 do not run"),
    ],
)
def test_half_an_order_is_no_order(tmp_path: Path, rows: str, rule: str):
    with pytest.raises(TraceError, match=rule):
        read_openb(trace(tmp_path, orders="seed,kind,pos,name\n" + rows), "small")


def test_a_list_without_gpus_is_not_cloned_for_ever(tmp_path: Path):
    pods = PODS.splitlines()[0] + "\np3,4000,1024,0,0,,LS\n"

    scenario = read_openb(trace(tmp_path, pods=pods), "small").scenario(1)

    assert [arrival.job.name for arrival in scenario.arrivals] == ["0-p3"]


def test_a_workload_that_is_not_there_is_refused_with_those_that_are(tmp_path: Path):
    with pytest.raises(TraceError, match="Known workloads: small"):
        read_openb(trace(tmp_path), "smal1")
