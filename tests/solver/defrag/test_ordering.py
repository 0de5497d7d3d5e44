"""In which order moves are made: targets are free, circles are broken, the judge of steps sees."""

from __future__ import annotations

from dataclasses import replace

import pytest

from solver.defrag import ordering
from solver.defrag.ordering import schedule
from solver.defrag.replay import replay
from solver.defrag.steps import Action, Schedule, StepKind
from solver.problem import Problem
from solver.solution import Eviction, Move, Plan
from solver.verify import explain_violations, verify
from solver.workload import Preemption
from tests.scenario import Scenario, place

MOVABLE = Preemption(movable=True, checkpoint_age_s=100, restart_s=10)


def ordered(problem: Problem, plan: Plan) -> Schedule:
    problem = replace(problem, defragment=True)
    assert not verify(problem, plan), explain_violations(verify(problem, plan))
    found = schedule(problem, plan)
    assert replay(problem, plan, found.actions) == []
    return found


def kinds(found: Schedule) -> list[tuple[str, str]]:
    return [(action.kind.value, action.jobs[0]) for action in found.actions]


def swap(spare: int = 0) -> tuple[Problem, Plan]:
    """Two jobs change places on full nodes; a third node has `spare` GPUs."""
    story = Scenario().node("n1", gpus=2).node("n2", gpus=2)
    if spare:
        story.node("n3", gpus=spare)
    story.running("red", "n1", (0, 1), preemption=MOVABLE)
    story.running("blue", "n2", (0, 1), preemption=MOVABLE)
    return story.problem(), Plan.of(
        (), (), [Move("red", 0, "n2", (0, 1)), Move("blue", 0, "n1", (0, 1))]
    )


def test_a_chain_is_moved_from_its_free_end():
    story = Scenario().node("n1", gpus=2).node("n2", gpus=2).node("n3", gpus=2)
    story.running("a", "n1", (0, 1), preemption=MOVABLE)
    story.running("b", "n2", (0, 1), preemption=MOVABLE)
    plan = Plan.of((), (), [Move("a", 0, "n2", (0, 1)), Move("b", 0, "n3", (0, 1))])

    assert kinds(ordered(story.problem(), plan)) == [("move", "b"), ("move", "a")]


def test_victims_stop_first_and_starts_come_last():
    story = Scenario().node("n1", gpus=2).node("n2", gpus=2)
    story.running("mover", "n1", (0,), preemption=MOVABLE)
    story.running("victim", "n2", (0, 1))
    story.job("big", gpus=2, priority=9)
    plan = Plan.of(
        [place("big", "n1", (0, 1))], [Eviction("victim", (0,))], [Move("mover", 0, "n2", (0,))]
    )

    found = ordered(story.problem(), plan)

    assert kinds(found) == [("evict", "victim"), ("move", "mover"), ("start", "big")]


def test_a_swap_goes_through_free_space_and_pays_one_more_restart():
    found = ordered(*swap(spare=2))

    assert [kind for kind, _ in kinds(found)] == ["park", "move", "move"]
    assert found.cost_gpu_s == 2 * 2 * 110 + 2 * 10
    (cycle,) = found.cycles
    assert cycle.jobs == ("blue", "red")
    assert cycle.broken_by is StepKind.PARK
    assert cycle.cost_gpu_s == 20


def test_a_swap_without_free_space_is_named_and_one_of_the_two_pauses():
    found = ordered(*swap(spare=1))

    assert [kind for kind, _ in kinds(found)] == ["pause", "move", "resume"]
    (cycle,) = found.cycles
    assert cycle.jobs == ("blue", "red")
    assert cycle.broken_by is StepKind.PAUSE
    assert found.cost_gpu_s == 2 * 2 * 110


