"""Global options, and what each kind of error exits with."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import cli
from commands.errors import MustJobError, NoAnswerError
from specs.errors import SpecErrors, SpecFault
from tests.commands.running import unstrand
from topology.errors import TopologyError

ROOT = Path(__file__).resolve().parents[2]
SMALL = """
cluster:
  name: small
  nodes:
    - {name: n0, preset: hgx-h100, cpu: 64}
jobs:
  - {name: one, gpus: 4}
"""


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (SpecErrors([SpecFault(file="a.yaml", rule="wrong")]), 3),
        (TopologyError("damaged"), 3),
        (FileNotFoundError(2, "No such file or directory", "a.yaml"), 3),
        (MustJobError(["one"]), 4),
        (NoAnswerError("nothing yet"), 5),
        (ZeroDivisionError("a bug"), 70),
    ],
)
def test_every_kind_of_error_has_its_exit_code(error: Exception, code: int):
    assert cli.exit_code(error) == code
    assert len(cli.message(error).splitlines()) == 1


def test_a_violated_plan_is_an_internal_error_and_not_printed(monkeypatch: pytest.MonkeyPatch):
    from solver import api

    monkeypatch.setattr(
        api, "verify", lambda problem, plan: [type("Violation", (), {"text": "GPU 0 held twice"})]
    )

    done = unstrand("solve", "-", "--output", "json", stdin=SMALL)

    assert done.code == 70
    assert done.out == ""
    assert "GPU 0 held twice" in done.err


def test_help_names_every_verb_and_the_exit_codes():
    done = unstrand("--help")

    assert done.code == 0
    for verb in ("solve", "compare", "validate", "topology", "schema", "import"):
        assert verb in done.out
    assert "70 internal error" in " ".join(done.out.split())


def test_no_verb_is_a_usage_error():
    assert unstrand() == (2, "", "error: no verb; --help lists them\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["sovle", "x"], "sovle"),
        (["solve"], "SPEC"),
        (["solve", "x", "--ouptut", "json"], "--ouptut"),
        (["solve", "x", "--output", "xml"], "xml"),
        (["solve", "x", "--time-limit", "10"], "Write 10s"),
        (["solve", "x", "--time-limit", "0"], "more than 0s"),
        (["solve", "x", "--max-size", "huge"], "huge"),
        (["solve", "x", "--workers", "0"], "workers"),
        (["solve", "x", "--policy", "best-fti"], "best-fit"),
        (["solve", "x", "--save", "/nowhere/at/all/plan.json"], "/nowhere/at/all"),
        (["compare", "x", "--policies", "best-fit,cpsat"], "cp-sat"),
        (["compare", "x", "--plot", "picture.png"], ".svg"),
    ],
)
def test_usage_errors_are_one_line_with_exit_code_2(words: list[str], said: str):
    done = unstrand(*words)

    assert done.code == 2
    assert done.out == ""
    assert len(done.err.splitlines()) == 1
    assert said in done.err


def test_a_missing_file_is_bad_input_in_one_line():
    done = unstrand("solve", "no-such-file.yaml")

    assert done.code == 3
    assert len(done.err.splitlines()) == 1
    assert "no-such-file.yaml" in done.err


def test_all_faults_of_a_spec_are_reported_one_line_each_and_nothing_is_written(tmp_path: Path):
    plan = tmp_path / "plan.json"
    spec = SMALL.replace("gpus: 4", "gpus: 1.5, queue: nowhere")

    done = unstrand("solve", "-", "--save", plan, stdin=spec)

    assert done.code == 3
    assert done.out == ""
    lines = done.err.splitlines()
    assert len(lines) == 2
    assert all(line.startswith("<stdin>:7:") for line in lines)
    assert not plan.exists()


def test_a_traceback_is_shown_only_with_debug(monkeypatch: pytest.MonkeyPatch):
    def broken(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("specs.compile.compile_spec", broken)

    plain = unstrand("solve", "-", stdin=SMALL)
    debug = unstrand("solve", "-", "--debug", stdin=SMALL)

    assert plain.code == debug.code == 70
    assert len(plain.err.splitlines()) == 1
    assert "Traceback" not in plain.err
    assert "Traceback" in debug.err


def test_it_runs_from_any_folder_by_its_path(tmp_path: Path):
    (tmp_path / "small.yaml").write_text(SMALL)

    done = subprocess.run(
        [sys.executable, ROOT / "cli.py", "solve", "small.yaml"],
        cwd=tmp_path,
        env={**os.environ, "COLUMNS": "100"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "small: optimal" in done.stdout
    assert "\x1b" not in done.stdout


def test_a_reader_that_leaves_early_is_no_error(tmp_path: Path):
    (tmp_path / "small.yaml").write_text(SMALL)

    done = subprocess.run(
        f'set -o pipefail; "{sys.executable}" "{ROOT}/cli.py" solve small.yaml -o json | true',
        cwd=tmp_path,
        shell=True,
        executable="/bin/bash",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0
    assert done.stderr == ""


def test_help_imports_nothing_heavy():
    code = (
        "import sys, cli\n"
        "try:\n    cli.main(['--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'ortools', 'numpy', 'networkx', 'pydantic', 'yaml', 'pandas'}\n"
        "heavy &= set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("words", [("solve",), ("import", "kubernetes"), ("topology",)])
def test_a_closed_standard_input_is_no_internal_error(words):
    done = unstrand(*words, "-", stdin=None)

    assert done.code == 3
    assert done.err.endswith("<stdin>:1:1: it is closed. Name a file, or pipe something into it\n")
