from xml.etree import ElementTree

import pytest

from benchmarks.gaps import admission_gap, cost_gaps, worst_values
from benchmarks.growth import Point, growth_svg
from benchmarks.instances import SIZES, half_occupied
from benchmarks.never_worse import anything
from solver.result import ObjectiveTerm
from tests.scenario import Scenario


def term(name: str, step: str, value: float, bound: float, level: int | None = None):
    return ObjectiveTerm(
        name=name, level=level, step=step, sense="max", unit="", value=value, bound=bound
    )


def test_gaps_of_all_levels_add_up_and_age_counts_by_the_number_of_jobs():
    problem = Scenario().node("n", gpus=8).job("a", gpus=1).job("b", gpus=1).problem()
    terms = [
        term("priority", "started", 9_000, 10_000, level=4),
        term("priority", "oldest", 16_000, 20_000, level=4),
        term("priority", "started", 5_000, 6_000, level=1),
        term("priority", "cpu-only", 0, 99_000, level=1),
        term("stranded", "gpus", 3, 0),
    ]

    assert admission_gap(problem, terms, 20.0) == pytest.approx((1 + 2 + 1) / 20)
    assert cost_gaps(problem, terms, {"stranded": 6.0}) == {"stranded gpus": 0.5}


def test_the_worst_values_count_what_a_cluster_could_lose():
    problem = half_occupied(SIZES["S"], 1)

    worst = worst_values(problem)

    assert worst["stranded"] == 64
    assert worst["groups"] == sum(j.replicas for j in problem.jobs if j.replicas > 1)
    assert worst["links"] == 0, "behind a switch all sets of GPUs are alike"


def test_clusters_of_every_sort_are_repeatable_and_differ():
    assert anything(3).work == anything(3).work
    assert anything(3).work != anything(4).work


def test_growth_is_drawn_with_every_point_and_its_gap():
    points = [
        Point(128, 0.0, {"whole process": 1.0, "memory, GiB": 0.1}),
        Point(10_000, 0.00014, {"whole process": 8, "memory, GiB": 0.2, "first checked plan": 0.6}),
    ]

    drawn = ElementTree.fromstring(growth_svg(points))

    words = [text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert {"optimal", "gap 0.014 %", "100", "10,000", "whole process"} <= set(words)
    assert len(list(drawn.iter("{http://www.w3.org/2000/svg}circle"))) == 5
