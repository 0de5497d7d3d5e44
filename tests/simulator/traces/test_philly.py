"""The Philly trace: gangs, time, windows, and rows that break naive importers."""

import gzip
import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

from simulator.traces.philly import read_philly
from simulator.traces.table import TraceError
from tests.paths import SHARED, needs_shared

SMALL = Path(__file__).parents[2] / "data" / "traces" / "philly"
LOG = SMALL.with_name("philly_log") / "cluster_job_log"
PHILLY = SHARED / "data" / "traces" / "philly"
CHECKED = {"since": "2017-10-01", "until": "2017-11-15"}


def parts(arrival) -> list[tuple[str, int, int]]:
    return [(role.name, role.replicas, role.shape.gpus) for role in arrival.job.roles]


def gpus_of(arrival) -> int:
    return sum(replicas * gpus for _, replicas, gpus in parts(arrival))


def reasons(scenario) -> list[tuple[int, str]]:
    return [(row.line, row.reason) for row in scenario.rejected]


def refusal(read, *arguments, **options) -> TraceError:
    with pytest.raises(TraceError) as caught:
        read(*arguments, **options)
    return caught.value


def test_a_vc_has_its_nodes_one_queue_and_one_waiting_line():
    scenario = read_philly(SMALL, vc="6214e9")

    assert [node.name for node in scenario.nodes] == ["6214e9-0", "6214e9-1", "6214e9-2"]
    assert {(node.n_gpus, node.cpu_milli, node.memory_mib) for node in scenario.nodes} == {
        (8, None, None)
    }
    assert len({id(node.topology) for node in scenario.nodes}) == 1
    assert [queue.name for queue in scenario.queues] == ["6214e9"]
    assert scenario.lines == "cluster"
    assert scenario.problem.jobs


def test_jobs_are_sorted_by_time_and_exact_copies_are_separate_jobs_in_file_order():
    scenario = read_philly(SMALL, vc="6214e9")

    assert [(a.job.name, a.arrival_ms, a.duration_ms) for a in scenario.arrivals] == [
        ("6214e9-3", 0, 7_200_000),
        ("6214e9-2", 51 * 3_600_000, 100_000),
        ("6214e9-4", 51 * 3_600_000, 100_000),
    ]


@pytest.mark.parametrize(
    ("gpus", "roles"),
    [
        (1, [("replica", 1, 1)]),
        (8, [("replica", 1, 8)]),
        (9, [("whole", 1, 8), ("rest", 1, 1)]),
        (12, [("whole", 1, 8), ("rest", 1, 4)]),
        (16, [("whole", 2, 8)]),
        (24, [("whole", 3, 8)]),
    ],
)
def test_a_gang_larger_than_a_node_takes_whole_nodes_and_a_rest(tmp_path, gpus, roles):
    head = "timestamp,duration,num_gpus,gpu_time,cluster\n"
    (tmp_path / "philly_jobs.csv").write_text(f"{head}2017-11-01 09:00:00,1.0,{gpus},1.0,v\n")

    (arrival,) = read_philly(tmp_path, vc="v", nodes=4).arrivals

    assert parts(arrival) == roles
    assert arrival.job.gang
    assert all(role.min_replicas == role.replicas for role in arrival.job.roles)


def test_a_gang_wider_than_its_vc_is_kept():
    scenario = read_philly(SMALL, vc="103959")

    widest = max(scenario.arrivals, key=gpus_of)

    assert (widest.job.name, gpus_of(widest)) == ("103959-17", 200)
    assert sum(node.n_gpus for node in scenario.nodes) == 16


def test_all_vcs_stand_side_by_side():
    scenario = read_philly(SMALL)

    assert Counter(node.labels["vc"] for node in scenario.nodes) == {"6214e9": 3, "103959": 2}
    assert [queue.name for queue in scenario.queues] == ["6214e9", "103959"]
    assert scenario.lines == "queue"
    for arrival in scenario.arrivals:
        for role in arrival.job.roles:
            assert role.shape.node_selector == (("vc", arrival.job.queue),)


def test_every_row_arrives_or_is_rejected_with_its_line_and_reason():
    scenario = read_philly(SMALL)

    assert reasons(scenario) == [
        (7, 'VC "23dbec" without a size'),
        (9, "duration is not a positive number of seconds"),
        (10, "duration is not a positive number of seconds"),
        (11, "duration is not a positive number of seconds"),
        (12, "num_gpus is not a positive whole number"),
        (13, "num_gpus is not a positive whole number"),
        (14, "unreadable time of submission"),
        (15, "no VC"),
        (16, "not 5 cells, as in the header"),
    ]
    assert len(scenario.arrivals) + len(scenario.rejected) == 15
    assert {row.file for row in scenario.rejected} == {str(SMALL / "philly_jobs.csv")}


def test_rows_of_other_vcs_are_not_rejected_for_a_vc_but_cut_off_ones_are():
    scenario = read_philly(SMALL, vc="103959")

    assert reasons(scenario) == [(16, "not 5 cells, as in the header")]


