"""The inter-island penalty: split jobs run longer, and who looks at islands avoids it."""

from __future__ import annotations

import pytest

from tests.simulator.story import Story

PAIRS = {(0, 1): "NV12", (2, 3): "NV12"}


def one_gpu_free_in_each_island() -> Story:
    """On n1 GPUs 1 and 3 are free, in two islands; n2 is empty."""
    story = Story().node("n1", gpus=4, links=PAIRS).node("n2", gpus=4, links=PAIRS)
    story.standing("a", "n1", [0], runs=500).standing("b", "n1", [2], runs=500)
    return story.job("pair", runs=100, gpus=2)


@pytest.mark.parametrize(
    ("penalty", "end_s"), [(0, 100), (0.2, 120), (0.25, 125), (0.5, 150), (1, 200), (2, 300)]
)
def test_a_job_split_over_islands_runs_longer(penalty: float, end_s: float):
    told = one_gpu_free_in_each_island().under("fifo-skip+best-fit", penalty=penalty)

    assert told.end_s("pair") == end_s


@pytest.mark.parametrize("penalty", [0.3, 0.7])
def test_a_long_job_runs_exactly_so_much_longer(penalty: float):
    story = Story().node("n1", gpus=4, links=PAIRS)
    story.standing("a", "n1", [0]).standing("b", "n1", [2])

    told = story.job("pair", runs=100_000, gpus=2).under("fifo-skip+best-fit", penalty=penalty)

    assert told.end_s("pair") == pytest.approx(100_000 * (1 + penalty), abs=0.001)


def test_topology_aware_placement_avoids_it():
    told = one_gpu_free_in_each_island().under("fifo-skip+topology-aware", penalty=0.5)

    assert told.end_s("pair") == 100


def test_a_job_that_needs_two_islands_anyway_is_not_split():
    story = Story().node("n1", gpus=4, links=PAIRS).job("all", runs=100, gpus=4)

    assert story.under("fifo-skip+best-fit", penalty=1).end_s("all") == 100


def test_a_gang_over_more_domains_than_it_needs_is_split():
    story = Story()
    for n in range(4):
        story.node(f"n{n}", gpus=2, domain=f"d{n % 2}")
    story.standing("a", "n0", [0, 1], runs=500).standing("b", "n1", [0, 1], runs=500)

    told = story.job("gang", runs=100, replicas=2, gpus=2).under("fifo-skip", penalty=1)

    assert told.end_s("gang") == 200


def test_a_gang_in_one_domain_is_not_split():
    story = Story()
    for n in range(4):
        story.node(f"n{n}", gpus=2, domain=f"d{n % 2}")
    story.standing("a", "n0", [0, 1], runs=500)

    told = story.job("gang", runs=100, replicas=2, gpus=2).under(
        "fifo-skip+topology-aware", penalty=1
    )

    assert told.end_s("gang") == 100


def test_a_job_that_goes_on_in_a_better_place_is_faster_there():
    story = Story().node("n1", gpus=4, links=PAIRS)
    story.standing("a", "n1", [0], runs=20, preemptible=False)
    story.standing("b", "n1", [2], runs=20, preemptible=False)
    story.job("pair", runs=100, gpus=2, checkpoint=10, restart=0)

    told = story.job("high", at=20, runs=10, gpus=4, priority=1).under("priority", penalty=1)

    # 20 s at half its speed do 10 s of work; the other 90 s at full speed from 30.
    assert told.times_s("start", "pair") == [0, 30]
    assert told.end_s("pair") == 120
