"""What threads do: the time of each on a CPU, the functions that were sampled there, and calls of the OS runtime."""

from __future__ import annotations

import re

import polars as pl

from tracetui.analysis.gpu.steps import recorded
from tracetui.analysis.selection import Selection
from tracetui.parsers.nsys.beside import Beside, beside, function, library, number_of, process_of
from tracetui.parsers.nsys.tables import OSRT_PSEUDO

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
        busy = turns.join(samples, on="globalTid", how="full", coalesce=True)
        thread_names, programs = file.thread_names(), file.process_names()
    if turns.height:
        busy = busy.with_columns(pl.col("on_cpu_ns", "turns").fill_null(0))
    if samples.height:
        busy = busy.with_columns(pl.col("samples").fill_null(0))
    rows = _with_threads(busy, thread_names).with_columns(
        program=pl.Series([programs.get(process_of(thread)) for thread in busy["globalTid"]], dtype=pl.String),
        name="thread_name",
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
    rows = _with_threads(rows, thread_names).with_columns(
        # several nameless functions of one library may be in one stack
        pl.min_horizontal("total_samples", "of_thread").alias("total_samples"),
        percent=100 * pl.col("samples") / samples.height,
        total_percent=100 * pl.col("total_samples") / samples.height,
    )
    order = ("samples", "total_samples", "function", "module", "process", "thread")
    return rows.sort(*order, descending=[True, True, *[False] * 4], nulls_last=True).select(
        pl.col(name).cast(dtype) for name, dtype in FUNCTIONS.items()
    )


def _real(frames: pl.DataFrame) -> pl.DataFrame:
    """Entries of stacks that are functions: nsys ends stacks with one of its own, which is named as its module."""
    return frames.filter(
        (pl.col("specialEntry").fill_null(0) == 0)
        & pl.col("symbol").is_not_null()
        & pl.col("symbol").ne_missing(pl.col("module"))
    )


def _with_threads(rows: pl.DataFrame, names: dict[int, str]) -> pl.DataFrame:
    threads = rows["globalTid"].to_list()
    return rows.with_columns(
        process=pl.Series([None if thread is None else process_of(thread) for thread in threads], dtype=pl.Int64),
        thread=pl.Series([None if thread is None else number_of(thread) for thread in threads], dtype=pl.Int64),
        thread_name=pl.Series([names.get(thread) for thread in threads], dtype=pl.String),
    )


def _frames(file: Beside, samples: pl.DataFrame) -> pl.DataFrame:
    """Samples and total_samples by globalTid, symbol and module.

    A stack counts a function once, however often it is in it.

    All functions of a library whose names are unknown are one, without a symbol.
    """
    none = pl.DataFrame(schema={"globalTid": pl.Int64, "symbol": pl.Int64, "module": pl.Int64})
    own, all_of = [none.with_columns(samples=pl.lit(0, pl.UInt32))], [none.with_columns(total=pl.lit(0, pl.UInt32))]
    columns = ("id", "symbol", "module", "unresolved", "specialEntry", "stackDepth")
    key = ["globalTid", "symbol", "module"]
    for piece in file.pieces("SAMPLING_CALLCHAINS", *columns):
        nameless = pl.when(pl.col("unresolved").fill_null(0) == 0).then("symbol")
        entries = _real(piece).with_columns(symbol=nameless).join(samples, on="id")
        own.append(entries.filter(pl.col("stackDepth") == 0).group_by(key).agg(samples=pl.len()))
        all_of.append(entries.unique(["id", "symbol", "module"]).group_by(key).agg(total=pl.len()))
    selves = pl.concat(own).group_by(key).agg(pl.col("samples").sum())
    totals = pl.concat(all_of).group_by(key).agg(total_samples=pl.col("total").sum())
    return totals.join(selves, on=key, how="left", nulls_equal=True).with_columns(pl.col("samples").fill_null(0))


REASONS = (
    ("wakes others", r"pthread_(cond_(signal|broadcast)|\w*unlock)|sem_post|(p|tg)?kill"),
    ("waits for a condition", r"pthread_cond_(timed|clock)?wait"),
    ("waits for a lock", r"pthread_(mutex|rwlock|spin)_\w*lock|flockf?|lockf"),
    ("waits for a semaphore", r"sem_\w*wait|semt?(imed)?op"),
    ("waits for a thread", r"pthread_(\w*join\w*|barrier_wait)"),
    ("waits for a process", r"wait(3|4|pid|id)?|system|pclose"),
    ("waits for a signal", r"sig\w*wait\w*|sigsuspend|pause"),
    ("waits for input", r"p?poll|p?select|epoll_\w*wait\d?|accept4?|recv\w*|getaddrinfo|connect"),
    ("sleeps", r"(u|nano|clock_nano)?sleep"),
    ("calls a driver", r"ioctl"),
    ("maps memory", r"m(un|re)?map(64)?|mprotect|madvise|brk|shm_\w+"),
    ("starts threads or programs", r"pthread_create|v?fork|clone\d?|exec\w*|posix_spawn\w*|popen"),
    ("reads or writes", r"p(read|write)v?(64)?|f?(open|close|read|write|flush|gets|puts|printf|seeko?|sync|cntl)v?"
                        r"(64|at)?|open(at)?64|getc|getline|send\w*|v?[fd]printf|stat\w*|[fl]stat\w*"),
)  # fmt: skip
"""What a call is for, by its whole name without leading underscores; the first match counts."""
OTHER = "other"
_REASONS = [(reason, re.compile(pattern)) for reason, pattern in REASONS]
_PLUMBING = re.compile(r"(libc|libpthread|ld-linux|ld)[-.]|libToolsInjection|libstdc\+\+|libgomp")
"""Libraries that pass a call on: not who wanted it."""
OS_CALLS = {
    "name": pl.String(),
    "reason": pl.String(),
    "calls": pl.Int64(),
    "total_ns": pl.Int64(),
    "mean_ns": pl.Float64(),
    "max_ns": pl.Int64(),
    "percent": pl.Float64(),
    "process": pl.Int64(),
    "thread": pl.Int64(),
    "thread_name": pl.String(),
    "caller": pl.String(),
}
_COLUMNS = ("start", "end", "eventClass", "globalTid", "nameId", "callchainId")


def reason_of(name: str) -> str:
    """What a call of this name waits for or does."""
    bare = name.lstrip("_")
    return next((reason for reason, pattern in _REASONS if pattern.fullmatch(bare)), OTHER)


def os_calls(sel: Selection) -> pl.DataFrame:
    """A row per function and thread, the most time first.

    Returns:
        name, reason, calls, total_ns, mean_ns, max_ns, percent (of the recorded time), process, thread, thread_name,
        caller (the function of the program that most of the time was spent for; null without call chains).
    """
    span = recorded(sel)
    with beside(sel.trace) as file:
        calls = None if file is None or span is None else _calls(file, span)
        if file is None or span is None or calls is None or not calls.height:
            return pl.DataFrame(schema=OS_CALLS)
        callers = _callers(file, calls)
        texts, thread_names = file.texts(calls["nameId"].unique().to_list()), file.thread_names()
    key = ["globalTid", "nameId"]
    by_caller = calls.join(callers, on="callchainId", how="left").drop_nulls("caller")
    most = by_caller.group_by(*key, "caller").agg(ns=pl.col("ns").sum()).sort("ns", "caller", descending=[True, False])
    sums = calls.group_by(key).agg(
        calls=pl.len(), total_ns=pl.col("ns").sum(), mean_ns=pl.col("ns").mean(), max_ns=pl.col("ns").max()
    )
    rows = sums.join(most.unique(key, keep="first", maintain_order=True), on=key, how="left", nulls_equal=True)
    spelled = [texts.get(number, "(unknown)") for number in rows["nameId"].to_list()]
    rows = _with_threads(rows, thread_names).with_columns(
        name=pl.Series(spelled, dtype=pl.String),
        reason=pl.Series([reason_of(name) for name in spelled], dtype=pl.String),
        percent=100 * pl.col("total_ns") / max(span[1] - span[0], 1),
    )
    return rows.sort("total_ns", "name", "process", "thread", descending=[True, *[False] * 3]).select(
        pl.col(name).cast(dtype) for name, dtype in OS_CALLS.items()
    )


def _calls(file: Beside, span: tuple[int, int]) -> pl.DataFrame:
    """The calls in the span, each cut to it: ns is their time."""
    low, high = span
    calls = file.whole("OSRT_API", *_COLUMNS)
    calls = calls.filter(~pl.col("eventClass").is_in(OSRT_PSEUDO).fill_null(value=False), pl.col("start").is_not_null())
    end = pl.max_horizontal(pl.col("end").fill_null(high), "start")
    calls = calls.filter((pl.col("start") <= high) & (end >= low))
    return calls.with_columns(ns=end.clip(low, high) - pl.col("start").clip(low, high))


def _callers(file: Beside, calls: pl.DataFrame) -> pl.DataFrame:
    """Who made each chain of calls: the innermost function with a name, in no library that passes calls on."""
    wanted = calls.select("callchainId").drop_nulls().unique()
    none = pl.DataFrame(schema={"callchainId": pl.Int64, "symbol": pl.Int64, "module": pl.Int64, "depth": pl.Int64})
    kept = [none]
    for piece in file.pieces("OSRT_CALLCHAINS", "id", "symbol", "module", "unresolved", "specialEntry", "stackDepth"):
        named = _real(piece).filter((pl.col("stackDepth") > 0) & (pl.col("unresolved").fill_null(0) == 0))
        named = named.select(callchainId="id", symbol="symbol", module="module", depth="stackDepth")
        kept.append(named.join(wanted, on="callchainId", how="semi"))
    frames = pl.concat(kept)
    texts = file.texts({*frames["symbol"].to_list(), *frames["module"].to_list()})
    passes_on = [number for number in frames["module"].unique() if _PLUMBING.match(library(texts.get(number)) or "")]
    own = frames.filter(~pl.col("module").is_in(passes_on).fill_null(value=False))
    first = own.sort("callchainId", "depth").unique("callchainId", keep="first", maintain_order=True)
    where = first.select("symbol", "module").iter_rows()
    names = [function(texts.get(symbol), texts.get(module)) for symbol, module in where]
    return first.select("callchainId", caller=pl.Series(names, dtype=pl.String))
