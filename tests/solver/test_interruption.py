"""Ctrl-C ends the search, not the answer."""

from __future__ import annotations

import pytest

from solver import api, greedy
from solver.cpsat import lexicographic
from solver.result import SolveStatus
from tests.scenario import Scenario


def crowded():
    return (
        Scenario().node("n1", gpus=8).node("n2", gpus=8).job("a", gpus=5).job("b", gpus=9).problem()
    )


def test_ctrl_c_while_greedy_policies_are_tried_returns_the_best_plan_so_far(monkeypatch):
    place = greedy.place
    tried = []

    def second_is_interrupted(problem, name, seed=1):
        tried.append(name)
        if len(tried) == 2:
            raise KeyboardInterrupt
        return place(problem, name, seed)

    monkeypatch.setattr(greedy, "place", second_is_interrupted)

    result = api.solve(crowded())

    assert [placement.job for placement in result.plan.placements] == ["a"]
    assert len(tried) == 2
    assert result.status in (SolveStatus.FEASIBLE, SolveStatus.OPTIMAL)
    assert any("interrupted" in note for note in result.notes)


def test_ctrl_c_before_there_is_any_plan_is_passed_on(monkeypatch):
    def interrupted(problem, name, seed=1):
        raise KeyboardInterrupt

    monkeypatch.setattr(greedy, "place", interrupted)

    with pytest.raises(KeyboardInterrupt):
        api.solve(crowded())


def test_ctrl_c_while_the_model_is_built_returns_the_incumbent(monkeypatch):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(lexicographic, "PlacementModel", interrupted)
    monkeypatch.setattr(lexicographic, "patterns_apply", lambda problem, step: False)
    problem = (
        Scenario().node("n1", gpus=8).job("a", gpus=5).job("b", gpus=4).job("c", gpus=4).problem()
    )

    result = api.solve(problem)

    assert result.plan.placements
    assert any("interrupted" in note for note in result.notes)
