"""Every case file of a folder is one test, or one for each of its variants.

    pytest tests/acceptance --cases FOLDER

The kinds of questions that the planner does not take yet are skipped, and counted as such in the
summary.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.acceptance.expectations import (
    LATER,
    MismatchError,
    UnknownExpectationError,
    check,
)
from tests.acceptance.neutral import Case, variants
from tests.acceptance.numbers import UnknownNumberError

if TYPE_CHECKING:
    from collections.abc import Callable

OWN_CASES = Path(__file__).resolve().parents[1] / "data" / "cases"


def read_cases(folder: Path) -> list[tuple[str, Case]]:
    files = sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")])
    return [entry for file in files for entry in variants(yaml.safe_load(file.read_text("utf-8")))]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    given = Path(metafunc.config.getoption("--cases"))
    for fixture, folder in (("case", given), ("own_case", OWN_CASES)):
        if fixture not in metafunc.fixturenames:
            continue
        entries: list[object] = [
            pytest.param((folder, case), id=name) for name, case in read_cases(folder)
        ]
        if not entries:
            mark = pytest.mark.skip(reason=f"there are no case files in {folder}")
            entries = [pytest.param((folder, {}), id="none", marks=mark)]
        metafunc.parametrize(fixture, entries)


def ask(entry: tuple[Path, Case], record_property: Callable[[str, object], None]) -> None:
    folder, case = entry
    record_property("cases", str(folder))
    record_property("ask", case["ask"])
    if case["ask"] in LATER:
        pytest.skip(f"{case['ask']}: later work ({LATER[case['ask']]})")
    check(case)


def test_the_answer_is_the_one_that_the_case_expects(case, record_property):
    ask(case, record_property)


def test_the_answer_is_the_one_that_our_own_case_expects(own_case, record_property):
    ask(own_case, record_property)


# The runner itself


def own(name: str) -> Case:
    return dict(read_cases(OWN_CASES))[name]


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("place-01", {"place": {"wide": ["slim"]}}, "place: wide is on ['broad']"),
        ("place-01", {"placed_pods": {"tiny": 6}}, "placed_pods: 5 of tiny start, expected 6"),
        ("place-02", {"devices": {"duo": [[0, 1]]}}, "devices: duo has [0, 3]"),
        ("place-03", {"pending": {"late": {"reason": "taint"}}}, "reason of late is 'gpu-short'"),
        ("place-03", {"pending": {"late": {"needs": 5}}}, "needs of late is"),
        ("place-03", {"pending": {"early": {}}}, "early is not said to wait"),
        ("place-04", {"numbers": {"max_pods_per_gpu": 3}}, "max_pods_per_gpu is 2, expected 3"),
        ("request-01", {"effective": {"plain": {"cpu_m": 1}}}, "cpu_m of plain is 350, expected 1"),
        ("parse-01", {"values": [1, 2, 3, 4, 5, 6]}, "gpu '2000m': is 2, expected 1"),
    ],
)
def test_a_wrong_expectation_fails(name, change, said):
    case = own(name)

    with pytest.raises(MismatchError) as caught:
        check({**case, "expect": change})

    assert said in str(caught.value)


def test_a_number_that_nobody_knows_fails():
    with pytest.raises(UnknownNumberError, match="warp_factor"):
        check({**own("place-01"), "expect": {"numbers": {"warp_factor": 9}}})


def test_an_expectation_that_nobody_knows_fails():
    with pytest.raises(UnknownExpectationError, match="mood"):
        check({**own("place-01"), "expect": {"mood": "good"}})


def test_a_question_that_nobody_knows_fails():
    with pytest.raises(UnknownExpectationError, match="ask: guess"):
        check({**own("place-01"), "ask": "guess"})


def test_variants_share_the_start_and_expect_for_themselves():
    (first, one), (second, two) = variants(
        {
            "id": "v",
            "ask": "place",
            "nodes": [{"name": "n"}],
            "variants": [
                {"name": "a", "pending": [], "expect": {"place": {}}},
                {"name": "b", "pending": [1], "expect": {}},
            ],
            "expect": {"variants": 2},
        }
    )

    assert (first, second) == ("v-a", "v-b")
    assert one["nodes"] == two["nodes"]
    assert one["expect"] == {"place": {}}
