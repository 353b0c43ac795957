"""Calls of the operating system's runtime: what each waits for or does, and who calls it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import polars as pl

from tracetui.analysis.gpu.steps import recorded
from tracetui.parsers.nsys.beside.reading import beside, function, library, number_of, process_of
from tracetui.parsers.nsys.tables import OSRT_PSEUDO

if TYPE_CHECKING:
    from tracetui.analysis.selection import Selection
    from tracetui.parsers.nsys.beside.reading import Beside

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
    threads = rows["globalTid"].to_list()
    spelled = [texts.get(number, "(unknown)") for number in rows["nameId"].to_list()]
    rows = rows.with_columns(
        name=pl.Series(spelled, dtype=pl.String),
        reason=pl.Series([reason_of(name) for name in spelled], dtype=pl.String),
        percent=100 * pl.col("total_ns") / max(span[1] - span[0], 1),
        process=pl.Series([None if one is None else process_of(one) for one in threads], dtype=pl.Int64),
        thread=pl.Series([None if one is None else number_of(one) for one in threads], dtype=pl.Int64),
        thread_name=pl.Series([thread_names.get(one) for one in threads], dtype=pl.String),
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
        real = piece.filter(
            (pl.col("stackDepth") > 0)
            & (pl.col("unresolved").fill_null(0) == 0)
            & (pl.col("specialEntry").fill_null(0) == 0)
            & pl.col("symbol").is_not_null()
            & pl.col("symbol").ne_missing(pl.col("module"))
        ).select(callchainId="id", symbol="symbol", module="module", depth="stackDepth")
        kept.append(real.join(wanted, on="callchainId", how="semi"))
    frames = pl.concat(kept)
    texts = file.texts({*frames["symbol"].to_list(), *frames["module"].to_list()})
    passes_on = [number for number in frames["module"].unique() if _PLUMBING.match(library(texts.get(number)) or "")]
    own = frames.filter(~pl.col("module").is_in(passes_on).fill_null(value=False))
    first = own.sort("callchainId", "depth").unique("callchainId", keep="first", maintain_order=True)
    names = [function(texts.get(one), texts.get(where)) for one, where in first.select("symbol", "module").iter_rows()]
    return first.select("callchainId", caller=pl.Series(names, dtype=pl.String))
