import io
from dataclasses import replace

import pytest
from rich.console import RenderableType
from syrupy.assertion import SnapshotAssertion

from report.comparison_view import compare_view
from report.console import show
from report.plan_view import solve_view
from solver.result import SolveStatus
from tests.report.answers import FIRST_FIT, OPTIMAL, PROBLEM


def written(content: RenderableType, width: int = 110) -> str:
    stream = io.StringIO()
    show(content, stream, width)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines())


def test_a_plan_is_shown_with_all_its_sections(snapshot: SnapshotAssertion):
    assert written(solve_view(PROBLEM, OPTIMAL)) == snapshot


def test_a_comparison_marks_the_best_of_each_column(snapshot: SnapshotAssertion):
    assert written(compare_view([FIRST_FIT, OPTIMAL])) == snapshot


def test_a_column_in_which_all_agree_marks_nobody():
    rows = written(compare_view([FIRST_FIT, replace(FIRST_FIT, policy="best-fit")])).splitlines()

    assert not any("*" in row for row in rows if row.startswith((" first-fit", " best-fit")))


def test_nothing_is_coloured_outside_a_terminal():
    assert "\x1b" not in written(solve_view(PROBLEM, OPTIMAL))


def test_names_with_brackets_are_not_taken_for_markup():
    assert "serve[blue]" in written(solve_view(PROBLEM, OPTIMAL))


def test_a_must_job_that_cannot_run_is_named_at_the_top():
    failed = replace(OPTIMAL, status=SolveStatus.INFEASIBLE, must_fail=("wide",))

    head = written(solve_view(PROBLEM, failed)).splitlines()[:3]

    assert any("must: wide" in line for line in head)


def test_steps_of_inner_queues_say_how_deep_they_are():
    guarantee = replace(OPTIMAL.objectives[0], step="gpu_milli-below-1", value=2000, bound=2000)
    share = replace(guarantee, name="fairness", step="fairness-below-2-1", unit="weighted share")
    nested = replace(OPTIMAL, objectives=(guarantee, replace(share, value=0.25, bound=0.5)))

    text = written(solve_view(PROBLEM, nested))

    assert "2 GPUs of queues 1 level down" in text
    assert "fairness-1 0.25 of queues 2 levels down" in text


@pytest.mark.parametrize("width", [60, 80])
def test_narrow_terminals_lose_no_node(width: int):
    folded = written(solve_view(PROBLEM, OPTIMAL), width).replace("\n", "").replace(" ", "")

    assert "h100-[0-1]gpu0-7" in folded


@pytest.mark.parametrize("width", [40, 60, 85, 120])
def test_a_comparison_on_a_narrow_terminal_cuts_nothing(width: int):
    text = written(compare_view([FIRST_FIT, OPTIMAL]), width=width)

    assert "…" not in text
    words = text.split()
    for word in ("stranded", "fragm.", "topology", "gap", "time", FIRST_FIT.policy):
        assert word in words
    assert max(map(len, text.splitlines())) <= width
