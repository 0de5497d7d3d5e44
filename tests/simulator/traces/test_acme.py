"""The Acme trace: two clusters, zones, run times that are not what their column says."""

import shutil
from pathlib import Path

import pytest

from simulator.traces.acme import read_acme
from simulator.traces.table import TraceError

SMALL = Path(__file__).parents[2] / "data" / "traces" / "acme"


def only(tmp_path, name: str):
    shutil.copy(SMALL / name, tmp_path)
    return read_acme(tmp_path)


def parts(arrival) -> list[tuple[str, int, int, int, int]]:
    return [
        (role.name, role.replicas, role.shape.gpus, role.shape.cpu_milli, role.shape.memory_mib)
        for role in arrival.job.roles
    ]


def test_the_two_clusters_stand_side_by_side():
    scenario = read_acme(SMALL)

    assert [queue.name for queue in scenario.queues] == ["seren", "kalos"]
    assert scenario.lines == "queue"
    assert len(scenario.nodes) == 286 + 302
    assert scenario.problem.capacity["gpu_milli"] == 1000 * (2288 + 2416)
    assert {node.cpu_milli for node in scenario.nodes} == {128_000}
    for arrival in scenario.arrivals:
        for role in arrival.job.roles:
            assert role.shape.node_selector == (("vc", arrival.job.queue),)


def test_one_trace_alone_is_one_cluster(tmp_path):
    scenario = only(tmp_path, "trace_kalos.csv")

    assert [queue.name for queue in scenario.queues] == ["kalos"]
    assert scenario.lines == "cluster"
    assert {node.memory_mib for node in scenario.nodes} == {2048 * 1024}
    assert all(not role.shape.node_selector for a in scenario.arrivals for role in a.job.roles)


def test_times_of_both_clusters_are_one_time_whatever_their_zone():
    scenario = read_acme(SMALL)

    assert [(a.job.name, a.arrival_ms) for a in scenario.arrivals] == [
        ("seren-3", 0),
        ("kalos-2", 5_000),
        ("seren-2", 10_000),
        ("kalos-3", 10_000),
    ]


def test_run_times_are_from_start_to_end_and_not_from_the_submission():
    by_name = read_acme(SMALL).by_name

    assert by_name["kalos-2"].duration_ms == 8_000
    assert by_name["kalos-3"].duration_ms == 2_000  # until it was stopped: it has no end
    assert by_name["seren-2"].duration_ms == 60_000


def test_gangs_take_whole_nodes_and_a_rest_with_cpu_by_gpus_and_memory_by_pod():
    by_name = read_acme(SMALL).by_name

    assert parts(by_name["seren-2"]) == [
        ("whole", 1, 8, 128_000, 0),
        ("rest", 1, 4, 64_000, 0),
    ]
    assert parts(by_name["kalos-2"]) == [("whole", 2, 8, 120_000, 953_675)]
    assert parts(by_name["kalos-3"]) == [("replica", 1, 4, 60_000, 477)]
    assert parts(by_name["seren-3"]) == [("replica", 1, 0, 16_000, 0)]


def test_jobs_end_as_their_state_says():
    outcomes = {name: job.outcome for name, job in read_acme(SMALL).by_name.items()}

    assert outcomes == {
        "seren-2": "finished",
        "seren-3": "failed",
        "kalos-2": "failed",
        "kalos-3": "finished",
    }


def test_rows_that_cannot_be_used_are_rejected_with_file_line_and_reason():
    rejected = [(row.file, row.line, row.reason) for row in read_acme(SMALL).rejected]

    assert rejected == [
        (f"{SMALL}/trace_kalos.csv", 4, "unreadable memory"),
        # A time without its distance to UTC could be any of 26 hours.
        (f"{SMALL}/trace_seren.csv", 4, "unreadable time of submission"),
        (
            f"{SMALL}/trace_seren.csv",
            5,
            "state is not one of COMPLETED, CANCELLED, FAILED, TIMEOUT, NODE_FAIL",
        ),
    ]


def test_a_folder_without_either_trace_is_refused(tmp_path):
    with pytest.raises(TraceError, match=r"the folder has no file trace_seren\.csv or"):
        read_acme(tmp_path)
    with pytest.raises(TraceError, match="there is no such folder"):
        read_acme(tmp_path / "none")


def test_a_trace_of_another_layout_is_refused(tmp_path):
    shutil.copy(SMALL / "trace_seren.csv", tmp_path / "trace_kalos.csv")

    with pytest.raises(TraceError, match="the trace of kalos has a column fail_time"):
        read_acme(tmp_path)
