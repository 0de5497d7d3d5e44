"""``simulate`` as a user types it."""

from __future__ import annotations

import json
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from time import monotonic
from xml.etree import ElementTree

import pytest
import yaml

from commands.simulation import OPENB_POLICIES, POLICIES, TRACE_POLICIES
from tests.commands.running import Done, unstrand
from tests.paths import SHARED

KEYS = {
    *("policy", "seed", "finished", "failed", "unschedulable", "utilization_ratio"),
    *("wait_mean_s", "wait_p50_s", "wait_p99_s", "jct_mean_s"),
    *("stranded_gpus_mean", "fragmentation_gpus_mean", "deadlocks", "preemptions", "lost_gpu_h"),
    *("allocated_milli", "fragmentation_milli", "jain", "makespan_s", "run_s"),
}
"""Keys of a row, from the contract."""

GREEDY = ("first-fit", "best-fit", "worst-fit", "fgd", "topology-aware")

BANDS = {
    "first-fit": 0.483,
    "best-fit": 0.486,
    "worst-fit": 0.483,
    "fgd": 0.483,
    "topology-aware": 0.484,
    "fifo-strict": 0.443,
    "sjf": 0.585,
    "drf": 0.639,
    "easy": 0.531,
    "conservative": 0.531,
    "per-pod": 0.405,
    "cp-sat": 0.639,
}
"""Golden utilization of the shipped scenario; within 0.02."""

SPEC = """
cluster:
  name: tiny
  nodes: [{name: n1, preset: hgx-h100}]
jobs:
  - {name: a, gpus: 6, duration: 10m}
  - {name: wide, gpus: 8, arrival: 1m, duration: 10m}
  - {name: b, gpus: 2, arrival: 2m, duration: 30m}
"""


@cache
def shipped() -> tuple[dict, float]:
    """The answer without arguments, and the seconds it took."""
    began = monotonic()
    done = unstrand("simulate", "--output", "json")
    assert done.code == 0, done.err
    return json.loads(done.out), monotonic() - began


def shipped_rows() -> dict[str, dict]:
    """Rows of the shipped scenario by policy."""
    return {row["policy"]: row for row in shipped()[0]["rows"]}


def answer(*options: object, stdin: str = SPEC) -> dict:
    done = unstrand("simulate", "-", "--output", "json", "--workers", 1, *options, stdin=stdin)
    assert done.code == 0, done.err
    return json.loads(done.out)


def rows(*options: object, stdin: str = SPEC) -> list[dict]:
    return answer(*options, stdin=stdin)["rows"]


def refused(done: Done, code: int, *words: str) -> None:
    """One line on standard error, nothing else."""
    assert done.code == code
    assert done.out == ""
    assert done.err.count("\n") == 1, done.err
    assert all(word in done.err for word in words), done.err


# Without arguments


def test_the_default_run_is_quick_and_has_the_keys_of_the_contract():
    answer, seconds = shipped()

    assert seconds < 30
    assert answer["schema"] == "unstrand/simulate/v1"
    assert set(answer["rows"][0]) >= KEYS
    assert len(answer["rows"]) == len(shipped_rows()) == len(BANDS)


def test_every_job_of_the_shipped_scenario_has_an_end():
    for row in shipped_rows().values():
        assert (row["finished"], row["failed"], row["unschedulable"]) == (44, 0, 0)


def test_best_fit_strands_fewer_gpus_than_first_fit():
    table = shipped_rows()

    assert table["best-fit"]["stranded_gpus_mean"] < table["first-fit"]["stranded_gpus_mean"]


@pytest.mark.parametrize("greedy", GREEDY)
def test_the_solver_strands_no_more_than(greedy: str):
    table = shipped_rows()

    assert table["cp-sat"]["stranded_gpus_mean"] <= table[greedy]["stranded_gpus_mean"]


def test_only_pods_one_by_one_run_into_deadlocks():
    deadlocks = {policy: row["deadlocks"] for policy, row in shipped_rows().items()}

    assert deadlocks.pop("per-pod") > 0
    assert set(deadlocks.values()) == {0}


@pytest.mark.parametrize("policy", BANDS)
def test_utilization_is_in_its_band(policy: str):
    assert shipped_rows()[policy]["utilization_ratio"] == pytest.approx(BANDS[policy], abs=0.02)


