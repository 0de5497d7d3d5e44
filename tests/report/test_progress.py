import io

from report.progress import MAX_COLUMNS, ProgressLine
from solver.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def at(elapsed_s: float, message: str) -> Progress:
    return Progress(elapsed_s=elapsed_s, tier="topology", value=3, bound=1, message=message)


def test_a_terminal_shows_one_line_that_is_cleared_at_the_end():
    terminal = Terminal()

    with ProgressLine(terminal) as progress:
        progress(at(1, "topology 12"))
        progress(at(2, "topology 3"))

    assert terminal.getvalue() == "\rtopology 12\rtopology 3 \r" + " " * 11 + "\r"


def test_a_terminal_is_not_flooded():
    terminal = Terminal()

    with ProgressLine(terminal) as progress:
        for millisecond in range(1000, 1100):
            progress(at(millisecond / 1000, "busy"))

    assert terminal.getvalue().count("busy") <= 2


def test_short_work_leaves_nothing_in_a_log():
    log = io.StringIO()

    with ProgressLine(log) as progress:
        progress(at(3, "nearly done"))

    assert log.getvalue() == ""


def test_a_long_message_is_cut_to_one_line():
    terminal = Terminal()

    with ProgressLine(terminal) as progress:
        progress(at(1, "x" * 500))

    assert terminal.getvalue().count("x") == MAX_COLUMNS


def test_work_that_never_reports_leaves_nothing():
    terminal = Terminal()

    with ProgressLine(terminal):
        pass

    assert terminal.getvalue() == ""
