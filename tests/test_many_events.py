"""What makes findings quick on recordings of millions of events gives what the plain way gives."""

from __future__ import annotations

import gc

import numpy as np
import polars as pl
import pytest
from sample_runs import FP32
from tui_pilot import opened, press

from tracetui.analysis.base import names
from tracetui.analysis.captures.measure import _in_order, _outermost, _union

KEYS = ["process", "thread", "number"]


def ranges(seed, *, by_thread, size=400):
    """Ranges of a few threads that nest, overlap, touch, and last no time."""
    rng = np.random.default_rng(seed)
    start = rng.integers(0, 300, size)
    frame = pl.DataFrame(
        {
            "process": rng.choice([7, 2**40], size),
            "thread": rng.choice([-1, 3, 2**50, -(2**50)], size),
            "number": rng.integers(0, 5, size),
            "start": start,
            "end": start + rng.choice([0, 0, 1, 5, 20, 90], size),
        }
    )
    return frame.sort("process", "thread", "start", "end", descending=[False] * 3 + [True]) if by_thread else frame


def plain_outermost(rows, keys):
    kept = []
    for _, group in rows.sort(*keys, "start", "end", descending=[False] * (len(keys) + 1) + [True]).group_by(
        keys, maintain_order=True
    ):
        reached = None
        for row in group.iter_rows(named=True):
            start, end = row["start"], row["end"]
            if reached is None or end > reached or (start == reached == end):
                kept.append(row)
            reached = end if reached is None else max(reached, end)
    return pl.DataFrame(kept, schema=rows.schema)


def plain_union(rows, keys):
    found = []
    for _, group in rows.filter(pl.col("end") > pl.col("start")).sort("start").group_by(keys):
        for row in group.iter_rows(named=True):
            if found and all(found[-1][key] == row[key] for key in keys) and row["start"] <= found[-1]["end"]:
                found[-1]["end"] = max(found[-1]["end"], row["end"])
            else:
                found.append(dict(row))
    return pl.DataFrame(found, schema=rows.schema).select(*keys, "start", "end")


@pytest.mark.parametrize("by_thread", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_ranges_inside_others_and_the_time_they_cover(seed, by_thread):
    rows = ranges(seed, by_thread=by_thread)
    for keys in (KEYS, ["process", "number"]):
        ordered = _in_order(rows, keys)
        columns = [*keys, "start", "end"]
        assert (
            _outermost(ordered)
            .select(columns)
            .sort(columns)
            .equals(plain_outermost(rows, keys).select(columns).sort(columns))
        )
        assert _union(ordered).select(columns).sort(columns).equals(plain_union(rows, keys).sort(columns))


def test_no_ranges():
    rows = ranges(0, by_thread=True).head(0)
    assert _outermost(_in_order(rows, KEYS)).height == 0
    assert _union(_in_order(rows, KEYS)).height == 0


@pytest.mark.parametrize("dtype", [pl.String, pl.Categorical])
def test_a_name_is_asked_once(dtype):
    asked = []

    def category(name):
        asked.append(name)
        return name[0]

    series = pl.Series(["gemm", None, "copy", "gemm", ""][:4], dtype=dtype)
    assert names.mapped(series, category, "other").to_list() == ["g", "other", "c", "g"]
    assert sorted(asked) == ["copy", "gemm"]
    assert names.mapped(series.head(0), category, "other").to_list() == []
    assert names.mapped(pl.Series([None, None], dtype=dtype), category, "other").to_list() == ["other", "other"]


async def test_what_is_there_once_a_tab_is_shown_is_not_looked_through_for_garbage_again(monkeypatch):
    frozen = []
    async with opened(FP32) as (app, pilot):
        monkeypatch.setattr(gc, "freeze", lambda: frozen.append(app.tab))
        await press(pilot, "2")
        assert frozen == []  # many programs in one process would never be freed
        monkeypatch.setattr(type(app), "is_headless", property(lambda _: False))
        await press(pilot, "3", "2")
        assert frozen == ["operators"]
