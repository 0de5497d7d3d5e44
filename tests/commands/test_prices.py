"""``prices --save`` and back: the same prices, the same places; and files that are no prices."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.commands.running import unstrand

SPECS = Path(__file__).resolve().parents[2] / "specs"
SPEC = SPECS / "stranding.yaml"


@pytest.fixture
def book(tmp_path: Path) -> Path:
    path = tmp_path / "prices.json"
    done = unstrand("prices", SPEC, "--save", path)
    assert done.code == 0, done.err
    return path


def placements(*options: object) -> Any:
    done = unstrand("solve", SPEC, "-o", "json", "--policy", *options)
    assert done.code == 0, done.err
    return json.loads(done.out)["placements"]


def test_saved_prices_give_the_places_that_fresh_ones_give(book: Path):
    assert placements("bid-price", "--prices", book) == placements("bid-price")


def two_models(wanted: str) -> str:
    """A small job that may go anywhere; the usual work wants whole nodes of one model."""
    return f"""
cluster:
  name: two models
  pools:
    - {{name: a, count: 1, gpus: 8, gpu_model: A100-80GB}}
    - {{name: h, count: 1, gpus: 8, gpu_model: H100-80GB}}
reference:
  - {{gpus: 8, gpu_models: [{wanted}], weight: 9}}
  - {{gpus: 1, weight: 1}}
jobs:
  - {{name: small, gpus: 1}}
"""


def test_prices_of_another_workload_leave_its_nodes_alone(tmp_path: Path):
    places = {}
    for wanted in ("A100-80GB", "H100-80GB"):
        spec, book = tmp_path / f"{wanted}.yaml", tmp_path / f"{wanted}.json"
        spec.write_text(two_models(wanted))
        assert unstrand("prices", spec, "--save", book).code == 0
        done = unstrand(
            "solve", tmp_path / "A100-80GB.yaml", "-o", "json", "--policy", "bid-price",
            "--prices", book,
        )  # fmt: skip
        places[wanted] = json.loads(done.out)["placements"][0]["node"]

    assert places == {"A100-80GB": "h-0", "H100-80GB": "a-0"}


@pytest.mark.parametrize(
    "verb", [("compare", SPEC), ("simulate", SPECS / "adversarial.yaml", "--workers", 1)]
)
def test_every_verb_with_policies_takes_them(book: Path, verb: tuple[object, ...]):
    done = unstrand(*verb, "--policies", "best-fit,bid-price", "--prices", book)

    assert done.code == 0, done.err


@pytest.mark.parametrize(
    "verb", [("solve", "--policy"), ("compare", "--policies"), ("simulate", "--policies")]
)
def test_prices_that_no_policy_looks_at_are_refused(book: Path, verb: tuple[str, str]):
    done = unstrand(verb[0], SPEC, verb[1], "best-fit", "--prices", book)

    assert done.code == 2
    assert "--prices: none of these policies places by prices; bid-price does" in done.err


def without(key: str) -> Callable[[dict[str, Any]], None]:
    return lambda document: document.pop(key) and None


def a_price(value: object) -> Callable[[dict[str, Any]], None]:
    return lambda document: document["shapes"][0]["price_milli"].__setitem__(0, value)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (without("cpu_factors"), "cpu_factors: no prices: field required"),
        (lambda document: document.update(schema="v0"), 'the schema "unstrand/prices/v1"'),
        (lambda document: document["cpu_factors"].pop(), "12 prices for 11 futures"),
        (a_price(-1.0), "shapes.0.price_milli.0: no prices: input should be greater"),
        (a_price("dear"), "shapes.0.price_milli.0: no prices: input should be a valid number"),
        (lambda document: document["shapes"][0].update(share_milli=500), "or for a part of one"),
    ],
)
def test_a_file_that_is_wrong_says_where(
    book: Path, spoil: Callable[[dict[str, Any]], None], says: str
):
    document = json.loads(book.read_text())
    spoil(document)
    book.write_text(json.dumps(document))

    done = unstrand("solve", SPEC, "--policy", "bid-price", "--prices", book)

    assert done.code == 3
    assert says in done.err
    assert "Write one with prices --save" in done.err


@pytest.mark.parametrize("text", ["", "{", "[1, 2]", "NaN", '{"schema": "unstrand/prices/v1"}'])
def test_a_file_without_prices_is_refused(book: Path, text: str):
    book.write_text(text)

    done = unstrand("solve", SPEC, "--policy", "bid-price", "--prices", book)

    assert done.code == 3
    assert "prices.json" in done.err


def test_a_file_that_is_not_there_is_named(tmp_path: Path):
    done = unstrand("solve", SPEC, "--policy", "bid-price", "--prices", tmp_path / "none.json")

    assert done.code == 3
    assert "none.json" in done.err


def test_a_window_of_arrivals_is_a_time_and_for_those_who_place_by_prices():
    ours = ("simulate", SPEC, "--policies", "bid-price-cheap", "--price-window")

    assert unstrand(*ours, "24h").code == 0
    for wrong in ("0s", "soon"):
        done = unstrand(*ours, wrong)
        assert done.code == 2
        assert "--price-window" in done.err
    done = unstrand("simulate", SPEC, "--policies", "best-fit", "--price-window", "24h")
    assert done.code == 2
    assert "--price-window: none of these policies places by prices" in done.err
