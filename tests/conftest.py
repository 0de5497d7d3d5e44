"""Options, Hypothesis profiles and the summary of case files, for the whole test suite."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

from tests.paths import SHARED

if TYPE_CHECKING:
    from collections.abc import Iterator

hypothesis.settings.register_profile("dev", max_examples=40, deadline=None)
hypothesis.settings.register_profile("ci", max_examples=100, deadline=None, derandomize=True)
hypothesis.settings.load_profile("dev")  # `--hypothesis-profile ci` takes the other

COUNTED = ("passed", "failed", "skipped")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--cases",
        default=str(SHARED / "cases"),
        metavar="DIR",
        help="folder with case files for tests/acceptance (default: ../shared/cases)",
    )


@pytest.fixture
def cases_folder(request: pytest.FixtureRequest) -> Path:
    """The folder given with `--cases`."""
    return Path(request.config.getoption("--cases"))


def _case_reports(
    reporter: pytest.TerminalReporter,
) -> Iterator[tuple[str, str, str, pytest.TestReport]]:
    """Folder, kind of question and outcome of every case that has run."""
    for outcome in (*COUNTED, "error"):
        for report in reporter.getreports(outcome):
            facts = dict(getattr(report, "user_properties", ()))
            if "ask" in facts:
                counted = "failed" if outcome == "error" else outcome
                yield str(facts["cases"]), str(facts["ask"]), counted, report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line per kind of question: ``place: 10 passed, 0 failed, 0 skipped``."""
    table: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    reasons: dict[str, Counter[str]] = defaultdict(Counter)
    for folder, ask, outcome, report in _case_reports(terminalreporter):
        table[folder][ask][outcome] += 1
        if outcome == "skipped" and isinstance(report.longrepr, tuple):
            reasons[folder][report.longrepr[2].removeprefix("Skipped: ")] += 1
    for folder, kinds in sorted(table.items()):
        terminalreporter.section(f"cases in {folder}")
        for ask, count in sorted(kinds.items()):
            line = ", ".join(f"{count[outcome]} {outcome}" for outcome in COUNTED)
            terminalreporter.line(f"{ask}: {line}")
        for reason, times in sorted(reasons[folder].items()):
            terminalreporter.line(f"skipped {times}: {reason}")
