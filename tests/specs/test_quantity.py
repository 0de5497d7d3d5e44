import random
from fractions import Fraction

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from specs.models.quantity import (
    QuantityError,
    cpu_milli,
    gpu_count,
    memory_bytes,
    memory_mib,
    parse_duration_s,
    parse_quantity,
)
from tests.paths import SHARED, needs_shared


@needs_shared
def test_quantities_as_people_write_them_have_the_values_of_the_public_case():
    case = yaml.safe_load((SHARED / "cases" / "qty-01.yaml").read_text())
    readers = {"gpu": gpu_count, "cpu": lambda text: f"{cpu_milli(text)}m", "mem": memory_bytes}

    values = []
    for entry in case["quantities"]:
        try:
            values.append(readers[entry["kind"]](entry["text"]))
        except QuantityError:
            values.append("invalid")

    assert values == case["expect"]["values"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("+3", 3),
        (".5", Fraction(1, 2)),
        ("5.", 5),
        ("1.5Gi", 3 * 2**29),
        ("1E", 10**18),
        ("1E3", 1000),
        ("1e-3", Fraction(1, 1000)),
        ("100n", Fraction(1, 10**7)),
        ("1k", 1000),
        ("0.1", Fraction(1, 10)),
    ],
)
def test_a_quantity_is_read_exactly(text, value):
    assert parse_quantity(text) == value


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("", "not a quantity"),
        ("abc", "not a quantity"),
        ("1 Gi", "not a quantity"),
        ("1K", "not a quantity"),
        ("1e3Ki", "not a quantity"),
        ("0x10", "not a quantity"),
        ("1_000", "not a quantity"),
        ("٣", "not a quantity"),
        ("1e999999999", "not a quantity"),
        ("-1", "an amount cannot be negative"),
        ("nan", "an amount is a finite number"),
        (".NaN", "an amount is a finite number"),
        ("-.inf", "an amount is a finite number"),
        ("Infinity", "an amount is a finite number"),
    ],
)
def test_what_is_no_amount_is_refused(text, rule):
    with pytest.raises(QuantityError) as caught:
        parse_quantity(text)

    assert caught.value.rule == rule


def test_a_spelling_that_is_nearly_right_gets_the_right_ones():
    with pytest.raises(QuantityError) as caught:
        parse_quantity("64GB")

    assert caught.value.hint == "Write 64Gi (1024s) or 64G"


def test_requests_are_rounded_up_and_capacities_down():
    assert (cpu_milli("100u", "up"), cpu_milli("100u", "down")) == (1, 0)
    assert (memory_bytes("1500m", "up"), memory_bytes("1500m", "down")) == (2, 1)
    assert (memory_mib("1537Ki", "up"), memory_mib("1537Ki", "down")) == (2, 1)


@given(milli=st.integers(0, 10**15))
def test_thousandths_come_back_as_they_were_written(milli):
    assert cpu_milli(f"{milli}m") == cpu_milli(f"{milli}m", "down") == milli


@given(st.text(alphabet="0123456789.eE+-mKMGi ", max_size=12))
def test_any_text_is_an_amount_or_a_clear_refusal(text):
    try:
        sound = parse_quantity(text) >= 0
    except QuantityError as error:
        sound = bool(error.rule)

    assert sound


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30),
        ("15m", 900),
        ("2h", 7200),
        ("1d", 86400),
        ("1h30m", 5400),
        ("0", 0),
        ("0s", 0),
        ("500ms", Fraction(1, 2)),
        ("1.5h", 5400),
    ],
)
def test_a_duration_is_read_in_seconds(text, seconds):
    assert parse_duration_s(text) == seconds


@pytest.mark.parametrize("text", ["", "30", "12:30", "1 h", "-5m", "h", "5x", "1h 30m", "nan"])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(QuantityError):
        parse_duration_s(text)


def test_a_duration_without_a_unit_is_told_its_unit():
    with pytest.raises(QuantityError) as caught:
        parse_duration_s("30")

    assert (caught.value.rule, caught.value.hint) == (
        "a duration needs its unit",
        "Write 30s, 30m or 30h",
    )


def test_tenths_of_a_gpu_add_up_without_error():
    tenths = [parse_quantity("0.1") for _ in range(10)]
    random.Random(1).shuffle(tenths)

    assert sum(tenths) == 1
