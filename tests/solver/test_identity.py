"""What is kept for the same objects is never taken for others."""

from dataclasses import replace

import pytest

from solver.problem import ProblemError
from solver.state import initial_states
from tests.scenario import Scenario


def test_states_follow_the_running_work_of_each_problem():
    story = Scenario().node("n", gpus=2)
    empty = story.problem()
    busy = story.running("r", "n", [0]).problem()

    for _ in range(2):
        assert initial_states(empty)["n"].free_milli == 2000
        assert initial_states(busy)["n"].free_milli == 1000
    assert initial_states(replace(busy, name="other"))["n"].free_milli == 1000


def test_what_a_caller_does_to_states_is_its_own():
    problem = Scenario().node("n", gpus=2).problem()

    initial_states(problem).clear()

    assert initial_states(problem)["n"].free_milli == 2000


def test_running_work_is_checked_against_the_nodes_of_each_problem():
    problem = Scenario().node("n", gpus=2).running("r", "n", [1]).problem()
    replace(problem, name="again")

    with pytest.raises(ProblemError, match="node 'n' does not exist"):
        replace(problem, nodes=())
