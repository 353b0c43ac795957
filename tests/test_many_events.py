"""What makes findings quick on recordings of millions of events gives what the plain way gives."""

from __future__ import annotations

import gc

import numpy as np
import polars as pl
import pytest
from sample_runs import FP32
from tui_pilot import opened, press

from tracetui.analysis.attribution.calltree import numbered_by
from tracetui.analysis.base import names
from tracetui.analysis.base.names import of_kinds
from tracetui.analysis.captures import spans
from tracetui.parsers import schema

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


def as_rows(rows, keys, group, found):
    """Stretches as rows of a frame, with the keys of their groups."""
    first = {number: row for row, number in reversed(list(enumerate(group.tolist())))}
    known = rows.select(keys)[[first[number] for number in found.group.tolist()]]
    return known.with_columns(start=pl.Series(found.start), end=pl.Series(found.end)).sort(*keys, "start", "end")


@pytest.mark.parametrize("few", [True, False])
@pytest.mark.parametrize("by_thread", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_ranges_inside_others_and_the_time_they_cover(seed, by_thread, few, monkeypatch):
    monkeypatch.setattr(spans, "_FEW_GROUPS", 100 if few else 0)
    rows = ranges(seed, by_thread=by_thread)
    start, end = rows["start"].to_numpy(), rows["end"].to_numpy()
    for keys in (KEYS, ["process", "number"]):
        columns = [*keys, "start", "end"]
        group = numbered_by(rows, keys)
        ordered = spans.in_order(group, start, end)
        outer = as_rows(rows, keys, group, ordered.take(spans.outermost(ordered)))
        assert outer.equals(plain_outermost(rows, keys).select(columns).sort(columns))
        assert as_rows(rows, keys, group, spans.union(ordered)).equals(plain_union(rows, keys).sort(columns))
    # the stretches of a process and number are those of its threads together
    of_threads = numbered_by(rows, KEYS)
    wider = np.zeros(of_threads.max() + 1, np.int64)
    wider[of_threads] = group
    on_threads = spans.union(spans.in_order(of_threads, start, end))
    together = spans.union(spans.regrouped(on_threads, wider[on_threads.group]))
    assert as_rows(rows, keys, group, together).equals(plain_union(rows, keys).sort(columns))


def test_no_ranges():
    nothing = np.zeros(0, np.int64)
    ordered = spans.in_order(nothing, nothing, nothing)
    assert spans.outermost(ordered).size == 0
    assert spans.union(spans.regrouped(ordered, nothing)).start.size == 0


def test_groups_with_gaps_are_numbered_anew():
    label = np.array([7, 2, 7, 10**12])
    groups, number = spans.dense_groups(label)
    assert groups.tolist() == [2, 7, 10**12]
    assert groups[number].tolist() == label.tolist()
    groups, number = spans.dense_groups(np.array([1, 0, 3]))
    assert groups[number].tolist() == [1, 0, 3]


def test_kinds_and_numbers_of_chosen_rows():
    kind = pl.Series(["runtime", None, "operator", "runtime"], dtype=schema.HostKind)
    assert of_kinds(kind, "runtime", "driver").tolist() == [True, False, False, True]
    assert of_kinds(kind.drop_nulls(), "operator").tolist() == [False, True, False]
    named = pl.Series(["b1", "a", None, "b2", "c"], dtype=pl.Categorical)
    numbers, texts = names.numbered(named, np.array([True, False, True, True, True]), lambda name: name[0], "")
    assert [texts[number] for number in numbers] == ["b", "", "b", "c"]


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
