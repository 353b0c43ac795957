"""What a text on the command line means as a value of an option; each raises ArgumentTypeError where it means none."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

MOST = 2**31 - 1
"""Exceeds any count of steps, rows, ranks or GPUs; larger numbers mean the same, so they are cut to this."""


def input_path(text: str) -> Path:
    """Returns the path of an input."""
    found = path_or_url(text)
    if isinstance(found, str):
        raise argparse.ArgumentTypeError(f"{text} is in a store, whose ranks `tracetui ranks {text}` compares")
    return found


def path_or_url(text: str) -> Path | str:
    """Returns the path of an input, or its URL where it is not of this machine."""
    if not text:  # as a shell's variable that is not set gives it; Path("") would be this folder
        raise argparse.ArgumentTypeError("an empty path; . is this folder")
    if text.startswith("file://"):
        from urllib.parse import urlsplit
        from urllib.request import url2pathname

        text = url2pathname(urlsplit(text).path)
    return text if "://" in text else Path(text)


def steps(text: str) -> tuple[int, int]:
    """Returns the first and the last step of ``3`` or ``2-5``."""
    first, dash, last = text.partition("-")
    try:
        span = int(first), int(last) if dash else int(first)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a step (3) nor a range of steps (2-5)") from None
    if span[0] > span[1]:
        raise argparse.ArgumentTypeError(f"{text!r} ends before it begins")
    return span


def port(text: str) -> int:
    """Returns the number of a TCP port."""
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port; there are 0 to 65535")
    return int(text)


def count(text: str) -> int:
    """Returns a whole number, `MOST` at most."""
    return min(whole_number(text), MOST)


_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?", re.IGNORECASE)


def memory_size(text: str) -> int:
    """Returns the bytes of ``8GB``, ``500MiB`` or ``4G``."""
    size = _SIZE.fullmatch(text.strip())
    if size is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no size; such as 8GB or 500MiB")
    unit = 1024 if size[3] else 1000
    return min(int(float(size[1]) * unit ** " KMGT".index(size[2].upper() or " ")), 2**62)


def condition(text: str) -> float:
    """Returns the limit in percent of ``regression:5%``."""
    kind, _, size = text.partition(":")
    number = size.strip().removesuffix("%")
    try:
        limit = float(number)
    except ValueError:
        limit = -1.0
    if kind != "regression" or not 0 <= limit < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no condition; the one there is: regression:5%")
    return limit


def positive(text: str) -> int:
    """Returns a whole number above 0."""
    if not (number := count(text)):
        raise argparse.ArgumentTypeError("at least 1")
    return number


def job_part(text: str) -> tuple[int, int]:
    """Returns which part of how many ``3/64`` is, the first being 0."""
    number, _, parts = text.partition("/")
    if not (number.isdecimal() and parts.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} is no part, such as 0/64")
    if int(number) >= int(parts):
        raise argparse.ArgumentTypeError(f"{text!r}: there are parts 0 to {int(parts) - 1}" if int(parts) else text)
    return int(number), int(parts)


def whole_number(text: str) -> int:
    """Returns a whole number of any size."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)


def positive_number(text: str) -> int:
    """The same above 0."""
    if not (number := whole_number(text)):
        raise argparse.ArgumentTypeError("0 is too few")
    return number


def number_of_seconds(text: str) -> float:
    """Returns a time in seconds."""
    return _above_0(text, sys.float_info.max, "is not a number of seconds")


def duration(text: str) -> float:
    """Returns the seconds of ``10m``, ``90s`` or ``600``."""
    unit = {"s": 1, "m": 60, "h": 3600}.get(text[-1:], 0)
    return number_of_seconds(text[:-1]) * unit if unit else number_of_seconds(text)


def seconds_or_none(text: str) -> float:
    """Returns a time in seconds, which may be 0."""
    return 0.0 if text.strip() == "0" else number_of_seconds(text)


def share(text: str) -> float:
    """Returns a fraction."""
    return _above_0(text, 1, "is not a fraction between 0 and 1")


def _above_0(text: str, most: float, problem: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 < number <= most:
        raise argparse.ArgumentTypeError(f"{text!r} {problem}")
    return number