def test_the_table_has_a_line_for_every_policy():
    done = unstrand("simulate", "--policies", "first-fit,per-pod", "--workers", 1)

    assert done.code == 0
    assert "first-fit" in done.out
    assert "per-pod" in done.out


def test_the_same_again_is_the_same_but_for_the_time_it_took():
    first, again = ([row | {"run_s": 0} for row in rows("--seeds", "3")] for _ in range(2))

    assert first == again


# What is asked


def test_rows_are_in_the_order_of_policies_then_seeds_as_typed():
    table = rows("--policies", "easy+fgd, fifo-strict", "--seeds", "2,5-6")

    assert [(row["policy"], row["seed"]) for row in table] == [
        (policy, seed) for policy in ("easy+fgd", "fifo-strict") for seed in (2, 5, 6)
    ]


def test_a_spec_is_replayed():
    strict, skip = rows("--policies", "fifo-strict,fifo-skip")

    # Strict: a until 10 min, wide until 20, b until 50. Skip: b 2-32, wide 32-42.
    assert strict["makespan_s"] == 50 * 60
    assert skip["makespan_s"] == 42 * 60
    assert strict["utilization_ratio"] == pytest.approx((60 + 80 + 60) / (8 * 50))
    assert skip["wait_mean_s"] == pytest.approx((0 + 31 + 0) * 60 / 3)


def test_a_synthetic_trace_is_drawn():
    words = ("--trace", "synthetic:jobs=200,nodes=4", "--policies", "easy", "--output", "json")
    done = unstrand("simulate", *words)

    assert done.code == 0, done.err
    (row,) = json.loads(done.out)["rows"]
    assert row["finished"] + row["failed"] + row["unschedulable"] == 200
    assert row["trace"].startswith("synthetic")


def test_several_traces_have_rows_of_their_own():
    traces = ("--trace", "synthetic:jobs=20,nodes=2", "--trace", "synthetic:jobs=30,nodes=2")
    done = unstrand("simulate", *traces, "--policies", "easy", "--output", "json", "--workers", 1)

    assert done.code == 0, done.err
    assert [row["finished"] for row in json.loads(done.out)["rows"]] == [20, 30]


def test_the_penalty_makes_a_split_job_longer():
    text = """
cluster:
  name: islands
  nodes:
    - name: n1
      gpus: 4
      gpu_model: A100-40GB
      links: [{a: 0, b: 1, kind: NV12}, {a: 2, b: 3, kind: NV12}]
running:
  - {job: r, replicas: [{node: n1, gpus: [0]}, {node: n1, gpus: [2]}]}
jobs:
  - {name: pair, gpus: 2, duration: 10m}
"""

    times = [
        rows("--policies", "easy", "--penalty", p, stdin=text)[0]["jct_mean_s"] for p in (0, 1)
    ]

    assert times == [600, 1200]


def test_rounds_of_the_solver_keep_their_distance():
    (often,) = rows("--policies", "cp-sat")
    (seldom,) = rows("--policies", "cp-sat", "--round", "5m")

    # b came at 2 min and is looked at in the round at 5 min.
    assert often["wait_mean_s"] < seldom["wait_mean_s"]


@pytest.mark.parametrize("suffix", ["svg", "png"])
@pytest.mark.skipif(find_spec("matplotlib") is None, reason="matplotlib is not installed")
def test_a_picture_is_drawn(tmp_path: Path, suffix: str):
    picture = tmp_path / f"day.{suffix}"

    rows("--policies", "fifo-strict,easy", "--plot", picture)

    if suffix == "svg":
        ElementTree.fromstring(picture.read_text())
        assert "fifo-strict" in picture.read_text()
    else:
        assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_picture_of_several_traces_and_seeds_says_which_it_shows(tmp_path: Path):
    from commands.simulation import Asked, read_question

    traces = ("synthetic:jobs=3,nodes=2", "synthetic:jobs=4,nodes=2,seed=5")
    question = read_question(Asked(traces=traces, seeds="7-8"), None, plotted=False)

    assert question.title.startswith("2 traces, the first synthetic jobs=3,nodes=2: 3 jobs")
    assert question.pictured == "synthetic jobs=3,nodes=2: 3 jobs on 2 nodes, 16 GPUs, seed 7"


