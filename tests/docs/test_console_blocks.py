"""Commands shown in ``console`` blocks run, and print what the page shows below them.

Lines after ``$ command`` are its output, ``...`` alone on a line stands for any lines, run times
may differ. Commands run in a folder that looks like the checkout, so files they write stay there.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
TIME = re.compile(r"\b\d[\d,.]*\s(?:ms|s)(?=\s|$)")


class Shown(NamedTuple):
    """A command on a page with the output that the page shows."""

    page: str
    command: str
    output: list[str]


def shown(page: Path) -> list[Shown]:
    found = []
    for block in BLOCK.findall(page.read_text(encoding="utf-8")):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *output = part.rstrip().split("\n")
            found.append(Shown(page.name, command, output))
    return found


def pattern(lines: list[str]) -> str:
    """A regular expression of the shown lines: columns may be wider, times may differ."""
    parts = []
    for line in lines:
        if line.strip() == "...":
            parts.append(r"(?:.*\n)*?")
        else:
            parts.append(re.escape(squeezed(line)) + r"\n")
    return "".join(parts)


def squeezed(line: str) -> str:
    line = TIME.sub("<time>", line)
    return re.sub(r"[ ─]+", " ", line).strip()


COMMANDS = [command for page in PAGES for command in shown(page)]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for entry in ("cli.py", "specs", "tests", "benchmarks", "docs"):
        (tmp_path / entry).symlink_to(ROOT / entry)
    return tmp_path


@pytest.mark.parametrize("example", COMMANDS, ids=lambda e: f"{e.page}: {e.command}")
def test_a_command_prints_what_the_page_shows(example: Shown, checkout: Path):
    words = shlex.split(example.command)
    if words[0] == "unstrand":
        words[:1] = ["python", "cli.py"]
    assert words[0] == "python", "only our own commands are shown in console blocks"

    done = subprocess.run(
        [sys.executable, *words[1:]],
        cwd=checkout,
        env={**os.environ, "COLUMNS": "100"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    printed = "".join(squeezed(line) + "\n" for line in (done.stdout + done.stderr).splitlines())
    assert done.returncode in (0, 3, 4), done.stderr
    assert re.fullmatch(pattern(example.output) + r"\s*", printed), printed


def test_shown_output_that_differs_would_be_found():
    assert not re.fullmatch(pattern(["a 1", "...", "c 3"]), "a 1\nb 2\nc 4\n")
    assert re.fullmatch(pattern(["a  1", "...", "took 3.1 s"]), "a 1\nb 2\ntook <time>\n")
