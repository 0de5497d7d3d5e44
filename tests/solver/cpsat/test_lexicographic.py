"""Step after step: what happens where a step ran out of time and is improved later on."""

from __future__ import annotations

import pytest
from ortools.sat.python import cp_model

from solver.api import solve
from solver.cpsat import lexicographic
from solver.linear import NumbersTooLargeError, weighted
from solver.options import SolveOptions
from solver.result import SolveStatus
from solver.search import Outcome, search
from solver.tiers import Ruler
from solver.verify import verify
from tests.scenario import Scenario, place, plan


def test_a_plan_that_starts_more_may_span_more_groups(monkeypatch):
    """Nothing is found until patterns propose a plan: better in ``started``, worse in racks.

    By then the model holds the racks to what they were, which no such plan can keep.
    """
    story = Scenario(levels=["rack"], shuffle=False)
    for name, rack, held in (("n1", "A", 2), ("n2", "A", 0), ("n3", "B", 0)):
        story.node(name, gpus=4, at={"rack": rack}, labels={"zone": "x"})
        story.running(f"on-{name}", name, list(range(held)))
    for name in ("n4", "n5"):
        story.node(name, gpus=4, at={"rack": "C"}, labels={"zone": "y"})
        story.running(f"on-{name}", name, [0, 1, 2])
    story.job("large", replicas=2, gpus=4, selector={"zone": "x"})
    story.job("small", replicas=2, gpus=1, selector={"zone": "y"})
    problem = story.problem()
    small = [place("small", "n4", [3]), place("small", "n5", [3], replica=1)]
    large = [
        place("large", "n2", [0, 1, 2, 3]),
        place("large", "n3", [0, 1, 2, 3], replica=1),
    ]
    less, more = plan(*small), plan(*small, *large)
    assert not verify(problem, more)
    proposed = []

    class Proposal:
        bound = None
        plan = less

        def __init__(self, *_args, **_limits):
            pass

        def glance(self):
            pass

        def look(self, _plan):
            self.plan = more
            proposed.append(more)

    def search_in_vain_at_first(*args):
        nothing = Outcome(
            found=False, proved=False, bound=None, value_of=lambda _: 0,
            deterministic_time=0.0, interrupted=False,
        )  # fmt: skip
        return search(*args) if proposed else nothing

    monkeypatch.setattr(lexicographic, "PatternSearch", Proposal)
    monkeypatch.setattr(lexicographic, "search", search_in_vain_at_first)
    ruler = Ruler(problem)

    improved = lexicographic.improve(problem, ruler, less, SolveOptions(workers=1))

    assert proposed
    values = ruler.measure(improved.plan)
    assert values == ruler.measure(more)
    for step, value, bound in zip(ruler.steps, values, improved.bounds, strict=True):
        assert not step.better(value, bound), step


def test_amounts_beyond_64_bits_end_with_the_best_plan_so_far():
    story = Scenario(shuffle=False)
    for n in range(5):
        story.node(f"n{n}", gpus=8, cpu=999_999_937 * 10**6)
    story.queue("heavy", weight=999_983).queue("light", weight=1)
    story.job("a", queue="heavy", gang=False, replicas=30, gpus=1, cpu=9_999_991)
    story.job("b", queue="light", replicas=3, gpus=8)
    problem = story.problem()
    ruler = Ruler(problem)

    improved = lexicographic.improve(problem, ruler, plan(), SolveOptions(workers=1))

    assert not verify(problem, improved.plan)
    assert any("too large to count with" in note for note in improved.notes)


def test_coefficients_beyond_64_bits_are_refused_by_name():
    x = cp_model.CpModel().new_bool_var("x")

    with pytest.raises(NumbersTooLargeError):
        weighted([(x, 2**60)])
    with pytest.raises(NumbersTooLargeError):
        weighted([(x, 1), (2**40, 2**20)])


@pytest.mark.parametrize(("gap", "searched"), [(0.0, True), (1.0, False)])
def test_a_step_that_is_good_enough_is_not_searched(gap: float, searched: bool, monkeypatch):
    made = []

    def counted(*args):
        made.append(1)
        return search(*args)

    monkeypatch.setattr(lexicographic, "search", counted)
    monkeypatch.setattr(lexicographic, "patterns_apply", lambda problem, step: False)
    problem = Scenario().node("n1", gpus=8).job("a", gpus=5).job("b", gpus=9).job("c", gpus=4)

    result = solve(problem.problem(), SolveOptions(workers=1, gap=gap))

    assert bool(made) == searched
    assert (result.status is SolveStatus.OPTIMAL) == searched