def test_the_repeated_hour_is_taken_as_written_and_said():
    scenario = read_philly(SMALL, vc="103959", since="2017-11-05")

    assert [arrival.arrival_ms for arrival in scenario.arrivals] == [90 * 60_000]
    assert any(note.startswith("1 rows are of the hour") for note in scenario.notes)
    assert len(read_philly(SMALL, vc="6214e9").notes) == 1


def test_a_window_keeps_its_first_moment_and_not_its_last():
    scenario = read_philly(
        SMALL, vc="6214e9", since="2017-11-01 09:00:00", until="2017-11-03 12:00:00"
    )

    assert [(a.job.name, a.arrival_ms) for a in scenario.arrivals] == [("6214e9-3", 0)]
    # Line 14 has no readable time: whether it lies in the window is not known.
    assert [line for line, _ in reasons(scenario)] == [9, 10, 11, 12, 13, 14, 16]


def test_fractions_of_a_second_are_whole_milliseconds():
    first = read_philly(SMALL, vc="103959").arrivals[0]

    assert (parts(first), first.duration_ms) == ([("whole", 3, 8)], 59_500)


def test_a_given_number_of_nodes_makes_up_for_a_missing_size():
    one = read_philly(SMALL, vc="23dbec", nodes=1)
    all_of_them = read_philly(SMALL, nodes=1)

    assert [node.name for node in one.nodes] == ["23dbec-0"]
    assert [arrival.job.name for arrival in one.arrivals] == ["23dbec-7"]
    assert [node.name for node in all_of_them.nodes] == ["6214e9-0", "103959-0", "23dbec-0"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"vc": "6214e8"},
            'the trace has no VC "6214e8". Did you mean "6214e9"? Known VCs: 103959, 6214e9',
        ),
        (
            {"vc": "23dbec"},
            'nobody says how many nodes the VC "23dbec" has. Say how many nodes it has',
        ),
        (
            {"since": "last week"},
            'since is a time, "last week" is not. Write YYYY-MM-DD or YYYY-MM-DD HH:MM:SS',
        ),
        (
            {"until": "2017-02-30"},
            'until is a time, "2017-02-30" is not. Write YYYY-MM-DD or YYYY-MM-DD HH:MM:SS',
        ),
        (
            {"since": "2017-11-02", "until": "2017-11-01"},
            "no time lies between since 2017-11-02 and until 2017-11-01",
        ),
    ],
)
def test_a_question_without_sense_is_refused(options, message):
    assert str(refusal(read_philly, SMALL, **options)) == f"{SMALL}/philly_jobs.csv: {message}"


def test_a_time_without_jobs_says_when_there_are_some():
    scenario = read_philly(SMALL, since="2015-01-01", until="2015-02-01")

    assert not scenario.arrivals
    note = next(note for note in scenario.notes if "of the time asked for" in note)
    assert re.search(r"others are of 2017-\d\d-\d\d [\d:]+ to 2017-\d\d-\d\d [\d:]+\.", note)


@pytest.mark.parametrize("nodes", [0, -1, 10**9])
def test_an_impossible_number_of_nodes_is_refused(nodes):
    assert "a VC has 1 to 125000 nodes" in str(refusal(read_philly, SMALL, nodes=nodes))


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ("vc,num_nodes\nv,many\n", ":2: num_nodes is a whole number up to 125000"),
        ("vc,num_nodes\nv,1\nv,2\n", ':3: each VC has one row, "v" has not'),
        ("vc,num_nodes,gpus_per_node\nv,1,4\n", ":2: nodes of Philly have 8 GPUs here."),
        ("vc,num_nodes\nv\n", ":2: not 2 cells, as in the header"),
        ("vc\nv\n", ":1: the table of VC sizes has a column num_nodes."),
    ],
)
def test_a_broken_table_of_sizes_is_refused(tmp_path, sizes, message):
    shutil.copy(SMALL / "philly_jobs.csv", tmp_path)
    (tmp_path / "vc_nodes.csv").write_text(sizes)

    assert str(refusal(read_philly, tmp_path)).startswith(f"{tmp_path}/vc_nodes.csv{message}")


def test_a_table_of_sizes_that_is_missing_is_said(tmp_path):
    shutil.copy(SMALL / "philly_jobs.csv", tmp_path)

    error = refusal(read_philly, tmp_path)

    assert (error.rule, error.hint) == (
        "the folder has no file vc_nodes.csv",
        "Or say how many nodes a VC has",
    )


def test_the_compressed_table_is_read_too(tmp_path):
    shutil.copy(SMALL / "vc_nodes.csv", tmp_path)
    packed = gzip.compress((SMALL / "philly_jobs.csv").read_bytes())
    (tmp_path / "philly_jobs.csv.gz").write_bytes(packed)

    assert read_philly(tmp_path).arrivals == read_philly(SMALL).arrivals


