"""The Helios trace: VCs that change, jobs without GPUs, times that are not there."""

import shutil
from pathlib import Path

import pytest

from simulator.traces.helios import read_helios
from simulator.traces.table import TraceError

SMALL = Path(__file__).parents[2] / "data" / "traces" / "helios"


def without_sizes(tmp_path):
    shutil.copy(SMALL / "cluster_log.csv", tmp_path)
    return read_helios(tmp_path)


def gpus_by_node(scenario) -> dict[str, int]:
    return {node.name: node.n_gpus for node in scenario.nodes}


def parts(arrival) -> list[tuple[str, int, int, int]]:
    roles = [(role, role.shape) for role in arrival.job.roles]
    return [(role.name, role.replicas, shape.gpus, shape.cpu_milli) for role, shape in roles]


def test_a_vc_has_the_most_gpus_it_ever_had():
    scenario = read_helios(SMALL)

    assert gpus_by_node(scenario) == {
        "vcA-0": 8,
        "vcA-1": 8,
        "vcA-2": 8,
        "vcB-0": 8,
        "vcB-1": 4,
        "vcC-0": 0,  # only work without GPUs
    }
    assert [queue.name for queue in scenario.queues] == ["vcA", "vcB", "vcC"]
    assert scenario.lines == "queue"
    assert scenario.problem.jobs


def test_without_the_sizes_a_vc_has_what_its_jobs_held_at_once(tmp_path):
    scenario = without_sizes(tmp_path)

    # The two jobs of vcB with 8 GPUs follow each other: an end comes before a start.
    assert gpus_by_node(scenario) == {
        "vcA-0": 8,
        "vcA-1": 8,
        "vcA-2": 8,
        "vcB-0": 8,
        "vcC-0": 0,
        "vcD-0": 8,
    }
    assert any("no cluster_gpu_number.csv" in note for note in scenario.notes)


def test_gangs_take_whole_nodes_and_a_rest_with_their_part_of_the_cpu():
    scenario = read_helios(SMALL)

    assert parts(scenario.by_name["vcA-2"]) == [
        ("whole", 2, 8, 32_000),
        ("rest", 1, 4, 16_000),
    ]
    assert parts(scenario.by_name["vcB-5"]) == [("replica", 1, 8, 32_000)]
    assert any(note.startswith("1 rows ran on more nodes") for note in scenario.notes)


def test_a_job_without_gpus_has_a_replica_on_each_of_its_nodes():
    arrival = read_helios(SMALL).by_name["vcB-4"]

    assert parts(arrival) == [("replica", 2, 0, 3_000)]
    assert arrival.job.cpu_only


def test_run_times_are_computed_and_time_begins_with_the_first_job():
    scenario = read_helios(SMALL)

    assert [(a.job.name, a.arrival_ms, a.duration_ms) for a in scenario.arrivals[:2]] == [
        ("vcA-3", 0, 10_000),
        ("vcA-2", 3_600_000, 100_000),
    ]


def test_jobs_end_as_their_state_says():
    outcomes = {name: job.outcome for name, job in read_helios(SMALL).by_name.items()}

    assert outcomes == {
        "vcA-2": "finished",
        "vcA-3": "failed",
        "vcB-4": "finished",
        "vcB-5": "failed",
        "vcB-6": "failed",
        "vcC-7": "finished",
    }


def test_rows_that_cannot_be_used_are_rejected_with_line_and_reason():
    rejected = [(row.line, row.reason) for row in read_helios(SMALL).rejected]

    assert rejected == [
        (8, "duration is not a positive number of seconds"),
        (9, "state is not one of COMPLETED, CANCELLED, FAILED, TIMEOUT, NODE_FAIL"),
        (10, "it never started"),
        (11, "still running at the end of the trace"),
        (12, "gpu_num is not a whole number"),
        (13, "neither GPUs nor CPU cores"),
        (14, "unreadable time of submission"),
        (15, 'VC "vcD" without a size'),
    ]


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ("date,vcA\n2020-06-01,some\n", ":2: vcA has a whole number of GPUs"),
        ("date,vcA\n2020-06-01\n", ":2: not 2 cells, as in the header"),
        ("day,vcA\n", ":1: the table of VC sizes has a column date."),
    ],
)
def test_a_broken_table_of_sizes_is_refused(tmp_path, sizes, message):
    (tmp_path / "cluster_gpu_number.csv").write_text(sizes)

    with pytest.raises(TraceError) as caught:
        without_sizes(tmp_path)

    assert str(caught.value).startswith(f"{tmp_path}/cluster_gpu_number.csv{message}")


def test_a_folder_without_the_log_is_refused(tmp_path):
    with pytest.raises(TraceError, match=r"the folder has no file cluster_log\.csv or"):
        read_helios(tmp_path)


def test_a_number_that_is_only_too_large_is_said_to_be(tmp_path):
    log = (SMALL / "cluster_log.csv").read_text().splitlines()
    at = log[0].split(",").index("gpu_num")
    cells = log[1].split(",")
    cells[at] = "2000000"
    (tmp_path / "cluster_log.csv").write_text("\n".join([log[0], ",".join(cells)]) + "\n")
    sizes = (SMALL / "cluster_gpu_number.csv").read_text()
    (tmp_path / "cluster_gpu_number.csv").write_text(sizes)

    (rejected,) = read_helios(tmp_path).rejected

    assert rejected.reason == "gpu_num is more than 1,000,000"
