import pytest
from rich.console import RenderableType
from syrupy.assertion import SnapshotAssertion

from report.simulation_view import left_notes, simulate_view
from simulator.lives import State
from simulator.outcome import Left
from tests.report.runs import EASY, STRICT, row
from tests.report.test_console import written

MINUTE_S = 60


def rows_of(content: RenderableType, width: int = 200) -> dict[str, str]:
    """Lines of the table by their first word."""
    lines = written(content, width).splitlines()
    return {line.split()[0]: line for line in lines if line.strip()}


def head_of(content: RenderableType) -> str:
    return written(content, 200).partition("──")[0]


def test_a_simulation_marks_the_best_of_each_column(snapshot: SnapshotAssertion):
    view = simulate_view("tiny: 8 GPUs, 5 jobs", [row(STRICT), row(EASY)], ["times are made up"])

    assert written(view, 120) == snapshot


def test_several_seeds_are_one_row_with_their_means():
    view = simulate_view(
        "tiny",
        [row(STRICT, seed=seed, wait_mean_s=seed * MINUTE_S, finished=seed) for seed in (1, 2, 6)],
        [],
    )

    line = rows_of(view)["fifo-strict+first-fit"].split()
    assert line[1:3] == ["3", "3"]  # seeds, and the mean of 1, 2 and 6 finished jobs
    assert "3 min" in " ".join(line)
    assert "mean of 3 seeds" in written(view, 200)


def test_one_seed_needs_no_column_and_no_word_about_it():
    assert "seed" not in written(simulate_view("tiny", [row(STRICT), row(EASY)], []), 200)


def test_the_best_is_looked_for_within_each_trace():
    view = simulate_view(
        "both",
        [
            row(STRICT, "busy", wait_mean_s=500),
            row(EASY, "busy", wait_mean_s=400),
            row(STRICT, "calm", wait_mean_s=5),
            row(EASY, "calm", wait_mean_s=4),
        ],
        [],
    )

    text = written(view, 200)
    assert "6.7 min *" in text
    assert "4 s *" in text
    assert text.count("busy") == text.count("calm") == 1


@pytest.mark.parametrize(
    ("title", "changes"),
    [
        ("failed", {"failed": 1}),
        ("never", {"unschedulable": 2}),
        ("still", {"waiting": 2}),
        ("goodput", {"preemptions": 3}),
        ("still", {"running": 1}),
        ("allocated", {"running": 5, "finished": 0}),
        ("lost", {"preemptions": 3, "lost_gpu_h": 0.5}),
        ("Jain", {"jain": 0.9}),
    ],
)
def test_a_column_that_would_say_nothing_is_left_out(title: str, changes: dict[str, float]):
    plain = row(EASY, jain=1.0)

    assert title not in head_of(simulate_view("tiny", [plain], []))
    assert title in head_of(simulate_view("tiny", [plain, row(EASY, **changes)], []))


def test_where_nothing_departs_no_time_is_shown():
    stays = {
        "running": 5,
        "finished": 0,
        "wait_mean_s": None,
        "wait_max_s": None,
        "jct_mean_s": None,
    }
    head = head_of(simulate_view("tiny", [row(STRICT, **stays), row(EASY, **stays)], []))

    assert "wait" not in head
    assert "JCT" not in head


def test_no_job_that_ended_is_not_the_best_completion_time():
    view = simulate_view("tiny", [row(STRICT, jct_mean_s=None, finished=0), row(EASY)], [])

    lines = rows_of(view)
    assert " - " in lines["fifo-strict+first-fit"]
    assert "23.2 min *" in lines["easy+best-fit"]


def test_who_got_fewer_jobs_done_is_not_the_best_in_waits_and_times():
    hasty = row(STRICT, finished=1, waiting=4, wait_mean_s=0, jct_mean_s=1)

    lines = rows_of(simulate_view("tiny", [hasty, row(EASY)], []))

    assert " 0 s " in lines["fifo-strict+first-fit"]
    assert "0 s *" not in lines["fifo-strict+first-fit"]
    assert "23.2 min *" in lines["easy+best-fit"]


def test_policies_that_leave_the_same_jobs_share_a_note():
    huge = Left(job="huge", state=State.UNSCHEDULABLE, reason="impossible: 16 GPUs")
    late = Left(job="late", state=State.WAITING, reason="waits for room")

    notes = left_notes(
        [
            row(STRICT, unschedulable=1, waiting=1, left=(huge, late)),
            row(EASY, unschedulable=1, left=(huge,)),
        ]
    )

    assert notes == [
        "every policy: 1 job never fits: huge (impossible: 16 GPUs)",
        "fifo-strict+first-fit: 1 job still waits at the end: late (waits for room)",
    ]


def test_the_legend_explains_every_column_of_jobs():
    changes = {"failed": 1, "unschedulable": 1, "waiting": 1, "running": 1, "preemptions": 1}

    legend = written(simulate_view("tiny", [row(STRICT), row(EASY, **changes)], []), 300)

    for word in ("failed:", "never fit:", "still wait:", "still run:", "preemptions:", "goodput:"):
        assert word in legend


@pytest.mark.parametrize("width", [60, 85, 120])
def test_a_simulation_on_a_narrow_terminal_cuts_nothing(width: int):
    rows = [row(STRICT, "busy", preemptions=2), row(EASY, "calm", seed=2), row(EASY, "calm")]
    text = written(simulate_view("tiny", rows, ["a note"]), width)

    assert "…" not in text
    for word in ("trace", "policy", "seeds", "stranded", "JCT", "lost", "easy+best-fit", "calm"):
        assert word in text.split()
    assert max(map(len, text.splitlines())) <= width


def test_names_with_brackets_are_not_taken_for_markup():
    view = simulate_view("[b]x", [row(EASY, "[red]a"), row(EASY, "[red]b")], ["[dim]"])

    assert all(name in written(view) for name in ("[b]x", "[red]a", "note: [dim]"))
