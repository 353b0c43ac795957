"""Which lines of the program its threads were in, as a sampler saw without a profiler (`parsers.runs.samples`).

A line is the innermost frame of the program's own code; what libraries do below it counts for the line.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

import polars as pl
from msgspec import Struct

from tracetui.analysis.base.own_code import LIBRARY
from tracetui.analysis.base.remembered import kept
from tracetui.parsers import Trace
from tracetui.parsers.runs import samples
from tracetui.parsers.runs.samples import Frame, Samples

Columns: TypeAlias = "dict[str, pl.DataType | type[pl.DataType]]"
NO_LINE = "(no line of the program)"
WITHIN = ("<genexpr>", "<listcomp>", "<setcomp>", "<dictcomp>", "<lambda>")
"""Functions that are a part of a line."""
LINES: Columns = {
    "name": pl.String, "short_name": pl.String, "function": pl.String, "step_ns": pl.Float64, "percent": pl.Float64,
    "samples": pl.Int64, "path_percent": pl.Float64, "thread_at": pl.Int64,
    "mostly_in": pl.String, "called_from": pl.String, "thread": pl.String, "other": pl.Boolean,
}  # fmt: skip

Path: TypeAlias = tuple[Frame, ...]


class Sampled(Struct, frozen=True):
    """A recording's samples, and the clean steps that they explain."""

    file: Samples
    clean_ns: float | None
    """The mean of the clean steps; None where none were timed."""

    @property
    def places(self) -> dict[Frame, int]:
        """Where each frame is in the file."""
        return {frame: at for at, frame in enumerate(self.file.frames)}

    @property
    def threads(self) -> list[str]:
        """The name of each thread, with a number where several have the same; one for all other processes."""
        names = [thread.name for thread in self.file.threads]
        for at in self.workers:
            names[at] = "another process" if len(self.workers) == 1 else f"{len(self.workers)} other processes, mean"
        seen: Counter[str] = Counter()
        told: list[str] = []
        for name in names:
            seen[name] += 1
            told.append(f"{name} {seen[name]}" if names.count(name) > 1 and len(told) not in self.workers else name)
        return told

    @property
    def workers(self) -> list[int]:
        """The threads of processes that the program started, which are told as their mean, in the first one's place."""
        return [at for at, thread in enumerate(self.file.threads) if thread.process is not None]

    @property
    def whole_ns(self) -> float:
        """How long these steps took on the host: the base of all shares."""
        return sum(self.file.host_ns)

    def stays(self, thread: int | None = None) -> Iterator[tuple[int, Path, int]]:
        """Thread, stack and time of what was seen; of one thread, or of all."""
        return ((at, stack, ns) for _, at, stack, ns in self.seen() if thread in (None, at))

    def seen(self) -> Iterator[tuple[int, int, Path, int]]:
        """Step, thread, stack and time of what was seen."""
        stacks = [tuple(self.file.frames[at] for at in stack.frames) for stack in self.file.stacks]
        workers = self.workers
        for stay in self.file.stays:
            at, ns = (workers[0], round(stay.ns / len(workers))) if stay.thread in workers else (stay.thread, stay.ns)
            yield stay.step, at, stacks[stay.stack], ns

    def scatter_percent(self, by_step: list[float]) -> float:
        """How far the share of the steps may lie from that of what takes this time in each: 95 % of such samples."""
        share, steps = sum(by_step) / self.whole_ns, len(by_step)
        off = [ns - share * step for ns, step in zip(by_step, self.file.host_ns, strict=True)]
        return 200 * math.sqrt(sum(each * each for each in off) * steps / max(steps - 1, 1)) / self.whole_ns

    def spent(self, ns: float) -> dict[str, float | int | None]:
        """The columns that say how long something took."""
        share = min(ns / self.whole_ns, 1.0) if self.whole_ns else None  # each stay is rounded
        return {
            "step_ns": None if share is None or self.clean_ns is None else share * self.clean_ns,
            "percent": None if share is None else 100 * share,
            "samples": None if self.file.rate_hz is None else round(ns * self.file.rate_hz / 1e9),
        }


def sampled(trace: Trace) -> tuple[Sampled | None, str | None]:
    """The samples of a trace's run, if they are of its process, and one line if they can't be read."""
    found, problem = samples.of_trace(trace)
    if found is None:
        return None, problem
    clean = trace.clean_step_ns
    return Sampled(found, sum(clean) / len(clean) if clean else None), None


def host_lines(of: Sampled | None, path: Mapping[Frame, float | None] = MappingProxyType({})) -> pl.DataFrame:
    """A row per line and thread: those of the thread that runs the steps first, of each thread the longest first.

    Args:
        of: the samples.
        path: percent of the critical path of lines of the thread that runs the steps (`sampled_calls.path_by_line`).
    """
    spent: Counter[tuple[int, Frame | None]] = Counter()
    below: dict[tuple[int, Frame | None], Counter[Frame | None]] = {}
    above: dict[tuple[int, Frame | None], Counter[Path]] = {}
    for thread, stack, ns in of.stays() if of is not None else ():
        at = own_place(stack)
        key = (thread, None if at is None else stack[at])
        spent[key] += ns
        library = next((frame for frame in stack[-1:] if not is_own(frame)), None)
        below.setdefault(key, Counter())[library] += ns
        above.setdefault(key, Counter())[tuple(frame for frame in stack[: at or 0] if is_own(frame))] += ns
    threads = [] if of is None else of.threads
    rows = []
    for (thread, line), ns in spent.items():
        assert of is not None
        inner = below[thread, line].most_common(1)[0][0]
        outer = above[thread, line].most_common(1)[0][0]
        rows.append(
            {
                **_named(line),
                **of.spent(ns),
                "path_percent": path.get(line) if line and of.file.threads[thread].steps else None,
                "mostly_in": None if inner is None else frame_words(inner),
                "called_from": " > ".join(map(frame_words, outer)) or None,
                "thread": threads[thread],
                "other": not of.file.threads[thread].steps,
                "thread_at": thread,
            }
        )
    return pl.DataFrame(rows, schema=LINES).sort("other", "thread_at", "percent", descending=[False, False, True])


