"""Whole-node patterns prove nothing that a plan with other CPU-only jobs could beat."""

from __future__ import annotations

from solver.aggregate.bound import Kept
from solver.aggregate.search import PatternSearch
from solver.tiers import Ruler
from solver.verify import verify
from tests.scenario import Scenario, place, plan


def test_the_age_of_a_gang_may_be_made_up_for_by_jobs_that_patterns_leave_out():
    """Either the older gang, on two nodes, with the younger CPU-only job, or the other two.

    Limits admit one gang and one CPU-only job, and the two older ones want the same CPU. Both
    plans start as much of the same age; the second one spans no node too many.
    """
    story = Scenario(shuffle=False).queue("other").queue("gpu", limit=4).queue("cpu", cpu_limit=4)
    story.node("n1", gpus=4, cpu=4, labels={"zone": "a"}).node("n2", gpus=4, labels={"zone": "a"})
    story.node("n3", gpus=4, labels={"zone": "b"}).node("n4", cpu=4, labels={"zone": "c"})
    story.running("r1", "n1", [0, 1]).running("r2", "n2", [0, 1])
    pair = {"replicas": 2, "gpus": 2, "queue": "gpu"}
    story.job("older", cpu=1, selector={"zone": "a"}, **pair)
    story.job("younger", selector={"zone": "b"}, **pair)
    story.job("old-cpu", cpu=4, queue="cpu", selector={"kubernetes.io/hostname": "n1"})
    story.job("new-cpu", cpu=4, queue="cpu", selector={"zone": "c"})
    problem = story.objectives("priority", "topology").problem()
    split = plan(
        place("older", "n1", [2, 3]),
        place("older", "n2", [2, 3], replica=1),
        place("new-cpu", "n4"),
    )
    whole = plan(
        place("younger", "n3", [0, 1]),
        place("younger", "n3", [2, 3], replica=1),
        place("old-cpu", "n1"),
    )
    ruler = Ruler(problem)
    values = ruler.measure(split)
    at = next(place for place, step in enumerate(ruler.steps) if step.kind == "groups")
    assert not verify(problem, split)
    assert not verify(problem, whole)
    assert (values[:at], values[at]) == (ruler.measure(whole)[:at], 1)

    kept = [Kept(step, value) for step, value in zip(ruler.steps[:at], values, strict=False)]
    search = PatternSearch(
        ruler, ruler.steps[at], kept, split, time_s=20, seed=1, deterministic=1.0
    )
    search.glance()
    search.look(split)

    assert ruler.measure(whole)[at] == 0
    assert search.bound is not None
    assert search.bound <= 0