def test_cpu_alone_can_make_a_circle():
    story = Scenario().node("n1", gpus=4, cpu=10).node("n2", gpus=4, cpu=10)
    story.running("red", "n1", (0,), cpu=8, preemption=MOVABLE)
    story.running("blue", "n2", (0,), cpu=8, preemption=MOVABLE)
    plan = Plan.of((), (), [Move("red", 0, "n2", (3,)), Move("blue", 0, "n1", (3,))])

    assert [kind for kind, _ in kinds(ordered(story.problem(), plan))] == [
        "pause",
        "move",
        "resume",
    ]


def test_who_takes_what_another_needs_first_waits_for_it():
    """Greedily "a" would come to n2 at once, and nobody could ever leave there."""
    story = Scenario().node("n1", gpus=4).node("n2", gpus=4, cpu=10).node("n3", gpus=1)
    story.running("a", "n1", (0,), cpu=4, preemption=MOVABLE)
    story.running("b", "n3", (0,), cpu=4, preemption=MOVABLE)
    story.running("x", "n2", (0,), cpu=4, preemption=MOVABLE)
    plan = Plan.of(
        (), (), [Move("a", 0, "n2", (1,)), Move("b", 0, "n2", (2,)), Move("x", 0, "n3", (0,))]
    )

    assert kinds(ordered(story.problem(), plan)) == [("move", "b"), ("move", "x"), ("move", "a")]


def test_a_replica_may_shift_over_its_own_gpus():
    story = Scenario().node("n1", gpus=3).running("a", "n1", (0, 1), preemption=MOVABLE)
    plan = Plan.of((), (), [Move("a", 0, "n1", (1, 2))])

    assert kinds(ordered(story.problem(), plan)) == [("move", "a")]


def test_the_replay_finds_a_wrong_order_a_missing_step_and_a_start_too_soon():
    story = Scenario().node("n1", gpus=2).node("n2", gpus=2).node("n3", gpus=2)
    story.running("a", "n1", (0, 1), preemption=MOVABLE)
    story.running("b", "n2", (0, 1), preemption=MOVABLE)
    story.job("big", gpus=2)
    problem = replace(story.problem(), defragment=True)
    moves = [Move("a", 0, "n2", (0, 1)), Move("b", 0, "n3", (0, 1))]
    plan = Plan.of([place("big", "n1", (0, 1))], (), moves)
    good = schedule(problem, plan).actions
    assert [action.kind for action in good] == [StepKind.MOVE, StepKind.MOVE, StepKind.START]

    assert replay(problem, plan, good) == []
    assert "step 1 (move a)" in replay(problem, plan, (good[1], good[0], good[2]))[0]
    assert "never started" in replay(problem, plan, good[:2])[0]
    assert "step 1 (start big)" in replay(problem, plan, (good[2], *good[:2]))[0]
    assert 'job "a": ends at' in replay(problem, plan, (good[0],))[0]


def test_the_replay_finds_steps_about_what_does_not_run():
    problem, plan = swap(spare=2)
    stray = Action(kind=StepKind.EVICT, jobs=("nobody",), replicas=(0,))
    twice = Action(kind=StepKind.PAUSE, jobs=("red",), replicas=(0,))

    assert "does not run" in replay(problem, plan, (stray,))[0]
    assert "does not run" in replay(problem, plan, (twice, twice))[0]


def test_whoever_has_room_goes_where_no_better_order_was_looked_for(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(ordering, "PATIENCE", 0)
    story = Scenario()
    for name in ("n1", "n2", "n3", "n4", "n5"):
        story.node(name, gpus=2)
    for name, node in (("a", "n1"), ("b", "n2"), ("red", "n4"), ("blue", "n5")):
        story.running(name, node, (0, 1), preemption=MOVABLE)
    chain = [Move("a", 0, "n2", (0, 1)), Move("b", 0, "n3", (0, 1))]
    swapped = [Move("red", 0, "n5", (0, 1)), Move("blue", 0, "n4", (0, 1))]

    found = ordered(story.problem(), Plan.of((), (), [*swapped, *chain]))

    assert kinds(found)[:2] == [("move", "b"), ("move", "a")]
    assert [cycle.broken_by for cycle in found.cycles] == [StepKind.PARK]