class OwnWork(Struct, frozen=True):
    """What a function of the program does itself in the sampled steps."""

    lines: Counter[Frame]
    """The time of each of its lines, ns."""
    by_step: list[float]
    """Its time in each step, ns."""

    @property
    def ns(self) -> int:
        """All of it."""
        return self.lines.total()


def own_work(of: Sampled, part_of: Callable[[Frame, bool], float]) -> list[OwnWork]:
    """The work of each function of the program in the steps, beside the network; the most time first.

    By the innermost function of the program's own on the thread that runs the steps; nothing of a backward pass or an
    optimizer, or of what a loader does or waits for below it.

    Args:
        of: the samples.
        part_of: what part of a function's time counts, by one of its lines and whether it is under a module.
    """
    found: dict[tuple[str, str], OwnWork] = {}
    for step, thread, stack, ns in of.seen():
        at = own_place(stack) if of.file.threads[thread].steps else None
        if at is None or any(_LOADER in frame.file for frame in stack[at:]):
            continue
        network = next((match[1] for frame in reversed(stack) if (match := _NETWORK.search(frame.file))), None)
        counts = network is None or (network == "nn" and is_own(stack[-1]))
        part = part_of(stack[at], network is not None) if counts else 0.0
        if part:
            empty = OwnWork(Counter(), [0.0] * len(of.file.host_ns))
            work = found.setdefault((stack[at].file, stack[at].function), empty)
            work.lines[stack[at]] += round(part * ns)
            work.by_step[step] += part * ns
    return sorted(found.values(), key=lambda each: -each.ns)


_LOADER = "/torch/utils/data/"
_NETWORK = re.compile(r"/torch/(nn|autograd|optim)/")


class Line(NamedTuple):
    """A line of the thread that runs the steps."""

    name: str
    """`/home/ann/train.py:12`"""
    short: str
    """`train.py:12, step`"""
    ns: float | None
    percent: float


@kept
def line_times(trace: Trace) -> Mapping[str, float]:
    """By line, ``train.py:12``: what it takes of the sampled steps on the thread that runs them, percent.

    Not of files of one name, which a place can't tell apart.
    """
    rows = host_lines(sampled(trace)[0]).filter(~pl.col("other") & pl.col("percent").is_not_null())
    lines = rows.group_by("short_name").agg(pl.col("percent").sum(), files=pl.col("name").n_unique())
    return dict(lines.filter(pl.col("files") == 1).select("short_name", "percent").iter_rows())


@kept
def workers_line(trace: Trace) -> Line | None:
    """The program's line that processes which it started are in for longest, of the sampled steps, by their mean."""
    of = sampled(trace)[0]
    if of is None or not of.workers:
        return None
    return _longest(host_lines(of).filter(pl.col("thread_at") == of.workers[0]))


@kept
def longest_line(trace: Trace) -> Line | None:
    """The program's line that takes most of a step by the samples; None where it was not sampled."""
    return _longest(host_lines(sampled(trace)[0]).filter(~pl.col("other")))


def _longest(table: pl.DataFrame) -> Line | None:
    table = table.filter((pl.col("name") != NO_LINE) & pl.col("percent").is_not_null())
    for row in table.head(1).iter_rows(named=True):
        function = row["function"].rpartition(".<locals>.")[2]
        return Line(row["name"], f"{row['short_name']}, {function}", row["step_ns"], row["percent"])
    return None


def is_own(frame: Frame) -> bool:
    """Whether a frame is of the program's own code."""
    return LIBRARY.search(frame.file) is None


def own_place(stack: Path) -> int | None:
    """Where in a stack the innermost line of the program's own code is; None without one."""
    at = next((at for at in reversed(range(len(stack))) if is_own(stack[at])), None)
    while at and stack[at].function.endswith(WITHIN) and _line(stack[at]) == _line(stack[at - 1]):
        at -= 1
    return at


def _line(frame: Frame) -> tuple[str, int]:
    return frame.file, frame.line


def _named(frame: Frame | None) -> dict[str, str | None]:
    if frame is None:
        return {"name": NO_LINE, "short_name": NO_LINE, "function": None}
    name = f"{frame.file}:{frame.line}"
    return {"name": name, "short_name": name.rpartition("/")[2], "function": frame.function}


def frame_words(frame: Frame) -> str:
    """A line and its function: `train.py:12 step`."""
    return f"{frame.file.rpartition('/')[2]}:{frame.line} {frame.function}"
