"""Siblings of a tree that share one row: repeated ones, as the blocks of a model are, and those too small to matter."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from tracetui.analysis.base.number_format import format_ns, format_signed_ns

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

LEAST_PERCENT = 0.5
"""Percent of all time below which a row is small."""
ALWAYS_SHOWN = 5
"""How many of the largest siblings always show: of a thousand different ranges, some must be visible."""
FEWEST = 3
"""The least number of siblings that get a common row."""
_NUMBER = re.compile(r"(?<![^\W_])(\d{1,18})(?![^\W_])")
"""A number that stands by itself: in ``Block_3`` and ``blocks.3``, not in ``conv1``; longer ones are none."""
_NAMES = ("name", "label", "short_name")
_TIMES = ("delta_ns", "device_total_ns", "host_total_ns")
"""What a row is about, the first of these that is not 0."""
_CALLS = {"a_ns": "a_calls", "b_ns": "b_calls"}
"""What counts the calls of a number; ``calls`` where none is named."""
_WHOLE = ("percent", "calls", "a_calls", "b_calls")
"""Numbers that are of all calls where the others are of one."""
_SUMMED = (
    *_WHOLE, "device_total_ns", "device_self_ns", "backward_device_ns", "device_meanwhile_ns", "host_total_ns",
    "host_self_ns", "kernels", "gpu_ops", "operators", "a_ns", "b_ns",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Folded:
    """Siblings that share one row."""

    parent: int
    """Their parent row; -1 for none."""
    rows: tuple[int, ...]
    """In the frame's order."""
    name: str = ""
    """What repeated ones are called together, ``Block_0-23``; empty for small ones, which are shown last."""


def small_siblings(
    frame: pl.DataFrame, children: Mapping[int, Sequence[int]], apart: Container[int] = ()
) -> list[Folded]:
    """Returns the groups of small siblings, by parent.

    Args:
        frame: a tree with a ``percent`` of all time; where it has none, the share of ``host_total_ns`` counts.
        children: rows below each row, -1 for the roots.
        apart: rows that are folded already.
    """
    shares = _shares(frame, children.get(-1, ()))
    if shares is None:
        return []
    groups = []
    for parent, below in children.items():
        rows = [row for row in below if row not in apart]
        ranked = sorted(rows, key=lambda row: -shares[row])
        small = [row for row in ranked[ALWAYS_SHOWN:] if shares[row] < LEAST_PERCENT]
        if len(small) >= FEWEST:
            groups.append(Folded(parent, tuple(sorted(small))))
    return groups


def repeated_siblings(frame: pl.DataFrame, children: Mapping[int, Sequence[int]], work: Container[int]) -> list[Folded]:
    """Returns the groups of siblings whose names differ in one number and which contain the same by name.

    Args:
        frame: a tree, rows depth first.
        children: rows below each row, -1 for the roots.
        work: rows that are operators or kernels, whose numbers tell different things apart.
    """
    names = frame[next(name for name in ("label", "short_name", "name") if name in frame.columns)].cast(pl.String)
    texts = names.fill_null("").to_list()
    shape, known = [0] * frame.height, dict[tuple[str, tuple[int, ...]], int]()
    for row in reversed(range(frame.height)):
        name = texts[row] if row in work else _NUMBER.sub("#", texts[row])
        inside = tuple(sorted(shape[child] for child in children.get(row, ())))
        shape[row] = known.setdefault((name, inside), len(known))
    groups = []
    for parent, rows in children.items():
        alike: dict[int, list[int]] = {}
        for row in rows:
            if row not in work:
                alike.setdefault(shape[row], []).append(row)
        for same in alike.values():
            if len(same) >= FEWEST:
                groups += [Folded(parent, tuple(found), name) for found, name in _numbered(same, texts)]
    return groups


def _numbered(rows: Iterable[int], names: Sequence[str]) -> Iterator[tuple[list[int], str]]:
    """Rows whose names differ in one number only, with what they are called together; the last numbers first."""
    parts = {row: _NUMBER.split(names[row]) for row in rows}
    for place in reversed(range(1, max(map(len, parts.values())), 2)):
        alike: dict[tuple[str, ...], list[int]] = {}
        for row, of in parts.items():
            alike.setdefault((*of[:place], *of[place + 1 :]), []).append(row)
        for same in alike.values():
            numbers = sorted({parts[row][place] for row in same}, key=int)
            if FEWEST <= len(same) == len(numbers):
                of, all_there = parts[same[0]], int(numbers[-1]) - int(numbers[0]) < len(numbers)
                span = f"{numbers[0]}{'-' if all_there else '…'}{numbers[-1]}"
                yield same, "".join((*of[:place], span, *of[place + 1 :]))
                parts = {row: of for row, of in parts.items() if row not in same}


def with_folded(frame: pl.DataFrame, groups: Sequence[Folded], *, per_call: bool = False) -> pl.DataFrame:
    """The frame followed by a row for each group, with the sums of its numbers; per call, with the means over calls."""
    known = [name for name in _SUMMED if name in frame.columns]
    rows: list[dict[str, Any]] = []
    for group in groups:
        part = frame[list(group.rows)]
        row: dict[str, Any] = dict.fromkeys(frame.columns)
        for name in known:
            calls = _CALLS.get(name, "calls")
            of = part.filter(pl.col(name).is_not_null())
            if not per_call or name in _WHOLE:
                row[name] = of[name].sum() if of.height else None
            elif calls in frame.columns and of[calls].sum():
                row[name] = float((of[name] * of[calls]).sum()) / float(of[calls].sum())
        if "delta_ns" in row and None not in (row["a_ns"], row["b_ns"]):
            row["delta_ns"] = row["b_ns"] - row["a_ns"]
            row["delta_percent"] = 100 * row["delta_ns"] / row["a_ns"] if row["a_ns"] else None
        row |= {name: part[name][0] for name in ("depth", "row_kind") if name in row}
        if "status" in row:
            row["status"] = part["status"][0] if part["status"].n_unique() == 1 else "changed"
        spent = next((row[name] for name in _TIMES if row.get(name)), None)
        written = format_signed_ns if "delta_ns" in row else format_ns
        mean = "" if spent is None or per_call else f" {written(spent / len(group.rows))}"
        told = f"{group.name} {len(group.rows)} ×{mean}" if group.name else ""
        told = told or f"… {len(group.rows)} more below {LEAST_PERCENT:g} %"
        rows.append(row | {name: told for name in _NAMES if name in row})
    return pl.concat([frame, pl.DataFrame(rows, schema=frame.schema, strict=False)])


def _shares(frame: pl.DataFrame, roots: Sequence[int]) -> list[float] | None:
    """Percent of all time, by row."""
    if "percent" in frame.columns and frame["percent"].null_count() < frame.height:
        shares: list[float] = frame["percent"].fill_null(0.0).to_list()
        return shares
    if "host_total_ns" not in frame.columns:
        return None
    times = frame["host_total_ns"].cast(pl.Float64).fill_null(0.0).to_list()
    total = sum(times[row] for row in roots)
    return [100 * time / total for time in times] if total else None