def test_who_asks_for_seeds_of_jobs_that_are_always_the_same_is_told():
    def notes(*traces: str) -> str:
        named = [word for trace in traces for word in ("--trace", trace)]
        done = unstrand("simulate", *named, "--policies", "easy", "--seeds", "1-2")
        return " ".join(done.out.split())

    drawn, fixed = "synthetic:jobs=3,nodes=2", "synthetic:jobs=3,nodes=2, seed = 4"

    assert "the same jobs" not in notes(drawn)
    assert "seed=" not in notes(drawn)
    assert "every seed replays the same jobs:" in notes(fixed)
    assert "seed=4" in notes(fixed)
    assert "the same jobs of synthetic jobs=3,nodes=2, seed = 4:" in notes(drawn, fixed)


def test_where_no_time_passes_the_means_are_of_that_moment():
    text = re.sub(r", (arrival|duration): \w+", "", SPEC)

    done = unstrand("simulate", "-", "--policies", "first-fit", stdin=text)
    (row,) = rows("--policies", "first-fit", stdin=text)

    assert row["makespan_s"] == 0
    assert (row["running"], row["utilization_ratio"]) == (2, 1)
    assert "no time passes" in done.out


def test_a_second_run_with_save_says_what_was_there(tmp_path: Path):
    first = unstrand("simulate", "-", "--save", tmp_path, "--policies", "easy,sjf", stdin=SPEC)

    again = unstrand("simulate", "-", "--save", tmp_path, "--policies", "easy,sjf,drf", stdin=SPEC)

    assert (first.code, again.code) == (0, 0)
    assert "there already" not in first.out + first.err
    assert re.search(r"2 of 3 runs were\s+there\s+already", again.out + again.err)
    assert len(list(tmp_path.rglob("jobs.parquet"))) == 3


def test_a_changed_spec_is_run_again(tmp_path: Path):
    rows("--save", tmp_path, "--policies", "easy")

    (row,) = rows("--save", tmp_path, "--policies", "easy", stdin=SPEC.replace("30m", "40m"))

    assert (
        row["makespan_s"]
        == rows("--policies", "easy", stdin=SPEC.replace("30m", "40m"))[0]["makespan_s"]
    )


def test_a_saved_run_that_makes_way_for_another_is_told(tmp_path: Path):
    options = ("--save", tmp_path, "--policies", "easy")
    changed = SPEC.replace("30m", "40m")

    told = [
        any(
            "1 saved run by the same names" in note
            for note in answer(*options, stdin=spec)["notes"]
        )
        for spec in (SPEC, SPEC, changed, changed)
    ]

    assert told == [False, False, True, False]


def test_that_cp_sat_looks_at_no_priority_is_told_where_priorities_differ():
    urgent = SPEC.replace("name: b,", "name: b, priority: 5,")

    def told(spec: str, policies: str) -> bool:
        notes = answer("--policies", policies, stdin=spec)["notes"]
        return any("looks at no priority" in note for note in notes)

    assert told(urgent, "cp-sat")
    assert not told(urgent, "priority+cp-sat")
    assert not told(SPEC, "cp-sat")


def test_that_must_has_no_say_over_time_is_told():
    spec = """
cluster: {nodes: [{name: n, gpus: 1}]}
jobs: [{name: huge, gpus: 9, must: true, duration: 1s}]
"""
    told = answer("--policies", "first-fit", stdin=spec)["notes"]

    assert any("must has no say" in note for note in told)
    assert any("never fits: huge" in note for note in told)


def test_yaml_says_the_same_as_json():
    words = ("simulate", "-", "--policies", "easy", "--workers", 1, "--output")
    asked = (unstrand(*words, form, stdin=SPEC).out for form in ("json", "yaml"))

    as_json, as_yaml = (yaml.safe_load(text) for text in asked)

    for answer in (as_json, as_yaml):
        answer["rows"][0]["run_s"] = 0
    assert as_yaml == as_json


def test_no_line_of_the_table_ends_in_spaces():
    done = unstrand("simulate", "-", "--policies", "easy,sjf", stdin=SPEC)

    assert [line for line in done.out.splitlines() if line != line.rstrip()] == []


