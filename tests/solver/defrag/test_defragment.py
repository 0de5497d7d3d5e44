"""Stories of defragmentation: what moves, what stops, what is left alone, and at which price."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from solver.defrag import curve
from solver.defrag.answer import Defragmentation
from solver.defrag.api import defragment
from solver.defrag.replay import replay
from solver.defrag.result import as_result
from solver.defrag.steps import StepKind
from solver.options import SolveOptions
from solver.result import SolveStatus
from solver.solution import Plan
from solver.verify import verify
from solver.workload import Preemption
from tests.scenario import Scenario, shape

MOVABLE = Preemption(movable=True)
PINNED = Preemption(allowed=False)


def defragmented(story: Scenario, **asked: Any) -> Defragmentation:
    problem = story.problem()
    answer = defragment(problem, options=SolveOptions(time_limit_s=20, workers=1), **asked)
    for point in answer.points:
        assert not verify(answer.question, point.plan)
        assert not replay(answer.question, point.plan, point.schedule.actions)
    return answer


def twelve_free(preemption: Preemption = MOVABLE) -> Scenario:
    """Twelve GPUs are free on four nodes of eight, at most four of them on one."""
    story = Scenario()
    for name in ("n1", "n2", "n3", "n4"):
        story.node(name, gpus=8)
    story.running("a", "n1", (0, 1, 2, 3), preemption=preemption)
    story.running("b", "n2", (0, 1, 2, 3, 4), preemption=preemption)
    story.running("c", "n3", (2, 3, 4, 5, 6), preemption=preemption)
    story.running("d", "n4", (0, 1, 2, 3), preemption=preemption)
    story.running("e", "n4", (4, 5), preemption=preemption)
    return story.job("big", gpus=8)


def test_twelve_free_eight_wanted_two_jobs_move_into_the_gaps_of_others():
    answer = defragmented(twelve_free(), target="big")

    # The gaps are of 4, 3, 3 and 2 GPUs. Two GPUs leave n4, and the four of n1 or n4 fill the other
    # one's gap: six GPUs restart. Nothing is to be had for five.
    point = answer.best
    assert point is not None
    assert point.proved
    assert point.cost_gpu_s == 6 * 60
    assert {move.job for move in point.plan.moves} in ({"a", "e"}, {"d", "e"})
    assert [p.job for p in point.plan.placements] == ["big"]
    assert [a.kind for a in point.schedule.actions] == [
        StepKind.MOVE,
        StepKind.MOVE,
        StepKind.START,
    ]


def test_what_may_neither_move_nor_stop_is_left_alone_and_said_to_be_in_the_way():
    answer = defragmented(twelve_free(PINNED), target="big")

    assert answer.points == ()
    assert answer.excluded


def test_work_of_equal_priority_moves_but_does_not_stop():
    answer = defragmented(twelve_free(Preemption(allowed=True)), target="big")

    assert answer.excluded


def test_a_pinned_job_is_not_moved_though_it_would_be_cheapest():
    story = Scenario().node("n1", gpus=4).node("n2", gpus=4).node("n3", gpus=4)
    story.running("pinned", "n1", (0,), preemption=Preemption(allowed=False, cost_gpu_s=0))
    story.running("dear", "n2", (0, 1), preemption=Preemption(movable=True, cost_gpu_s=999))
    story.running("fixed", "n3", (0,), preemption=Preemption(allowed=False, cost_gpu_s=0))
    story.job("big", gpus=4)

    answer = defragmented(story, target="big")

    assert answer.best is not None
    assert [move.job for move in answer.best.plan.moves] == ["dear"]
    assert answer.best.cost_gpu_s == 999


def test_a_job_of_higher_priority_stops_what_is_cheaper_than_moving():
    story = Scenario().node("n1", gpus=4).node("n2", gpus=4)
    story.running("cheap", "n1", (0, 1), preemption=Preemption(cost_gpu_s=5))
    story.running("dear", "n2", (0, 1), preemption=Preemption(movable=True, cost_gpu_s=50))
    story.job("big", gpus=4, priority=10)

    answer = defragmented(story, target="big")

    assert answer.best is not None
    assert answer.best.proved
    assert [e.job for e in answer.best.plan.evictions] == ["cheap"]
    assert answer.best.cost_gpu_s == 5


def test_a_job_that_fits_moves_nobody():
    answer = defragmented(Scenario().node("n", gpus=2).job("j", gpus=2), target="j")

    assert answer.best is not None
    assert answer.best.proved
    assert answer.best.cost_gpu_s == 0
    assert [action.kind for action in answer.best.schedule.actions] == [StepKind.START]


def scattered() -> Scenario:
    """Three nodes of four with two, one and one GPUs held; pairs can be made whole by one move."""
    story = Scenario().node("n1", gpus=4).node("n2", gpus=4).node("n3", gpus=4)
    story.running("two", "n1", (0, 1), preemption=Preemption(movable=True, cost_gpu_s=40))
    story.running("one", "n2", (0,), preemption=Preemption(movable=True, cost_gpu_s=10))
    story.running("uno", "n3", (0,), preemption=Preemption(movable=True, cost_gpu_s=15))
    return story.reference((shape(4), 1))


def test_the_curve_goes_from_nothing_to_the_fewest_stranded():
    answer = defragmented(scattered())

    # Free: 2 + 3 + 3. One move empties n2; a second one, n3.
    gpus = [(p.cost_gpu_s, p.stranded_milli / answer.scale) for p in answer.points]
    assert gpus == [(0, 8), (10, 4), (25, 0)]
    assert answer.complete
    assert all(point.proved for point in answer.points)


def test_a_budget_buys_the_best_there_is_for_it():
    answer = defragmented(scattered(), budget_gpu_s=24)

    assert answer.best is not None
    assert answer.best.proved
    assert (answer.best.cost_gpu_s, answer.best.stranded_milli / answer.scale) == (10, 4)


def test_a_budget_of_nothing_moves_nothing():
    answer = defragmented(scattered(), budget_gpu_s=0)

    assert answer.best is not None
    assert answer.best.plan.leaves_running_alone


def test_a_job_whose_cheapest_way_is_over_the_budget_does_not_start():
    assert defragmented(twelve_free(), target="big", budget_gpu_s=359).points == ()
    assert defragmented(twelve_free(), target="big", budget_gpu_s=360).best is not None


@pytest.mark.parametrize("asked", [{}, {"budget_gpu_s": 10}])
def test_without_a_job_nothing_stops_and_nothing_starts(asked: dict[str, int]):
    story = scattered().job("waits", gpus=1, priority=100)

    answer = defragmented(story, **asked)

    for point in answer.points:
        assert not point.plan.evictions
        assert not point.plan.placements


def test_a_job_that_has_room_is_told_that_it_was_not_asked_for():
    story = Scenario().queue("q", quota=4).queue("o").node("n1", gpus=4)
    story.running("low", "n1", (0, 1), queue="q", priority=-1)
    story.job("first", gpus=3, queue="q").job("tiny", gpus=1, queue="o")
    problem = story.problem()

    room_left = as_result(problem, defragmented(story, target="first"))
    nothing_starts = as_result(problem, defragmented(story))

    assert [eviction.job for eviction in room_left.evictions] == ["low"]
    (tiny,) = room_left.pending
    assert (tiny.job, tiny.reason) == ("tiny", "not-asked")
    assert tiny.text == "there is room for it; only first was asked for"
    reasons = {waits.job: waits.reason for waits in nothing_starts.pending}
    assert reasons == {"first": "gpu-short", "tiny": "not-asked"}


@pytest.mark.parametrize("after", range(4))
def test_ctrl_c_ends_the_search_and_the_best_so_far_is_the_answer(
    after: int, monkeypatch: pytest.MonkeyPatch
):
    search, made = curve.search, []

    def interrupted(*args: Any) -> Any:
        made.append(1)
        found = search(*args)
        return found if len(made) <= after else replace(found, interrupted=True)

    monkeypatch.setattr(curve, "search", interrupted)

    answer = defragmented(scattered())

    assert len(made) == after + 1  # Nothing is searched for any more.
    assert answer.notes == ("interrupted: the best plans so far",)
    assert answer.points[0].plan == Plan()
    assert not answer.complete


def test_a_curve_that_never_got_anywhere_is_no_proof(monkeypatch: pytest.MonkeyPatch):
    def pressed(*args: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(curve, "search", pressed)

    answer = defragmented(scattered())

    assert [point.plan for point in answer.points] == [Plan()]
    assert not answer.proved
    assert as_result(answer.question, answer).status is SolveStatus.FEASIBLE


def test_progress_says_what_is_searched_for():
    seen: list[str] = []

    defragmented(scattered(), progress=lambda progress: seen.append(progress.tier))
    defragmented(twelve_free(), target="big", progress=lambda progress: seen.append(progress.tier))

    assert {"stranded", "cost"} <= set(seen)
