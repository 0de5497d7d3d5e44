"""The published formulas, computed by hand (Weng et al., ATC 2023; C = 128 CPU, G = 8 GPUs)."""

from __future__ import annotations

import pytest

from solver.greedy.best_fit import best_fit_score
from solver.greedy.dominant_fit import dominant_leftover_ratio
from solver.greedy.dot_product import dot_product_score
from solver.greedy.fgd import fgd_score
from solver.greedy.gpu_clustering import gpu_clustering_score
from solver.greedy.gpu_packing import gpu_packing_score
from solver.greedy.scoring import Demand, Scale, work_kind
from solver.greedy.worst_fit import worst_fit_score
from tests.scenario import Scenario, shape

SCALE = Scale(128_000, 8_000)
WHOLE = Demand(16_000, 2, 1000)
SHARE = Demand(8_000, 1, 460)


@pytest.mark.parametrize(
    ("cpu_left", "gpu_left", "demand", "score"),
    [
        (16_000, 2_000, WHOLE, 100),  # nothing is left
        (128_000, 8_000, WHOLE, 18),  # 1 - (.875 + .75) / 2 = .1875
        (64_000, 5_000, WHOLE, 62),  # 1 - (.375 + .375) / 2 = .625
        (128_000, 8_000, SHARE, 6),  # 1 - (.9375 + .9425) / 2 = .06: the very edge of an integer
        (None, 5_000, WHOLE, 81),  # no CPU limit: 1 - .375 / 2 = .8125
    ],
)
def test_best_fit_is_the_mean_of_what_is_gone_truncated(
    cpu_left: int | None, gpu_left: int, demand: Demand, score: int
) -> None:
    assert best_fit_score(cpu_left, gpu_left, demand, SCALE) == score


def test_best_fit_does_not_see_differences_below_one_percent() -> None:
    tight = best_fit_score(17_000, 2_000, WHOLE, SCALE)
    loose = best_fit_score(18_000, 2_000, WHOLE, SCALE)

    assert tight == loose == 99


@pytest.mark.parametrize(
    ("cpu_left", "gpu_left", "score"), [(16_000, 2_000, 0), (64_000, 5_000, 37), (None, 5_000, 18)]
)
def test_worst_fit_is_the_mirror_of_best_fit(
    cpu_left: int | None, gpu_left: int, score: int
) -> None:
    assert worst_fit_score(cpu_left, gpu_left, WHOLE, SCALE) == score


def test_dominant_leftover_looks_only_at_the_largest_leftover() -> None:
    scale = Scale(128_000, 8_000, 1000)
    demand = Demand(16_000, 2, 1000, 100)

    assert dominant_leftover_ratio(48_000, 4_000, 200, demand, scale) == 0.25
    assert dominant_leftover_ratio(80_000, 4_000, 200, demand, scale) == 0.5
    assert dominant_leftover_ratio(48_000, 4_000, 900, demand, scale) == 0.8
    assert dominant_leftover_ratio(None, 4_000, None, demand, scale) == 0.25


@pytest.mark.parametrize(
    ("cpu_left", "gpu_left", "score"),
    [
        (128_000, 8_000, 81),  # 1 - (1 * .125 + 1 * .25) / 2 = .8125
        (64_000, 2_000, 93),  # 1 - (.5 * .125 + .25 * .25) / 2 = .9375
        (None, 8_000, 87),  # no CPU limit: 1 - .25 / 2 = .875
    ],
)
def test_dot_product_prefers_nodes_with_little_of_what_is_asked(
    cpu_left: int | None, gpu_left: int, score: int
) -> None:
    assert dot_product_score(cpu_left, gpu_left, WHOLE, SCALE) == score


@pytest.mark.parametrize(
    ("left", "feasible", "gpus", "score"),
    [
        ([1000] * 8, [1000] * 8, 1, 25),  # idle node of 8: 33 - 8
        ([1000] * 4, [1000] * 4, 1, 29),
        ([1000] * 20, [1000] * 20, 1, 20),  # max(33 - 20, 20)
        ([0, 1000, 1000], [1000, 1000], 1, 49),  # one idle GPU of a node in use
        ([0, 1000, 1000], [1000, 1000], 2, 48),
        ([0] + [1000] * 19, [1000] * 19, 18, 33),  # max(50 - 18, 33)
        ([460, 1000], [460, 1000], 1, 96),  # 100 - trunc(46 / 10)
        ([995, 1000], [995, 1000], 1, 91),  # 100 - trunc(99 / 10)
        ([460, 1000], [460, 1000], 0, 0),  # no GPU asked
    ],
)
def test_gpu_packing_ranks_shared_gpus_then_used_nodes_then_idle_ones(
    left: list[int], feasible: list[int], gpus: int, score: int
) -> None:
    assert gpu_packing_score(left, feasible, gpus) == score


@pytest.mark.parametrize(
    ("gpu_left", "kinds", "kind", "score"),
    [
        (8_000, set(), "1", 25),  # an idle node
        (4_500, {"1"}, "1", 75 + 10),  # trunc(25 * 3500 / 8000) = 10
        (4_500, {"1", "2"}, "1", 50 + 10),
        (4_500, {"2"}, "1", 10),
        (4_500, set(), "1", 25 + 10),  # a small node without GPU work
        (4_500, {"1"}, None, 0),
    ],
)
def test_gpu_clustering_prefers_its_own_kind(
    gpu_left: int, kinds: set[str], kind: str | None, score: int
) -> None:
    assert gpu_clustering_score(gpu_left, kinds, kind, SCALE) == score


def test_kinds_are_fractions_and_numbers_of_gpus() -> None:
    shapes = [shape(0.5), shape(gpu_memory_gib=10), shape(1), shape(8), shape(cpu=1)]

    assert [work_kind(s) for s in shapes] == ["fraction", "fraction", "1", "8", None]


@pytest.mark.parametrize(
    ("before", "after", "score"),
    [(700, 700, 50), (1000, 0, 73), (0, 1000, 26), (0, 0.001, 49), (8000, 0, 99)],
)
def test_fgd_is_a_sigmoid_of_the_gradient(before: float, after: float, score: int) -> None:
    assert fgd_score(before, after) == score


def test_the_scale_is_the_largest_node_of_the_problem() -> None:
    story = Scenario().node("a", gpus=8, cpu=64, memory_gib=1).node("b", gpus=4, cpu=128)

    assert Scale.of(story.problem()) == Scale(128_000, 8_000, 1024)


def test_a_share_by_memory_counts_as_on_the_largest_gpu_of_the_node() -> None:
    node = Scenario().node("n", gpus=1, gpu_memory_gib=40).problem().nodes[0]

    assert Demand.on(node, shape(gpu_memory_gib=10, cpu=2)) == Demand(2000, 1, 250)
