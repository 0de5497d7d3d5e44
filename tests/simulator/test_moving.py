"""The order ``defrag``: running work moves together for a job that finds its room in pieces."""

from __future__ import annotations

import pytest

from solver.workload import TopologyRule
from tests.simulator.story import Story

KEPT = {"checkpoint": 5, "restart": 3}
"""How work of these stories is saved, in seconds."""


def two_halves(runs: float = 100, **facts: object) -> Story:
    """Two nodes, each half full; from 12 on a job wants a whole one.

    At 12 stopping `a` loses 2 GPUs times (2 s since its checkpoint + 3 s) = 10 GPU-seconds, and
    stopping `b`, a second younger, 8.
    """
    story = Story().node("n1", gpus=4).node("n2", gpus=4)
    story.job("a", runs=runs, gpus=2, **{**KEPT, **facts})
    story.job("b", at=1, runs=runs, gpus=2, **{**KEPT, **facts})
    return story.job("wide", at=12, runs=10, gpus=4)


def test_the_job_that_loses_least_moves():
    told = two_halves().under("defrag+worst-fit")

    assert told.start_s("wide") == 12
    assert (told.lost_gpu_s("a"), told.lost_gpu_s("b")) == (0, 8)
    assert told.end_s("b") == 1 + 100 + 1 + 3
    assert told.times_s("move", "b") == [12]
    assert told.summary.preemptions == 1


def test_without_moves_it_waits_for_the_end_of_one():
    assert two_halves().under("fifo-skip+worst-fit").start_s("wide") == 100


@pytest.mark.parametrize(("runs", "start"), [(14, 14), (15, 12)])
def test_moves_have_to_gain_more_than_they_lose(runs: float, start: float):
    # Without moves it starts when `a` ends: 4 GPUs times 2 or 3 s of waiting, against 8 lost.
    assert two_halves(runs).under("defrag+worst-fit").start_s("wide") == start


@pytest.mark.parametrize("facts", [{"preemptible": False}, {"kind": "inference"}])
def test_fixed_work_and_services_do_not_move(facts: dict[str, object]):
    assert two_halves(**facts).under("defrag+worst-fit").start_s("wide") == 100


def test_a_gang_restarts_whole_whatever_part_of_it_moves():
    story = Story().node("n1", gpus=4).node("n2", gpus=4).node("n3", gpus=2)
    story.job("gang", runs=100, replicas=2, gpus=2, **KEPT)
    story.job("short", runs=6, gpus=2)
    story.job("wide", at=7, runs=10, gpus=4)

    told = story.under("defrag+worst-fit")

    assert told.start_s("wide") == 7
    assert told.lost_gpu_s("gang") == 4 * (2 + 3)


def test_what_moves_makes_room_for_one_job_at_a_time():
    story = two_halves().job("second", at=12, runs=5, gpus=4)

    told = story.under("defrag+worst-fit")

    assert told.starts("wide", "second") == {"wide": 12, "second": 22}
    assert told.times_s("move", "b") == [12]


def test_surplus_is_given_up_and_what_is_left_moves_together():
    story = Story().node("n1", gpus=4).node("n2", gpus=4)
    story.job("grown", runs=400, replicas=6, min=2, gpus=1, **KEPT)
    story.job("fixed", runs=100, gpus=2, preemptible=False)
    story.job("wide", at=12, runs=10, gpus=4)

    told = story.under("defrag+worst-fit")

    # Beside the fixed one there is room for the two replicas that it cannot do without.
    assert told.starts("fixed", "wide") == {"fixed": 0, "wide": 12}
    assert [told.gpus_at(time_s, "grown") for time_s in (11, 12, 22)] == [6, 2, 6]
    assert told.lost_gpu_s("grown") == 6 * 2 + 2 * 3


def test_a_job_that_does_not_fit_in_any_pieces_moves_nobody():
    told = two_halves().job("more", at=11, runs=1, gpus=3).under("defrag+worst-fit")

    assert told.times_s("move", "a") + told.times_s("move", "b") == [11]
    assert told.start_s("wide") == 12


def test_a_gang_that_has_to_be_in_one_domain_is_not_torn_apart():
    story = Story().node("n1", gpus=4, domain="d").node("n2", gpus=4, domain="d")
    story.node("n3", gpus=2)
    story.job("gang", runs=100, replicas=2, gpus=2, topology=TopologyRule(within="domain"), **KEPT)
    story.job("fill", runs=6, gpus=2).job("fills", runs=200, gpus=2)
    story.job("wide", at=7, runs=10, gpus=4)

    told = story.under("defrag+worst-fit")

    assert told.times_s("move", "gang") == []
    assert told.start_s("wide") == 100