ODD = {
    "no jobs": ("jobs: []", 0),
    "only CPU": ("jobs: [{name: c, cpu: 4, duration: 1m}, {name: d, cpu: 900, duration: 1m}]", 1),
    "at one moment": (
        "jobs: [{name: a, gpus: 8, duration: 1s}, {name: b, gpus: 8, duration: 1s}]",
        2,
    ),
    "never fits": ("jobs: [{name: a, gpus: 9, duration: 1s}, {name: b, gpus: 1, duration: 1s}]", 1),
    "a service alone": (
        "jobs: [{name: s, kind: inference, replicas: 3, min: 1, gpus: 1, load: {step: 1h}}]",
        0,
    ),
    "a start group": (
        "jobs: [{name: a, gpus: 4, start_group: g, duration: 1m}, "
        "{name: b, gpus: 4, arrival: 1m, start_group: g, duration: 1m}]",
        2,
    ),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_specs_are_answered_under_every_order(name: str):
    jobs, finished = ODD[name]
    text = SPEC.partition("jobs:")[0] + jobs
    orders = "fifo-strict,fifo-skip,sjf,priority,drf,easy,conservative,per-pod,cp-sat"

    table = rows("--policies", f"{orders},per-pod+cp-sat,easy+cp-sat", stdin=text)

    assert {row["finished"] for row in table} == {finished}


def test_priority_is_compared_where_priorities_differ():
    usual = [row["policy"] for row in rows()]
    others = [
        row["policy"] for row in rows(stdin=SPEC.replace("name: b,", "name: b, priority: 5,"))
    ]

    assert usual == list(BANDS)
    assert others == [*BANDS, "priority"]


def test_the_policies_of_the_default_are_listed():
    listed = re.sub(r"[\s│|]+", " ", unstrand("simulate", "--help").out)

    for names in (POLICIES, OPENB_POLICIES, TRACE_POLICIES):
        assert names.replace(",", ", ") in listed


def test_who_starves_is_told_from_what_never_fits():
    text = SPEC + "  - {name: huge, gpus: 16, duration: 1m}\n"
    text = text.replace("duration: 30m", "priority: 0")  # b does not end
    done = unstrand("simulate", "-", "--policies", "fifo-skip", "--output", "json", stdin=text)

    answer = json.loads(done.out)
    (row,) = answer["rows"]
    assert (row["unschedulable"], row["waiting"], row["running"]) == (1, 1, 1)
    assert [(left["job"], left["state"]) for left in row["left"]] == [
        ("huge", "unschedulable"),
        ("wide", "waiting"),
    ]
    assert any("still waits at the end: wide" in note for note in answer["notes"])
    assert any("never fits: huge" in note for note in answer["notes"])


# What is refused


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--policies", "fastest"), ("--policies", "fastest")),
        (("--policies", "easy+"), ("--policies",)),
        (("--policies", "easie+best-fit"), ("--policies", "easy")),
        (("--policies", "easy,easy"), ("--policies", "twice")),
        (("--policies", ""), ("--policies", "missing")),
        (("--policies", "easy,"), ("--policies", "missing")),
        (("--seeds", "9-3"), ("--seeds", "backwards")),
        (("--seeds", "x"), ("--seeds", "42-51")),
        (("--seeds", "1-99999999"), ("--seeds", "10,000")),
        (("--seeds", ""), ("--seeds",)),
        (("--trace", "opnb:/tmp"), ("--trace", "openb")),
        (("--trace", "openb"), ("--trace",)),
        (("--workload", "default"), ("--workload", "--trace")),
        (("--nodes", 3), ("--nodes", "--trace")),
        (("--nodes", 0), ("--nodes",)),
        (("--since", "2017-10-01"), ("--since", "--trace")),
        (("--trace", "synthetic:", "--since", "2017-10-01"), ("--since", "philly")),
        (("--trace", "philly:/tmp", "--since", "last week"), ("--since", "2017-10-01")),
        (("--trace", "synthetic:", "--nodes", 3), ("--nodes", "philly")),
        (("--trace", "helios:/tmp", "--workload", "x"), ("--workload", "philly")),
        (("--trace", "synthetic:jobs=5", "--trace", "synthetic:jobs=5"), ("--trace", "twice")),
        (("--engine", "cloud"), ("--engine", "ray")),
        (("--engine", "local:5"), ("--engine",)),
        (("--engine", "ray:"), ("--engine", "ray:HOST:PORT")),
        (("--engine", "ray:there"), ("--engine", "ray:HOST:PORT")),
        (("--penalty", "-1"), ("--penalty",)),
        (("--penalty", "nan"), ("--penalty", '"nan"', "from 0 to 100")),
        (("--penalty", "101"), ("--penalty", "from 0 to 100")),
        (("--round", "soon"), ("--round",)),
        (("--workers", 0), ("--workers",)),
        (("--plot", "day.txt"), ("--plot", ".svg")),
        (("--plot", "/nowhere/day.svg"), ("--plot",)),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, tuple) else None,
)
def test_a_wrong_option_is_refused_in_one_line(options: tuple, words: tuple[str, ...]):
    refused(unstrand("simulate", *options), 2, *words)


