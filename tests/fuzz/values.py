"""Odd values: numbers, texts and containers that a file should not have, but may."""

import copy
import json
from random import Random
from typing import Any


class Raw(str):
    """A token that is written as it stands, whether JSON knows it or not."""


class Pairs(list[tuple[str, Any]]):
    """The members of an object that may have a key twice."""


NUMBERS: tuple[Any, ...] = (
    0, -1, 1, 2, 255, 2**31 - 1, 2**31, -(2**31) - 1, 2**32 - 1, 2**53 + 1, 2**61, 2**62, 2**63 - 1, 2**63, -(2**63),
    -(2**63) - 1, 2**64 - 1, 2**64, 10**30, -(10**30), 1e308, -1e308, 1e-320, -0.0, 0.1, 0.5, 1.9999999999, 1e15, 1e18,
    Raw("1e400"), Raw("-1e400"), Raw("NaN"), Raw("Infinity"), Raw("-Infinity"), Raw("nan"), Raw("-inf"), Raw("0x1F"),
    Raw("1" * 5000), Raw("1.5e+2"), Raw("+1"), Raw("01"), Raw(".5"), Raw("5."), Raw("1e"), Raw("--1"), Raw("N/A"),
    "123", "-3", "12.5", "0x7f", "0xffffffffffffffff", "1e5", "nan", "inf", " 7 ", "1_000", "१२", "1,5",
    "²", "9" * 5000, "stream " + "9" * 5000,
)  # fmt: skip
TEXTS: tuple[str, ...] = (
    "", " ", "\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "\x9b31m", "a\x00b", "\ud800", "x\udfff", "🙂" * 9,
    "é\u0301", "\u202eabc", "\u2028", "\ufeff", "a\nb", "a\rb", "a\tb", "\x7f", "\x85", "=cmd|'/c x'!A1", "@SUM(1)",
    "<script>alert(1)</script>", "![x](javascript:y)", "|a|b|", "`", '"', "\\", "\\u0041", "\\x", "'", "%s%n", "$HOME",
    "ProfilerStep#1", "ProfilerStep#99999999999999999999999", "ProfilerStep#-1", "[memory]", "(no name)", "##", "},{",
    '}, {"ph": "X"', "void f<", "f<g<h<" * 40, "_ZN" + "9" * 30, "_Z" + "N" * 400, "_ZN" + "9" * 5000,
    "ProfilerStep#" + "9" * 5000, "/device:GPU:" + "9" * 5000, "(" * 300, "void f(int)::{lambda",
    "/home/ada/x.py(3): f", "C:\\Users\\ada\\x", "nn.Module: Linear_", "nn.Module: ", "autograd::engine::", "NULL",
    "cudaLaunchKernel", "Memcpy HtoD (Pinned -> Device)", "ncclKernel_AllReduce_RING", "a" * 3000, "ｗｉｄｅ" * 30,
)  # fmt: skip
CONTAINERS: tuple[Any, ...] = (
    None, True, False, [], {}, [[]], [None], [1, 2, 3], [1, 2], [1, 2, 3, 4], ["a"], {"a": 1}, [{}], {"": None},
    [1e308, -1, "x"], Raw("[" * 60 + "]" * 60), Raw("[" * 3000 + "]" * 3000), Raw('{"a":' * 2000 + "1" + "}" * 2000),
    [-1, 2**40, 0],
)  # fmt: skip


def number(dice: Random) -> Any:
    """A number that no profiler writes, or something that stands in its place."""
    return dice.choice(NUMBERS)


def text(dice: Random) -> str:
    """A text that is hard to show, to match or to parse."""
    return dice.choice(TEXTS)


def anything(dice: Random) -> Any:
    """A value of any type."""
    return copy.deepcopy(dice.choice((NUMBERS, TEXTS, CONTAINERS)[dice.randrange(3)]))


def plain(value: Any) -> Any:
    """The value as Python has it: for formats that have no tokens of their own."""
    if not isinstance(value, Raw):
        return value
    try:
        return float(value)
    except ValueError:
        return str(value)


def written(value: Any) -> str:
    """JSON, with raw tokens, keys that stand twice, and halves of surrogates as escapes."""
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, Pairs):
        return "{" + ",".join(f"{json.dumps(key)}:{written(item)}" for key, item in value) + "}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(str(key))}: {written(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(written, value)) + "]"
    return json.dumps(value)
