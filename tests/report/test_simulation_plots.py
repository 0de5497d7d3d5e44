import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from report.curves import area, thinned
from report.simulation_plots import (
    COLOURS,
    DASHES,
    MissingPlotsError,
    queue_shares,
    simulation_figure,
    styles_of,
)
from simulator.outcome import Outcome
from tests.report.runs import CAPACITY_MILLI, OUTCOMES, SCENARIO, run

SVG = "{http://www.w3.org/2000/svg}"


def drawn(outcomes: tuple[Outcome, ...] = OUTCOMES, name: str = "a.svg", title: str = "t") -> bytes:
    pytest.importorskip("matplotlib")
    return simulation_figure(title, outcomes, CAPACITY_MILLI, Path(name))


def texts(svg: bytes) -> list[str]:
    return ["".join(node.itertext()) for node in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_the_panels_have_titles_and_axes_with_units():
    labels = texts(drawn(title="tiny <cluster>"))

    assert {
        "tiny <cluster>",
        "GPUs busy (%)",
        "stranded GPUs (fewer is better)",
        "time since the start of the trace (min)",
        "jobs that started (%)",
        "GPU-time of the cluster (%)",
        "research",
        "prod",
    } <= set(labels)
    assert any(label.startswith("wait at most") for label in labels)


def test_every_policy_is_in_the_legend_once_and_beside_its_bar():
    labels = texts(drawn((*OUTCOMES, run("easy+best-fit", seed=2))))

    for outcome in OUTCOMES:
        assert labels.count(outcome.summary.policy) == 2


def test_the_same_runs_give_the_same_bytes():
    assert drawn() == drawn()
    assert drawn(name="a.png") == drawn(name="b.PNG")


def test_a_name_with_a_dollar_sign_is_no_formula():
    assert "$a$" in texts(drawn(title="$a$"))


def test_a_png_is_one_and_large_enough_to_read():
    png = drawn(name="a.png")

    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", png[16:24])
    assert width >= 1200
    assert height >= 800


def test_another_format_is_refused():
    with pytest.raises(ValueError, match=r"a\.pdf: a picture is a \.svg or a \.png file"):
        simulation_figure("t", OUTCOMES, CAPACITY_MILLI, Path("a.pdf"))


def test_without_matplotlib_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)

    with pytest.raises(MissingPlotsError, match=r"pip install 'unstrand\[plots\]'"):
        simulation_figure("t", OUTCOMES, CAPACITY_MILLI, Path("a.svg"))


def test_the_library_is_loaded_only_to_draw():
    code = "import report.simulation_plots, sys; sys.exit('matplotlib' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_runs_of_which_nothing_is_known_over_time_still_make_a_picture():
    empty = replace(SCENARIO, arrivals=())

    assert "GPUs busy (%)" in texts(drawn((run("easy+best-fit", scenario=empty),)))


def test_where_nobody_waits_the_picture_says_so():
    alone = replace(SCENARIO, arrivals=SCENARIO.arrivals[:1])

    assert "no job that started had to wait" in texts(
        drawn((run("easy+best-fit", scenario=alone),))
    )
    assert "no job that started had to wait" not in texts(drawn())


def test_policies_of_the_solver_are_thick_and_no_two_are_alike():
    names = [f"p{i}" for i in range(len(COLOURS) * len(DASHES))] + ["cp-sat", "easy+cp-sat"]
    styles = styles_of(names)

    assert [name for name, style in styles.items() if style.ours] == ["cp-sat", "easy+cp-sat"]
    assert len(set(styles.values())) == len(names)


def test_shares_of_queues_are_of_the_whole_gpu_time():
    outcome = OUTCOMES[1]
    held_gpu_s = {"research": 3 * 600 + 3 * 900 + 2 * 3600, "prod": 4 * 300 + 1 * 300}
    whole_gpu_s = 8 * outcome.summary.makespan_s

    shares = queue_shares(OUTCOMES, outcome.summary.policy, CAPACITY_MILLI)

    assert shares == pytest.approx({q: 100 * s / whole_gpu_s for q, s in held_gpu_s.items()})


def test_thinning_a_curve_keeps_its_area():
    times = [i * i for i in range(5000)]
    values = [i % 7 for i in range(5000)]

    at, means = thinned(times, values, bins=50)

    assert len(at) == 51
    assert area(at, means) == pytest.approx(area(times, values))
