"""Synthetic traces: the same for the same text, with the load that was asked for."""

from collections import Counter
from itertools import pairwise
from statistics import mean, median

import pytest

from simulator.traces.synthetic import LIMITS, Recipe, recipe_of, synthetic
from simulator.traces.table import TraceError


def gpus_of(arrival) -> float:
    shapes = [(role.replicas, role.shape) for role in arrival.job.roles]
    return sum(replicas * (shape.gpus or shape.share_milli / 1000) for replicas, shape in shapes)


def test_the_same_text_gives_the_same_scenario():
    first, again = (synthetic("jobs=200,nodes=4,seed=7") for _ in range(2))

    assert first.arrivals == again.arrivals
    assert [node.name for node in first.nodes] == [node.name for node in again.nodes]
    assert first.notes == again.notes


def test_another_seed_gives_another_trace():
    one, other = (synthetic(f"jobs=200,seed={seed}") for seed in (1, 2))

    assert one.arrivals != other.arrivals


def test_an_empty_text_takes_the_defaults():
    assert recipe_of("") == recipe_of(" , ") == Recipe()
    assert set(LIMITS) == {*Recipe.__dataclass_fields__}


def test_spaces_and_the_order_of_keys_do_not_matter():
    assert recipe_of(" load = 1.5 ,jobs=3") == recipe_of("jobs=3,load=1.5")


@pytest.mark.parametrize("load", [0.5, 0.95, 2])
def test_the_offered_load_is_what_was_asked_for(load):
    scenario = synthetic(f"jobs=5000,nodes=64,load={load}")

    gpu_ms = sum(gpus_of(arrival) * (arrival.duration_ms or 0) for arrival in scenario.arrivals)
    assert gpu_ms / (64 * 8 * scenario.arrivals[-1].arrival_ms) == pytest.approx(load, rel=0.06)


def test_arrivals_are_a_poisson_process():
    times = [arrival.arrival_ms for arrival in synthetic("jobs=5000").arrivals]

    gaps = [later - earlier for earlier, later in pairwise(times)]

    # Gaps of a Poisson process are exponential: the median is ln 2 of the mean.
    assert median(gaps) / mean(gaps) == pytest.approx(0.693, abs=0.03)


def test_run_times_have_their_median_and_a_long_tail():
    seconds = [(a.duration_ms or 0) / 1000 for a in synthetic("jobs=5000,median_s=600").arrivals]

    assert median(seconds) == pytest.approx(600, rel=0.08)
    assert mean(seconds) > 2 * median(seconds)


def test_gangs_of_every_size_come_and_large_ones_are_replicas_of_8():
    scenario = synthetic("jobs=3000,nodes=8,shares=0")

    assert {gpus_of(arrival) for arrival in scenario.arrivals} == {1, 2, 4, 8, 16, 32, 64}
    for arrival in scenario.arrivals:
        (role,) = arrival.job.roles
        assert (role.replicas > 1) == (gpus_of(arrival) > 8)
        assert role.min_replicas == role.replicas


def test_no_gang_is_larger_than_the_cluster_and_every_replica_fits_an_empty_node():
    scenario = synthetic("jobs=3000,nodes=3")

    assert max(gpus_of(arrival) for arrival in scenario.arrivals) == 16
    (cpu_milli,) = {node.cpu_milli for node in scenario.nodes}
    (memory_mib,) = {node.memory_mib for node in scenario.nodes}
    assert (cpu_milli, memory_mib) == (128_000, 1_048_576)
    for arrival in scenario.arrivals:
        shape = arrival.job.roles[0].shape
        assert shape.gpus <= 8
        assert 0 < shape.cpu_milli <= cpu_milli
        assert 0 < shape.memory_mib <= memory_mib


def test_some_replicas_take_more_than_their_part_of_the_cpu():
    shapes = [arrival.job.roles[0].shape for arrival in synthetic("jobs=1000").arrivals]

    assert any(shape.gpus and shape.cpu_milli > 16_000 * shape.gpus for shape in shapes)


@pytest.mark.parametrize("shares", [0, 0.1, 1])
def test_the_part_of_shares_is_what_was_asked_for(shares):
    scenario = synthetic(f"jobs=4000,shares={shares}")

    count = sum(arrival.job.roles[0].shape.is_share for arrival in scenario.arrivals)
    assert count / 4000 == pytest.approx(shares, abs=0.02)


def test_tenants_submit_less_the_later_they_come():
    scenario = synthetic("jobs=6000,queues=3")

    counts = Counter(arrival.job.queue for arrival in scenario.arrivals)
    assert [queue.name for queue in scenario.queues] == ["q0", "q1", "q2"]
    assert counts["q0"] / counts["q1"] == pytest.approx(2, rel=0.15)
    assert counts["q0"] / counts["q2"] == pytest.approx(3, rel=0.15)
    assert scenario.problem.jobs


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("job=5", 'there is no key "job". Did you mean "jobs"? Known keys: jobs, load, median_s'),
        ("jobs", '"jobs" is not KEY=VALUE. Write jobs=1000,load=0.8'),
        ("jobs=1,jobs=2", 'the key "jobs" is there twice. Keep one of them'),
        (
            "jobs=0",
            'jobs is a whole number from 1 to 10000000, not "0". The default is 1000',
        ),
        ("jobs=1.5", 'jobs is a whole number from 1 to 10000000, not "1.5"'),
        ("jobs=1_0", 'jobs is a whole number from 1 to 10000000, not "1_0"'),
        ("load=nan", 'load is a number from 0.001 to 100, not "nan". The default is 0.8'),
        ("shares=2", 'shares is a number from 0 to 1, not "2". The default is 0.1'),
        ("seed=-1", 'seed is a whole number from 0 to 9007199254740992, not "-1"'),
        ("nodes=", 'nodes is a whole number from 1 to 1000000, not "". The default is 16'),
    ],
)
def test_unknown_keys_and_bad_values_are_refused_with_a_way_out(text, message):
    with pytest.raises(TraceError) as caught:
        synthetic(text)

    assert str(caught.value).startswith(f"synthetic: {message}")
