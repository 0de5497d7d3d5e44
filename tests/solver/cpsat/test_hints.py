"""A hint gives every variable of the model its value, and these values are a solution of it."""

from __future__ import annotations

from hypothesis import given, settings
from ortools.sat.python import cp_model

from solver import greedy
from solver.cpsat.model import LOOKS_AT_NODES, PlacementModel
from solver.tiers import Ruler
from tests.strategies import small_problems


def check(problem, *, merge: bool) -> None:
    ruler = Ruler(problem)
    plan = greedy.place(problem, "best-fit", 1)
    placement = PlacementModel(problem, ruler, lambda: None, merge=merge)
    steps = [step for step in ruler.steps if not (merge and step.kind in LOOKS_AT_NODES)]
    for step in steps:
        placement.keep(step, ruler.value(step, plan))

    placement.variables.hint(plan)

    proto = placement.variables.model.proto
    assert sorted(proto.solution_hint.vars) == list(range(len(proto.variables)))
    solver = cp_model.CpSolver()
    solver.parameters.fix_variables_to_their_hinted_value = True
    solver.parameters.num_workers = 1
    assert solver.solve(placement.variables.model) in (cp_model.OPTIMAL, cp_model.FEASIBLE)


@settings(deadline=None)
@given(small_problems())
def test_a_greedy_plan_is_a_complete_and_feasible_hint_of_the_model_of_named_nodes(problem):
    check(problem, merge=False)


@settings(deadline=None)
@given(small_problems())
def test_a_greedy_plan_is_a_complete_and_feasible_hint_of_the_model_of_classes(problem):
    check(problem, merge=True)


def test_a_wrong_hint_would_be_noticed():
    model = cp_model.CpModel()
    number = model.new_int_var(0, 3, "number")
    model.add(number >= 2)
    model.add_hint(number, 1)
    solver = cp_model.CpSolver()
    solver.parameters.fix_variables_to_their_hinted_value = True

    assert solver.solve(model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE)