def test_a_spec_and_a_trace_are_one_too_many():
    refused(unstrand("simulate", "-", "--trace", "synthetic:", stdin=SPEC), 2, "--trace")


@pytest.mark.parametrize(
    "trace",
    [
        "openb:/nowhere",
        "philly:/nowhere",
        "helios:/nowhere",
        "acme:/nowhere",
        "synthetic:jobs=0",
        "synthetic:jobs=many",
        "synthetic:jops=5",
        "synthetic:jobs",
    ],
)
def test_a_trace_that_cannot_be_used_is_told_in_one_line(trace: str):
    done = unstrand("simulate", "--trace", trace)

    assert done.code in (2, 3)
    refused(done, done.code)


def test_an_unknown_workload_is_told_in_one_line(tmp_path: Path):
    refused(unstrand("simulate", "--trace", f"openb:{tmp_path}", "--workload", "none"), 3)


def test_a_file_where_runs_are_to_be_saved_is_refused(tmp_path: Path):
    (tmp_path / "taken").write_text("")

    refused(unstrand("simulate", "--save", tmp_path / "taken"), 2, "--save")


def test_a_spec_with_a_fault_is_refused_with_its_place():
    done = unstrand("simulate", "-", stdin=SPEC.replace("arrival: 1m", "arrival: soon"))

    assert done.code == 3
    assert done.out == ""
    assert "arrival" in done.err


def test_a_missing_spec_is_told_in_one_line():
    refused(unstrand("simulate", "/nowhere/spec.yaml"), 3)


def test_a_folder_that_cannot_be_made_is_told_in_one_line():
    refused(unstrand("simulate", "-", "--save", "/proc/x", stdin=SPEC), 3, "/proc/x", "another")


@pytest.mark.parametrize("workers", [1, 2])
def test_a_run_that_goes_wrong_leaves_the_rows_of_the_others(workers: int, tmp_path: Path):
    # Where the folder of a run should be is a file.
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "sjf-2").write_text("")
    done = unstrand(
        "simulate", "-", "--policies", "sjf,easy", "--seeds", "2,1", "--output", "json",
        "--save", tmp_path, "--workers", workers, stdin=SPEC,
    )  # fmt: skip

    assert done.code == 3
    assert "sjf with seed 2 on tiny" in done.err
    answer = json.loads(done.out)
    made = [(row["policy"], row["seed"]) for row in answer["rows"]]
    assert made == [("sjf", 1), ("easy", 2), ("easy", 1)]
    assert "not all went well: 3 of 4 runs are finished" in answer["notes"]


def test_running_work_is_counted_apart_and_one_is_one():
    text = SPEC.replace("jobs:", "running: [{job: r, replicas: [{node: n1, gpus: [0]}]}]\njobs:")

    apart = unstrand("simulate", "-", "--policies", "easy", stdin=text)

    assert "tiny: 3 jobs and 1 running on 1 node, 8 GPUs" in apart.out


# The published traces


@pytest.mark.skipif(not (SHARED / "data/traces/philly").is_dir(), reason="no ../shared/data/traces")
def test_a_philly_virtual_cluster_is_replayed_with_other_nodes_and_dates():
    philly = SHARED / "data/traces/philly"
    window = ("--since", "2017-10-10", "--until", "2017-10-20", "--nodes", 12)
    done = unstrand(
        "simulate", "--trace", f"philly:{philly}", "--workload", "2869ce", *window,
        "--policies", "fifo-strict", "--output", "json",
    )  # fmt: skip

    assert done.code == 0, done.err
    (row,) = json.loads(done.out)["rows"]
    assert row["trace"] == "philly 2869ce"
    assert row["finished"] + row["failed"] + row["unschedulable"] > 0
