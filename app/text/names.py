"""Shortens kernel names and keeps them distinct; removes instance numbers from names."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Literal, TypeAlias

import polars as pl

from tracetui.parsers.names.kernel_types import HALF_TYPES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tracetui.analysis.base.json_values import Json

Names: TypeAlias = Literal["short", "full", "raw"]
"""The forms of names; raw is as the file has them."""
_TOKEN = re.compile(r"[A-Za-z_]\w*(?:::[A-Za-z_~]\w*)*|\d\w*")
_TYPES = HALF_TYPES | {"float": "fp32"}
_MACHINERY = frozenset({"elementwise", "gpu_kernel_impl", "gpu_kernel_impl_nocast", "array", "Array", "char", "void"})
MOST_PARTS = 4
_NUMBERED = re.compile(r"(.*[^\s_#:-])[\s_#:-]+\d+")
"""``batch_0``, ``step 3``, ``ProfilerStep#1``; ``conv1`` and ``conv2`` do not match: they are different things."""


def tell_apart(frame: pl.DataFrame) -> pl.DataFrame:
    """Makes `short_name` in a frame of kernels distinct: ``scan_kernel<fp16>`` and ``scan_kernel<fp32>``.

    Only kernels that share a short name get such an ending: the first template arguments in which they differ.
    """
    if "short_name" not in frame.columns or frame["short_name"].n_unique() == frame.height:
        return frame
    names = frame["name"].cast(pl.String).to_list()
    told = _told(zip(names, frame["short_name"].cast(pl.String), strict=True))
    return frame.with_columns(pl.Series("short_name", [told[name] for name in names], pl.String))


def tell_work_apart(frame: pl.DataFrame) -> pl.DataFrame:
    """Makes the `name` of kernels in a tree down to kernels distinct, as `tell_apart`; `kernel` has the whole name."""
    if "kernel" not in frame.columns:
        return frame
    work = frame.filter(pl.col("kernel").is_not_null()).select(pl.col("kernel", "name").cast(pl.String)).unique()
    if work["name"].n_unique() == work.height:
        return frame
    told = _told(work.sort("kernel").iter_rows())
    names = pl.col("kernel").cast(pl.String).replace_strict(told, default=pl.col("name"))
    return frame.with_columns(name=names)


def told_apart(rows: Iterable[Json]) -> dict[str, str]:
    """Does the same for rows of a report: maps each name to its short form, or to itself if it has none."""
    return _told((row["name"], row.get("short_name") or row["name"]) for row in rows)


def _told(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    short_names = dict(pairs)
    sharing: defaultdict[str, list[str]] = defaultdict(list)
    for name, short in short_names.items():
        sharing[short].append(name)
    endings: dict[str, str] = {}
    for names in sharing.values():
        if len(names) > 1:
            endings.update(zip(names, differences(names), strict=True))
    return {name: _ended(short, endings.get(name, "")) for name, short in short_names.items()}


def with_full_names(frame: pl.DataFrame) -> pl.DataFrame:
    """Adds `full_name` to a frame of kernels, as the program's author wrote it, if the file has mangled names."""
    mangled = frame["name"].cast(pl.String).str.starts_with("_Z")
    if not mangled.any():
        return frame
    from tracetui.parsers.names.itanium import demangle

    told = [demangle(name) or name if raw else name
            for name, raw in zip(frame["name"].cast(pl.String), mangled, strict=True)]  # fmt: skip
    return (
        frame
        if told == frame["name"].cast(pl.String).to_list()
        else frame.with_columns(pl.Series("full_name", told, pl.String))
    )


def _ended(short: str, ending: str) -> str:
    if not ending:
        return short
    return f"{short[:-1]},{ending}>" if short.endswith(">") else f"{short}<{ending}>"


def differences(names: Sequence[str]) -> list[str]:
    """Returns the shortest differences that tell the names of one kernel apart; empty if they are the same."""
    tokens = [_tokens(name) for name in names]
    if len({len(found) for found in tokens}) == 1:
        places = [at for at, column in enumerate(zip(*tokens, strict=True)) if len(set(column)) > 1]
        own = [[found[at] for at in places] for found in tokens]
    else:
        common = set.intersection(*(set(found) for found in tokens))
        own = [[token for token in found if token not in common] for found in tokens]
    own = [list(dict.fromkeys(found)) for found in own]
    tries = ([",".join(found[:parts]) for found in own] for parts in range(1, MOST_PARTS))
    full = [",".join(found[:MOST_PARTS]) for found in own]
    return next((endings for endings in tries if len(set(endings)) == len(endings)), full)


def _tokens(name: str) -> list[str]:
    """Splits a name into words and numbers, with short types, without namespaces and dispatch machinery."""
    words = (_TYPES.get(word, word.split("::")[-1]) for word in _TOKEN.findall(name))
    words = (re.sub(r"_?(elementwise)?_kernel(_impl)?$", "", word) for word in words)
    return [word for word in words if word and word not in _MACHINERY and (word.isdigit() or not word[0].isdigit())]


def without_number(name: str) -> str:
    """Returns the name that instances share: ``Block`` for ``Block_3``, ``step`` for ``step 3``."""
    match = _NUMBERED.fullmatch(name)
    return match[1] if match else name
