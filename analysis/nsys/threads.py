"""Who keeps the CPU: the time of each thread on it, and the functions that were sampled there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from tracetui.analysis.gpu.steps import recorded
from tracetui.parsers.nsys.beside.reading import beside, function, library, number_of, process_of

if TYPE_CHECKING:
    from tracetui.analysis.selection import Selection
    from tracetui.parsers.nsys.beside.reading import Beside

THREADS = {
    "process": pl.Int64(),
    "program": pl.String(),
    "thread": pl.Int64(),
    "name": pl.String(),
    "on_cpu_ns": pl.Int64(),
    "percent": pl.Float64(),
    "turns": pl.Int64(),
    "samples": pl.Int64(),
    "samples_percent": pl.Float64(),
}
FUNCTIONS = {
    "function": pl.String(),
    "module": pl.String(),
    "process": pl.Int64(),
    "thread": pl.Int64(),
    "thread_name": pl.String(),
    "samples": pl.Int64(),
    "percent": pl.Float64(),
    "total_samples": pl.Int64(),
    "total_percent": pl.Float64(),
}


def threads(sel: Selection) -> pl.DataFrame:
    """A row per thread that nsys saw on a CPU, the busiest first.

    Returns:
        process, program, thread, name, on_cpu_ns (null without records of the scheduler), percent (of the recorded
        time), turns (how often it was given a CPU), samples (null without samples), samples_percent (of all samples).
    """
    span = recorded(sel)
    with beside(sel.trace) as file:
        if file is None or span is None:
            return pl.DataFrame(schema=THREADS)
        turns, samples = _turns(file, span), _samples(file, span).group_by("globalTid").agg(samples=pl.len())
        if not turns.height and not samples.height:
            return pl.DataFrame(schema=THREADS)
        found = turns.join(samples, on="globalTid", how="full", coalesce=True)
        thread_names, programs = file.thread_names(), file.process_names()
    if turns.height:
        found = found.with_columns(pl.col("on_cpu_ns", "turns").fill_null(0))
    if samples.height:
        found = found.with_columns(pl.col("samples").fill_null(0))
    known = found["globalTid"].to_list()
    rows = found.with_columns(
        process=pl.Series([process_of(one) for one in known], dtype=pl.Int64),
        program=pl.Series([programs.get(process_of(one)) for one in known], dtype=pl.String),
        thread=pl.Series([number_of(one) for one in known], dtype=pl.Int64),
        name=pl.Series([thread_names.get(one) for one in known], dtype=pl.String),
        percent=100 * pl.col("on_cpu_ns") / max(span[1] - span[0], 1),
        samples_percent=100 * pl.col("samples") / pl.col("samples").sum(),
    )
    busiest = pl.coalesce("on_cpu_ns", pl.lit(0)), pl.coalesce("samples", pl.lit(0))
    return rows.sort(*busiest, "process", "thread", descending=[True, True, False, False]).select(
        pl.col(name).cast(dtype) for name, dtype in THREADS.items()
    )


def _turns(file: Beside, span: tuple[int, int]) -> pl.DataFrame:
    """By globalTid on_cpu_ns and turns: the time from each being given a CPU to its being taken away, in the span.

    A thread that was on a CPU as the recording began or ended was so from its begin on, or to its end.
    """
    low, high = span
    # there may be tens of millions: only what is needed is kept of each piece
    kept = [
        piece.drop_nulls().select("globalTid", "start", on=pl.col("isSchedIn") != 0)
        for piece in file.pieces("SCHED_EVENTS", "globalTid", "start", "isSchedIn")
    ]
    events = pl.concat([pl.DataFrame(schema={"globalTid": pl.Int64, "start": pl.Int64, "on": pl.Boolean}), *kept])
    events = events.sort("globalTid", "start", "on", maintain_order=True)
    before, after = pl.col("on").shift(1).over("globalTid"), pl.col("start").shift(-1).over("globalTid")
    events = events.with_columns(first=before.is_null() & ~pl.col("on"), end=after)
    begun = events.filter("on").with_columns(pl.col("end").fill_null(high))
    # the very first record of a thread takes a CPU away that it had before
    had = events.filter("first").with_columns(end="start", start=pl.lit(low, pl.Int64))
    spent = pl.concat([begun.select("globalTid", "start", "end"), had.select("globalTid", "start", "end")])
    spent = spent.with_columns(pl.col("start", "end").clip(low, high)).filter(pl.col("end") > pl.col("start"))
    return spent.group_by("globalTid").agg(on_cpu_ns=(pl.col("end") - pl.col("start")).sum(), turns=pl.len())


def _samples(file: Beside, span: tuple[int, int]) -> pl.DataFrame:
    """The samples in the span: id and globalTid."""
    kept = [
        piece.filter(pl.col("start").is_between(*span)).select("id", "globalTid").drop_nulls()
        for piece in file.pieces("COMPOSITE_EVENTS", "id", "start", "globalTid")
    ]
    return pl.concat([pl.DataFrame(schema={"id": pl.Int64, "globalTid": pl.Int64}), *kept])


def cpu_functions(sel: Selection) -> pl.DataFrame:
    """A row per function and thread in which a CPU sample found a thread, most samples first.

    Returns:
        function, module, process, thread, thread_name, samples (it ran itself), percent (of all samples),
        total_samples (it or what it called ran), total_percent.
    """
    span = recorded(sel)
    with beside(sel.trace) as file:
        if file is None or span is None:
            return pl.DataFrame(schema=FUNCTIONS)
        samples = _samples(file, span)
        if not samples.height:
            return pl.DataFrame(schema=FUNCTIONS)
        frames = _frames(file, samples)
        texts = file.texts({*frames["symbol"].to_list(), *frames["module"].to_list()})
        thread_names = file.thread_names()
    spelled = [
        (function(texts.get(symbol), texts.get(module)), library(texts.get(module)))
        for symbol, module in frames.select("symbol", "module").iter_rows()
    ]
    # functions without a name in the file are one row per library
    rows = (
        frames.with_columns(
            function=pl.Series([name for name, _ in spelled], dtype=pl.String),
            module=pl.Series([module for _, module in spelled], dtype=pl.String),
        )
        .group_by("function", "module", "globalTid")
        .agg(pl.col("samples", "total_samples").sum())
    )
    rows = rows.join(samples.group_by("globalTid").agg(of_thread=pl.len()), on="globalTid")
    known = rows["globalTid"].to_list()
    rows = rows.with_columns(
        # several nameless functions of one library may be in one stack
        pl.min_horizontal("total_samples", "of_thread").alias("total_samples"),
        process=pl.Series([process_of(one) for one in known], dtype=pl.Int64),
        thread=pl.Series([number_of(one) for one in known], dtype=pl.Int64),
        thread_name=pl.Series([thread_names.get(one) for one in known], dtype=pl.String),
    ).with_columns(
        percent=100 * pl.col("samples") / samples.height, total_percent=100 * pl.col("total_samples") / samples.height
    )
    order = ("samples", "total_samples", "function", "module", "process", "thread")
    return rows.sort(*order, descending=[True, True, *[False] * 4], nulls_last=True).select(
        pl.col(name).cast(dtype) for name, dtype in FUNCTIONS.items()
    )


def _frames(file: Beside, samples: pl.DataFrame) -> pl.DataFrame:
    """Samples and total_samples by globalTid, symbol and module.

    A stack counts a function once, however often it is in it.

    All functions of a library whose names are unknown are one, without a symbol. nsys ends stacks with an entry of its
    own, which has the same name as its module.
    """
    none = pl.DataFrame(schema={"globalTid": pl.Int64, "symbol": pl.Int64, "module": pl.Int64})
    own, all_of = [none.with_columns(samples=pl.lit(0, pl.UInt32))], [none.with_columns(total=pl.lit(0, pl.UInt32))]
    columns = ("id", "symbol", "module", "unresolved", "specialEntry", "stackDepth")
    key = ["globalTid", "symbol", "module"]
    for piece in file.pieces("SAMPLING_CALLCHAINS", *columns):
        real = piece.filter(
            (pl.col("specialEntry").fill_null(0) == 0)
            & pl.col("symbol").is_not_null()
            & pl.col("symbol").ne_missing(pl.col("module"))
        )
        nameless = pl.when(pl.col("unresolved").fill_null(0) == 0).then("symbol")
        entries = real.with_columns(symbol=nameless).join(samples, on="id")
        own.append(entries.filter(pl.col("stackDepth") == 0).group_by(key).agg(samples=pl.len()))
        all_of.append(entries.unique(["id", "symbol", "module"]).group_by(key).agg(total=pl.len()))
    selves = pl.concat(own).group_by(key).agg(pl.col("samples").sum())
    found = pl.concat(all_of).group_by(key).agg(total_samples=pl.col("total").sum())
    return found.join(selves, on=key, how="left", nulls_equal=True).with_columns(pl.col("samples").fill_null(0))
