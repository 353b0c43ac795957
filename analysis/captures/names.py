"""What differs between captures' names: ``small_ctx128`` and ``xl_ctx512`` tell model and context length."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

Value = str | int | float
"""What stands for a capture on an axis."""
SUFFIXES = (
    ".gz", ".json", ".trace", ".pt", ".sqlite", ".csv", ".pickle", ".nsys-rep", ".ncu-rep",
)  # fmt: skip
_SEPARATORS = (r"[/_\-=,\s]+|\.(?!\d)|(?<!\d)\.", r"[/_\s]+", r"[/\-\s]+", r"/+")
"""Ways to cut names into parts, the finest first; a dot between digits is part of a number."""
_NUMBER = r"\d+(?:\.\d+)?"
_LETTERS_NUMBER = re.compile(rf"([A-Za-z]+)({_NUMBER})$")
_NUMBER_LETTERS = re.compile(rf"({_NUMBER})([A-Za-z]+)$")
_DTYPE = re.compile(r"(fp|bf|tf|int|float|bfloat|f)(4|8|16|32|64)|amp|half|double|e4m3|e5m2", re.IGNORECASE)
_SIZE = re.compile(rf"({_NUMBER})([KMBkmb])$")


def names_of(paths: Sequence[Path]) -> list[str]:
    """Each file's path below the folder that all are in, without the suffixes of its format."""
    parents = [os.fspath(path.absolute().parent) for path in paths]
    top = os.path.commonpath(parents) if parents else ""
    return [stem(os.path.relpath(path.absolute(), top)) for path in paths]


def axes_of(names: Sequence[str]) -> list[dict[str, Value]]:
    """Returns what tells each name from the others, by axis, numbers as numbers; empty where names follow no pattern.

    An axis is called by the letters that stand with its numbers (``ctx128``, ``4bs``) or before them (``ctx_128``),
    else ``dtype`` or ``model``.
    """
    if len(set(names)) < 2:
        return [{} for _ in names]
    for separator in _SEPARATORS:
        parts = [[part for part in re.split(separator, name) if part] for name in names]
        if len({len(row) for row in parts}) == 1 and (len(parts[0]) > 1 or separator == _SEPARATORS[0]):
            return _by_position(parts)
    return _by_letters([[part for part in re.split(_SEPARATORS[0], name) if part] for name in names])


def stem(name: str) -> str:
    """A file's name or path without the suffixes of its format."""
    while True:
        shorter = name
        for suffix in SUFFIXES:
            shorter = shorter.removesuffix(suffix)
        if shorter == name:
            return name.replace(os.sep, "/")
        name = shorter


def _by_position(parts: list[list[str]]) -> list[dict[str, Value]]:
    """The parts at which the names differ."""
    found: list[dict[str, Value]] = [{} for _ in parts]
    for place in range(len(parts[0])):
        values = [row[place] for row in parts]
        if len(set(values)) == 1:
            continue
        before = {row[place - 1] for row in parts} if place else set()
        title, numbers = _axis(values, before.pop() if len(before) == 1 else "")
        title = _free(title, found[0])
        for row, number in zip(found, numbers, strict=True):
            row[title] = number
    return found


def _axis(values: list[str], before: str) -> tuple[str, list[Value]]:
    """What an axis is called, and its values."""
    if all(_DTYPE.fullmatch(value) for value in values):
        return "dtype", list(values)
    for pattern, word, number in ((_LETTERS_NUMBER, 1, 2), (_NUMBER_LETTERS, 2, 1)):
        matches = [pattern.fullmatch(value) for value in values]
        known = [match for match in matches if match]
        words = {match[word] for match in known}
        if len(known) == len(values) and len(words) == 1 and not all(_SIZE.match(value) for value in values):
            return words.pop(), [_number(match[number]) for match in known]
    if all(re.fullmatch(_NUMBER, value) for value in values):
        return before if re.fullmatch(r"[A-Za-z]+", before) else "number", [_number(value) for value in values]
    return "model", list(values)


def label(axes: Mapping[str, Value], name: str) -> str:
    """What a capture is called: its name as short as its axes allow, ``small ctx128``."""
    return " ".join(spelled(axis, value) for axis, value in axes.items()) or name


def spelled(axis: str, value: Value) -> str:
    """``ctx128``; a text as it is."""
    return value if isinstance(value, str) else f"{axis}{value:g}"


def place(value: Value) -> tuple[float, str]:
    """Numbers by size, before texts by letter."""
    return (float("inf"), value) if isinstance(value, str) else (float(value), "")


def _by_letters(parts: list[list[str]]) -> list[dict[str, Value]]:
    """Where the names have different numbers of parts: what all have with the same letters, and the rest as one."""
    found: list[dict[str, Value]] = [{} for _ in parts]
    tagged = [{m[1]: m[2] for part in row if (m := _LETTERS_NUMBER.fullmatch(part))} for row in parts]
    shared = [word for word in tagged[0] if all(word in row for row in tagged) and not _DTYPE.match(f"{word}16")]
    rest = [
        "_".join(part for part in row if not ((m := _LETTERS_NUMBER.fullmatch(part)) and m[1] in shared))
        for row in parts
    ]
    if shared and len(set(rest)) > 1:
        for row, text in zip(found, rest, strict=True):
            row["model"] = text
    for word in shared:
        if len({row[word] for row in tagged}) > 1:
            for row, tags in zip(found, tagged, strict=True):
                row[word] = _number(tags[word])
    return found


def _free(title: str, taken: dict[str, Value]) -> str:
    """The title, numbered if another axis has it."""
    number, free = 2, title
    while free in taken:
        number, free = number + 1, f"{title} {number}"
    return free


def _number(text: str) -> Value:
    return float(text) if "." in text else int(text)
