import pytest

from report.text import duration, node_names, percent, places, seconds
from solver.solution import Placement


def test_a_gap_above_zero_never_reads_as_zero():
    assert percent(1e-12) == "<0.01 %"


def test_names_with_leading_zeros_are_kept_as_they_are():
    assert node_names(["gpu01", "gpu02", "gpu3", "gpu4"]) == "gpu01 gpu02 gpu[3-4]"


def test_places_say_the_very_gpus_when_nodes_differ():
    held = [
        Placement("a", "w", 0, "n0", (0, 1)),
        Placement("a", "w", 1, "n1", (4, 5)),
        Placement("a", "w", 2, "n2", (0, 1)),
    ]

    assert places(held) == "n[0,2] gpu 0-1; n1 gpu 4-5"


def test_a_replica_without_gpus_shows_its_node_only():
    assert places([Placement("a", "w", 0, "cpu-node")]) == "cpu-node"


def test_short_times_are_in_milliseconds():
    assert seconds(0.0004) == "0 ms"


@pytest.mark.parametrize(
    ("value_s", "text"),
    [(59.94, "59.9 s"), (59.96, "1 min"), (3598, "1 h"), (86_390, "1 d"), (float("inf"), "∞")],
)
def test_a_duration_never_has_as_many_units_as_make_the_next(value_s: float, text: str):
    assert duration(value_s) == text