def test_a_job_of_the_log_runs_for_the_sum_of_its_attempts_with_the_gang_of_the_first():
    scenario = read_philly(LOG, vc="6214e9")

    (arrival,) = scenario.arrivals
    assert (arrival.job.name, arrival.duration_ms) == ("6214e9-2", 150_000)
    assert parts(arrival) == [("replica", 1, 3)]
    assert len(scenario.nodes) == 3


def test_jobs_of_the_log_end_as_their_status_says():
    scenario = read_philly(LOG)

    assert [(a.job.name, a.outcome, a.arrival_ms) for a in scenario.arrivals] == [
        ("103959-7", "failed", 0),
        ("103959-8", "finished", 1_800_000),
        ("6214e9-2", "finished", 3_600_000),
    ]


def test_entries_of_the_log_that_cannot_be_used_are_rejected_with_their_line():
    scenario = read_philly(LOG)

    assert reasons(scenario) == [
        (9, "it never ran: no attempts"),
        (10, "still running at the end of the trace"),
        (11, "still running at the end of the trace"),
        (12, "an attempt without a readable start or end"),
        (13, "unreadable time of submission"),
        (14, "no GPUs in the first attempt"),
        (15, "status is not one of Pass, Killed, Failed"),
        (16, "an attempt ends before it starts"),
        (17, "attempts is not a list of attempts"),
        (18, 'VC "23dbec" without a size'),
        (19, "unreadable time of submission"),
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", ":1: a JSON list of jobs is wanted here. Name the cluster_job_log or its folder."),
        (
            '{"status": "Pass"}',
            ":1: a JSON list of jobs is wanted here. Name the cluster_job_log or its folder.",
        ),
        ('[\n{"status": "Pass"},\n{"sta', ":3: not JSON from here on. Is the file cut off?"),
        ('[\n{"status": "Pass"}', ":2: the list of jobs has no end. Is the file cut off?"),
        ("[" * 100_000, ":1: not JSON from here on. Is the file cut off?"),
        (
            '[\n{"status": "Pass"}\n]\n\n[]',
            ":5: there is more after the list of jobs. Keep one list",
        ),
    ],
)
def test_another_file_than_the_log_is_refused(tmp_path, content, message):
    path = tmp_path / "cluster_job_log"
    path.write_text(content)

    assert str(refusal(read_philly, path, nodes=1)) == f"{path}{message}"


def test_a_log_without_jobs_is_a_trace_without_jobs(tmp_path):
    (tmp_path / "log").write_text(" [ ] ")

    assert read_philly(tmp_path / "log", nodes=1).arrivals == ()


@needs_shared
@pytest.mark.parametrize(
    ("vc", "nodes", "jobs", "load"),
    [
        ("11cb48", 16, 8877, 0.104),
        ("2869ce", 16, 241, 0.395),
        ("0e4a51", 16, 1141, 0.497),
        ("7f04ca", 12, 551, 0.872),
        ("ee9e8c", 24, 775, 0.790),
    ],
)
def test_the_published_trace_has_its_checked_jobs_and_load(vc, nodes, jobs, load):
    scenario = read_philly(PHILLY, vc=vc, nodes=nodes, **CHECKED)

    gpu_ms = sum(gpus_of(arrival) * (arrival.duration_ms or 0) for arrival in scenario.arrivals)
    assert (len(scenario.arrivals), len(scenario.nodes)) == (jobs, nodes)
    assert scenario.rejected == ()
    assert gpu_ms / (8 * nodes * 45 * 86_400_000) == pytest.approx(load, abs=0.0006)


@needs_shared
def test_the_published_trace_is_read_whole():
    scenario = read_philly(PHILLY)

    assert (len(scenario.nodes), len(scenario.queues)) == (352, 11)
    assert len(scenario.arrivals) == 64_483 - 11
    assert scenario.rejected_by_reason == {
        'VC "23dbec" without a size': 8,
        'VC "795a4c" without a size': 3,
    }
    assert Counter(gpus_of(arrival) for arrival in scenario.arrivals)[12] == 7
    assert any(note.startswith("7 rows are of the hour") for note in scenario.notes)


def test_a_name_that_no_file_can_hold_is_no_name(tmp_path: Path):
    attempt = '{"start_time": "2017-10-03 12:00:00", "end_time": "2017-10-03 13:00:00",'
    attempt += ' "detail": [{"ip": "m1", "gpus": ["gpu0"]}]}'
    entry = '{"status": "Pass", "vc": "%s", "submitted_time": "2017-10-03 11:00:00",'
    entry += f' "attempts": [{attempt}]}}'
    log = tmp_path / "log.json"
    log.write_text("[" + entry % "aa" + ",\n" + entry % "\\ud800" + "]")
    (tmp_path / "vc_nodes.csv").write_text("vc,num_nodes\naa,1\n")

    scenario = read_philly(log)

    assert [arrival.job.queue for arrival in scenario.arrivals] == ["aa"]
    assert [row.line for row in scenario.rejected] == [2]
