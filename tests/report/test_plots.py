from dataclasses import replace
from xml.etree import ElementTree

import pytest

from report.plots import BAR, BOUND, OPTIMUM, axis_ticks, compare_svg
from tests.report.answers import FIRST_FIT, OPTIMAL

SVG = "{http://www.w3.org/2000/svg}"


def texts(svg: str) -> list[str]:
    return [node.text or "" for node in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def bars(svg: str, fill: str) -> list[float]:
    rects = ElementTree.fromstring(svg).iter(f"{SVG}rect")
    return [float(rect.attrib["width"]) for rect in rects if rect.attrib["fill"] == fill]


def test_every_policy_has_a_bar_for_stranded_and_one_for_admitted_gpus():
    svg = compare_svg([FIRST_FIT, replace(FIRST_FIT, policy="best-fit"), OPTIMAL], "demo")

    assert {"first-fit", "best-fit", "cp-sat"} <= set(texts(svg))
    assert len(bars(svg, OPTIMUM)) == 2


def test_axes_have_titles_with_units():
    labels = texts(compare_svg([FIRST_FIT, OPTIMAL], "demo"))

    assert "GPUs (fewer is better)" in labels
    assert "GPUs (more is better)" in labels


def test_bars_are_in_proportion_to_their_values():
    svg = compare_svg([FIRST_FIT, OPTIMAL], "demo")
    stranded_ours, admitted_ours = bars(svg, OPTIMUM)

    others = bars(svg, BAR)

    assert others[0] / stranded_ours == pytest.approx(6.5 / 1.75, rel=0.01)
    assert others[1] / admitted_ours == pytest.approx(9 / 17, rel=0.01)


def test_the_proved_bound_is_drawn_only_where_there_is_one():
    assert BOUND in compare_svg([FIRST_FIT, OPTIMAL], "demo")
    assert BOUND not in compare_svg([FIRST_FIT], "demo")


def test_a_name_with_angle_brackets_keeps_the_picture_well_formed():
    assert "<a&b>: 1 policy, one cluster" in texts(compare_svg([OPTIMAL], "<a&b>"))


def test_a_cluster_where_nothing_is_stranded_still_has_an_axis():
    nothing = replace(OPTIMAL, metrics=replace(OPTIMAL.metrics, stranded_gpus=0.0), objectives=())

    assert "0" in texts(compare_svg([nothing], "demo"))


@pytest.mark.parametrize("largest", [0.003, 1, 7.2, 50, 6212])
def test_an_axis_reaches_its_largest_value_with_few_marks(largest: float):
    ticks = axis_ticks(largest)

    assert ticks[-1] >= largest
    assert 2 <= len(ticks) <= 7
