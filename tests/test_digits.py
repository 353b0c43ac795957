"""Numbers in text against Python's own reading of them."""

from __future__ import annotations

from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal

import numpy as np
import pytest

from tracetui.parsers.chrome.digits import integers, nanoseconds, reals
from tracetui.parsers.chrome.records import nanoseconds as careful


def at_once(function, texts):
    data = b",".join(text.encode() for text in texts) + b"," + b" " * 64
    buffer = np.frombuffer(data, np.uint8)
    words = np.ndarray((buffer.size - 8,), "<u8", data, 0, (1,))
    begin = np.cumsum([0] + [len(text) + 1 for text in texts[:-1]])
    values, plain = function(buffer, words, begin)
    return values.tolist(), plain.tolist()


def test_integers_of_every_length():
    texts = [sign + "123456789012345678"[:n] for n in range(1, 19) for sign in ("", "-")] + [
        "0",
        "-0",
        "999999999999999999",
    ]
    values, plain = at_once(integers, texts)
    assert all(plain)
    assert values == [int(text) for text in texts]


@pytest.mark.parametrize(
    "text", ["1234567890123456789", "1.0", "1e5", "1E5", "null", "inf", '"7"', "", "N/A", "-", "+1"]
)
def test_integers_that_are_not_plain(text):
    assert at_once(integers, ["1", text, "2"])[1] == [True, False, True]


@pytest.mark.parametrize("digits", range(8))
def test_nanoseconds_with_any_number_of_decimals(digits):
    rng = np.random.default_rng(digits)
    # what a clock shows in 2262 is the most that fits
    whole = [*rng.integers(0, 10**15, 100).tolist(), *rng.integers(10**15, 2**63 // 1000, 100).tolist()]
    texts = [f"{n}.{rng.integers(0, 10**digits):0{digits}d}" if digits else str(n) for n in whole]
    values, plain = at_once(nanoseconds, texts)
    assert all(plain)
    assert values == [int((Decimal(text) * 1000).to_integral_value(ROUND_DOWN)) for text in texts]


@pytest.mark.parametrize("decimals", range(8, 24))
def test_nanoseconds_of_floats_printed_in_full(decimals):
    rng = np.random.default_rng(decimals)
    texts = [f"{n}.{''.join(map(str, rng.integers(0, 10, decimals)))}" for n in rng.integers(0, 10**6, 200).tolist()]
    texts += ["48." + "637999999999998"[:decimals].ljust(decimals, "9"), "0." + "9" * decimals, "-1." + "9" * decimals]
    values, plain = at_once(nanoseconds, texts)
    assert all(plain)
    rounded = [Decimal(text).quantize(Decimal("1e-6"), ROUND_HALF_UP) for text in texts]
    assert values == [int((number * 1000).to_integral_value(ROUND_DOWN)) for number in rounded]
    assert values[-3:] == [48638, 1000, -2000]
    assert [careful(text) for text in texts] == values


def test_nanoseconds_keep_what_float64_loses():
    assert at_once(nanoseconds, ["1712195495519689.047", "-3.001", "7"])[0] == [1712195495519689047, -3001, 7000]


@pytest.mark.parametrize(
    "text",
    [
        "1e-06",
        "2.5e3",
        "12.123456789e2",
        "1.123456789012345678901234",
        "nan",
        "Infinity",
        '"5"',
        "12345678901234567.5",
        "9999999999999999",
        "9223372036854775.808",
        "-9223372036854775.808",
    ],
)
def test_nanoseconds_that_are_not_plain(text):
    assert at_once(nanoseconds, ["1", text, "2"])[1] == [True, False, True]


def test_reals_are_those_of_float():
    texts = ["0.242424", "51.061058344640436", "5.142857142857143", "11.636364", "-0.5", "100", "0", "0.000001"]
    values, plain = at_once(reals, texts)
    assert all(plain)
    for value, text in zip(values, texts, strict=True):
        exact = len(text.replace(".", "").lstrip("-0")) <= 15
        assert value == float(text) if exact else value == pytest.approx(float(text), rel=3e-16)


@pytest.mark.parametrize("text", ["1e5", "inf", "NaN", "0.12345678901234567", "null"])
def test_reals_that_are_not_plain(text):
    assert at_once(reals, ["1.5", text, "2"])[1] == [True, False, True]
