"""Host: where the CPU's time goes, which is what a launch-bound run waits for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from statistics import fmean, median
from typing import Any

import polars as pl

from tracetui.analysis.base.number_format import format_ns
from tracetui.analysis.dependencies.critical_path import CriticalPath, critical_path
from tracetui.analysis.dependencies.model import model
from tracetui.analysis.gpu.idle import IDLE_WORDS, gaps
from tracetui.analysis.gpu.step_kinds import recorded_kinds
from tracetui.analysis.host import api_calls, host_functions, launches, waiting_calls
from tracetui.analysis.host_lines import NO_LINE, Sampled, host_lines, sampled
from tracetui.analysis.host_stacks import LEAST_PERCENT, host_stacks
from tracetui.analysis.kernels import known_groupings
from tracetui.analysis.matching.light_times import launching
from tracetui.analysis.nsys.gpu_samples import gpu_samples
from tracetui.analysis.nsys.threads import cpu_functions, os_calls, threads
from tracetui.analysis.nsys.unified_memory import unified_memory
from tracetui.analysis.overview import overview
from tracetui.analysis.ranges import ranges
from tracetui.analysis.report.sections import host_samples
from tracetui.analysis.sampled_calls import path_by_line
from tracetui.analysis.selection import Selection
from tracetui.analysis.tables.critical_path import CRITICAL_PATH, GAP_CAUSES, GAPS, LANE_EVENTS, LANES, STRETCHES
from tracetui.analysis.tables.nsight import system
from tracetui.analysis.tables.program import (
    API_CALLS,
    API_LAUNCHES,
    HOST_FUNCTIONS,
    HOST_LINES,
    HOST_STACKS,
    ITERATIONS,
    RANGES,
)
from tracetui.analysis.tables.table import Table
from tracetui.analysis.timeline.facts import events_within, lanes_within
from tracetui.analysis.timeline.gaps import gaps_by_cause, longest_gaps
from tracetui.analysis.timeline.timeline import Timeline, timeline
from tracetui.app.charts.lanes import lane_title, shown_name
from tracetui.app.reports.content.beside import WHOLE_TIME
from tracetui.app.session.session import Session
from tracetui.app.tables.columns import own_time
from tracetui.app.text.fitting import short_function
from tracetui.app.text.sample_words import NO_SAMPLES, sampled_words
from tracetui.app.text.tool_words import WORDS
from tracetui.app.text.words import RESOURCE_LABELS, nothing
from tracetui.app.views.common.counted import CountedView, filled, in_units
from tracetui.app.views.common.page import Page
from tracetui.app.views.kernel_pages import launched_elsewhere, work_group_page
from tracetui.parsers import Trace
from tracetui.parsers.names.kernel_names import short_name
from tracetui.parsers.nsys.unread import held

_NO_PATH = "No critical path: this recording does not say which call launched which GPU work."


def session_path(session: Session) -> CriticalPath | None:
    """The critical path of the steps in scope; None where launches were not recorded."""
    selection = session.selection()

    def compute() -> CriticalPath | None:
        replayed = model(selection, selection.clean_step_ns)
        return None if replayed is None else critical_path(selection, replayed)

    return session.cached("critical path", compute)


def path_page(session: Session) -> Page:
    """What the path runs through; Enter opens the stretches of a resource."""
    path = session_path(session)
    frame = pl.DataFrame(schema={"resource": pl.String}) if path is None else path.resources
    frame = frame.with_columns(name=pl.col("resource"))  # as findings call it
    return Page.of(
        CRITICAL_PATH,
        _labelled(frame),
        note="" if path is None else _path_note(session, path),
        empty=_NO_PATH,
    )


def inside_path(session: Session, row: Mapping[str, Any]) -> Callable[[], Page]:
    """The stretches of the row's resource, those that take the most time first."""

    def page() -> Page:
        path = session_path(session)
        assert path is not None
        window = session.trace().info.window
        frame = _labelled(path.stretches).filter(pl.col("resource") == row["resource"])
        frame = frame.with_columns(at_ns=pl.col("start") - (window[0] if window else 0), short_name=pl.col("name"))
        return Page.of(STRETCHES, frame, title=str(row["resource"]), note=_path_note(session, path))

    return page


def _path_note(session: Session, path: CriticalPath) -> str:
    steps = f"mean of {path.steps} steps" if path.steps > 1 else "one step"
    clean = ", without the profiler" if session.selection().clean_step_ns else ", as recorded"
    return f"{format_ns(path.step_ns)} {steps}{clean}"


def _labelled(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(pl.col("resource").replace(RESOURCE_LABELS))


_NO_GAPS = "No gaps: no GPU of this recording is idle between its first and its last step, or nothing ran on one."


def gap_causes_page(session: Session) -> Page:
    """All gaps in scope by cause and what the host did; Enter shows the longest of a row in the Timeline."""
    selection = session.selection()

    def compute() -> pl.DataFrame:
        return gaps_by_cause(selection).with_columns(
            pl.col("cause", "host").cast(pl.String).replace(IDLE_WORDS),
            short_host=pl.col("host").replace(IDLE_WORDS).map_elements(short_function, return_dtype=pl.String),
            short_call=pl.col("call").map_elements(short_function, return_dtype=pl.String),
        )

    frame = session.cached("gap causes", compute)
    return Page.of(GAP_CAUSES, frame, columns=filled(GAP_CAUSES.columns, frame), note=_idle(selection), empty=_NO_GAPS)


def _idle(selection: Selection) -> str:
    """``% of 151.9 ms idle as recorded · steps 1-3``."""
    ns = gaps(selection.recorded).filter(pl.col("stream").is_null())["duration_ns"].sum()
    return f"% of {format_ns(int(ns))} idle as recorded · {selection.describe()}"


def gaps_page(session: Session) -> Page:
    """The longest gaps in scope; Enter shows one in the Timeline."""
    selection = session.selection()

    def compute() -> pl.DataFrame:
        found = longest_gaps(selection, model(selection.recorded, selection.clean_step_ns))
        return found.with_columns(
            pl.col("path").replace(RESOURCE_LABELS),
            pl.col("cause").cast(pl.String).replace(IDLE_WORDS),
            *(
                pl.col(name).map_elements(short_function, return_dtype=pl.String).name.prefix("short_")
                for name in ("host", "call")
            ),
            short_next=pl.col("next").map_elements(short_name, return_dtype=pl.String),
        )

    frame = session.cached("gaps", compute)
    several = frame["device"].n_unique() > 1
    columns = tuple(field for field in GAPS.columns if several or field.name != "device")
    return Page.of(
        GAPS,
        frame,
        columns=columns,
        note=_idle(selection),
        empty=_NO_GAPS if selection.trace.has_timeline else WORDS[selection.trace.info.kind].no_timeline,
    )


def lanes_page(session: Session) -> Page:
    """What ran in the marked range, or in the whole recording, by lane; Enter opens the names."""
    trace = session.trace()
    built = timeline(trace) if trace.has_timeline else None
    if built is None:
        return Page.of(LANES, pl.DataFrame(schema={"lane": pl.String}), empty=WORDS[trace.info.kind].no_timeline)
    start, end = _area(session, built)
    frame = session.cached("lanes", lambda: lanes_within(built, start, end))
    titles = [lane_title(built.lanes[number]) for number in frame["number"]]
    shorts = [_shown(built, number, name) for number, name in frame.select("number", "most").iter_rows()]
    frame = frame.with_columns(lane=pl.Series(titles, dtype=pl.String), short_most=pl.Series(shorts, dtype=pl.String))
    return Page.of(LANES, frame, note=_note(session, start, end), empty="Nothing ran in this range.")


def inside_lane(session: Session, row: Mapping[str, Any]) -> Callable[[], Page]:
    """What ran in a lane, by name."""
    number = int(row["number"])

    def page() -> Page:
        built = timeline(session.trace())
        assert built is not None
        start, end = _area(session, built)
        frame = events_within(built, number, start, end)
        shorts = [_shown(built, number, name) for name in frame["name"]]
        frame = frame.with_columns(
            short_name=pl.Series(shorts, dtype=pl.String), frame=pl.lit(built.lanes[number].source)
        )
        return Page.of(LANE_EVENTS, frame, title=str(row["lane"]), note=_note(session, start, end))

    return page


def _area(session: Session, built: Timeline) -> tuple[int, int]:
    return session.scope.window or (built.start, built.end)


def _note(session: Session, start: int, end: int) -> str:
    words = session.range_words or "marked range"
    base = "whole recording" if session.scope.window is None else f"{words}, {format_ns(end - start)}"
    return f"{base} · % of it"


def _shown(built: Timeline, number: int, name: str) -> str:
    source = built.lanes[number].source
    if source == "idle":
        return IDLE_WORDS.get(name, name)
    kind = "kernel" if source == "device" else "python" if built.lanes[number].kind == "python" else ""
    return shown_name(source, kind, name, ascii=False)


def steps_page(session: Session) -> Page:
    """The steps in scope one by one; Enter shows one in the Timeline."""
    trace = session.trace()

    def compute() -> pl.DataFrame:
        kinds = recorded_kinds(session.selection())
        unlike = kinds.kinds if kinds is not None and len(kinds.kinds) > 1 else ()
        called = {index: kinds.called(one) for one in unlike for index in one.steps} if kinds is not None else {}
        found = overview(session.selection()).per_step.join(
            trace.steps.with_row_index("row").select("row", "index"), on="index", how="left", maintain_order="left"
        )
        begin, index = trace.info.window[0] if trace.info.window else 0, pl.col("index")
        kind = index.replace_strict(called, default=None, return_dtype=pl.String)
        return found.with_columns(at_ns=pl.col("start") - begin, kind=kind)

    frame = session.cached("steps table", compute)
    shown = tuple(
        field for field in filled(ITERATIONS.columns, frame) if field.kind != "time" or frame[field.name].max()
    )
    mean, middle = (format_ns(float(of(frame["duration_ns"].to_list()))) for of in (fmean, median))
    return Page.of(ITERATIONS, frame, columns=shown, note=f"as recorded · mean {mean}, median {middle}")


SYSTEM_PAGES: dict[str, tuple[Table, Callable[[Selection], pl.DataFrame]]] = {
    "threads": (system.THREADS, threads),
    "CPU samples": (system.CPU_FUNCTIONS, cpu_functions),
    "OS calls": (system.OS_CALLS, os_calls),
    "GPU metrics": (system.GPU_SAMPLES, gpu_samples),
    "unified memory": (system.UNIFIED_MEMORY, unified_memory),
}
"""The pages by what they are called among the tables of the tab."""
_RECORDED_AS = {
    "threads": {"SCHED_EVENTS", "COMPOSITE_EVENTS"},
    "CPU samples": {"COMPOSITE_EVENTS"},
    "GPU metrics": {"GPU_METRICS"},
    "unified memory": {"CUDA_UM_CPU_PAGE_FAULT_EVENTS", "CUDA_UM_GPU_PAGE_FAULT_EVENTS"},
}


def system_pages(trace: Trace) -> tuple[str, ...]:
    """Those of the pages that the trace's file can fill."""
    if trace.info.kind != "nsys":
        return ()
    there = held(trace)
    return tuple(
        name
        for name in SYSTEM_PAGES
        if (_RECORDED_AS[name] & there if name in _RECORDED_AS else (trace.host["kind"] == "os").any())
        or (name == "unified memory" and trace.device["name"].cast(pl.String).str.contains("memcpy Unified").any())
    )


def system_page(session: Session, name: str) -> Page:
    """One of the pages."""
    table, make = SYSTEM_PAGES[name]
    selection = session.selection()
    frame = session.cached(("system", name), lambda: make(selection))
    if name == "GPU metrics":
        every = pl.when(pl.col("calls").is_null()).then(pl.lit(WHOLE_TIME)).otherwise("kernel")
        frame = frame.with_columns(kernel=every)
    return Page.of(
        table,
        frame,
        columns=filled(table.columns, frame),
        note=table.base or "in the recorded time",
        empty="The file can't be read any more, or has none.",
    )


_BUILT_IN = r"^<built-in (?:method|function) (\S+?)(?: of (.+?)(?: object)?(?: at 0x[0-9a-f]+)?)?>$"


def ranked(frame: pl.DataFrame) -> pl.DataFrame:
    """The functions by their share of a step, those that only wait last.

    Adds `short_name`: Python functions without their folder, built-ins without their address.
    """
    short = (
        pl.col("name")
        .cast(pl.String)
        .str.replace(r"^.*/([^/]+\.pyx?\(\d+\): )", "$1")
        .str.replace(_BUILT_IN, "$1 of $2")
        .str.replace(r" of $", " (built-in)")
    )
    ordered = frame.sort("waits", "self_per_step_ns", descending=[False, True], maintain_order=True)
    return ordered.with_columns(short.alias("short_name"))


def _short_kernels(names: pl.Series) -> pl.Series:
    distinct = names.unique()
    short = [None if name is None else short_name(name) for name in distinct]
    table = pl.DataFrame({"kernel": distinct, "short_name": pl.Series(short, dtype=pl.String)})
    return names.to_frame("kernel").join(table, on="kernel", how="left", nulls_equal=True, maintain_order="left")[
        "short_name"
    ]


def functions_page(session: Session) -> Page:
    """The functions in scope by their own time."""
    selection = session.counted()
    frame = ranked(session.of_counted("host", host_functions))
    base = "step time" if selection.steps.height else "the file"
    page = Page.of(
        HOST_FUNCTIONS,
        frame,
        columns=own_time(HOST_FUNCTIONS.columns, per_step=bool(selection.steps.height)),
        note=f"{selection.describe()}{selection.host_words} · own time, % of {base} · waits last",
        empty=nothing("host", selection.trace.info.kind),
        alone=not selection.trace.host.height,
    )
    return in_units(session, page)


def session_samples(session: Session) -> tuple[Sampled | None, str | None]:
    """The samples of the program's lines, and a line if they can't be read."""
    trace = session.trace()
    return session.cached("samples", lambda: sampled(trace))


def lines_page(session: Session) -> Page:
    """The lines that the clean program was in; Enter opens the stacks from one on."""
    found, problem = session_samples(session)
    how = host_samples(session.trace(), found, problem)

    def compute() -> pl.DataFrame:
        selection = session.selection()
        replayed = None if found is None else model(selection, selection.clean_step_ns)
        return host_lines(found, {} if replayed is None else path_by_line(selection, replayed))

    frame = session.cached("host lines", compute)
    return Page.of(
        HOST_LINES,
        frame,
        columns=filled(HOST_LINES.columns, frame),
        note="" if how is None else f"{HOST_LINES.base} · {sampled_words(how).replace('; ', ' · ')}",
        empty=problem or NO_SAMPLES,
    )


def stacks_page(session: Session, within: str = "") -> Page:
    """The stacks as a tree, or what is below one alone, or below all that end so; Enter opens one."""
    found, problem = session_samples(session)
    frame = session.cached("host stacks", lambda: host_stacks(found))
    if within:
        frame = frame.filter(pl.format("/{}/", "path").str.contains(f"/{within}/", literal=True))
        frame = frame.with_columns(pl.col("depth") - pl.col("depth").min())
    return Page.of(
        HOST_STACKS, frame, columns=filled(HOST_STACKS.columns, frame), note=HOST_STACKS.base,
        title=within.rpartition("/")[2], empty=problem or NO_SAMPLES,
    )  # fmt: skip


def api_page(session: Session) -> Page:
    """The API calls in scope."""
    selection = session.counted()
    page = Page.of(
        API_CALLS,
        session.of_counted("api", api_calls),
        note=f"{selection.describe_totals(calls=True)} · % of the time in all API calls",
        empty=nothing("api", selection.trace.info.kind),
    )
    return in_units(session, page)


def launches_page(session: Session) -> Page:
    """The launches in scope; a key shows one in the Timeline."""
    selection = session.selection()
    recorded = session.cached("launches", lambda: launches(selection))
    summed, remark = recorded, ""
    if (nearer := launching(selection)) is not selection:
        # the list leads to the timeline, and so is of the recording that is drawn there
        summed = session.cached("light launches", lambda: launches(nearer))
        remark = f"of {summed.count:,} in the light recording "
    window = selection.trace.info.window
    begin = window[0] if window else 0
    frame = recorded.frame.with_columns(
        (pl.col("start") - begin).alias("at_ns"), _short_kernels(recorded.frame["kernel"])
    )
    return Page.of(
        API_LAUNCHES,
        frame,
        columns=filled(API_LAUNCHES.columns, frame),
        note=f"{summed.short_kernels:,} {remark}took longer than their GPU work"
        f" · median delay {format_ns(summed.median_delay_ns)}{' · list as recorded' if remark else ''}",
        empty="No launches in this trace: no API call in it started GPU work.",
    )


def ranges_page(session: Session) -> Page:
    """The ranges in scope by name."""
    selection = session.counted()
    frame = session.of_counted("ranges", ranges)
    columns = RANGES.columns
    if not launched_elsewhere(frame, "device_ns"):
        columns = tuple(column for column in columns if column.name != "device_meanwhile_ns")
    page = Page.of(
        RANGES,
        frame,
        columns=columns,
        note=f"{selection.describe()}{selection.work_words}",
        empty=nothing("ranges", selection.trace.info.kind),
    )
    return in_units(session, page, calls="instances")


PAGES: dict[str, Callable[[Session], Page]] = {
    "functions": functions_page,
    "lines": lines_page,
    "stacks": stacks_page,
    "critical path": path_page,
    "API calls": api_page,
    "launches": launches_page,
    "ranges": ranges_page,
    "steps": steps_page,
    "gaps": gaps_page,
    "lanes": lanes_page,
}
"""The tables of the tab, the first of them first; those of `SYSTEM_PAGES` follow."""


class HostView(CountedView):
    """One row per host function; the critical path, API calls, launches and ranges beside them."""

    TAB = "host"
    TABLES = (*PAGES, *SYSTEM_PAGES)
    GROUPS = ("gaps", "API calls")

    def groupings(self) -> tuple[str, ...]:
        """Of gaps, their cause; of calls, those that wait by what the recording says of them."""
        if self.kind == "gaps":
            return ("cause", "name")
        return self.session.of_counted(
            "wait groupings", lambda counted: known_groupings(counted, waiting_calls(counted))
        )

    @property
    def grouped_by(self) -> str:
        """Gaps stand by cause until they are listed one by one."""
        return self.session.grouped.get(self.TAB, "cause" if self.kind == "gaps" else "name")

    def root(self) -> Page:
        """One of the tables in scope."""
        if (self.kind, self.grouped_by) == ("gaps", "cause"):
            return gap_causes_page(self.session)
        if self.kind == "API calls" and self.grouped_by in self.groupings()[1:]:
            return work_group_page(self.session, self.grouped_by, "waits for the GPU", waiting_calls, host=True)
        if self.kind in SYSTEM_PAGES:
            return system_page(self.session, self.kind)
        return PAGES[self.kind](self.session)

    @property
    def tables(self) -> tuple[str, ...]:
        """Returns the tables that this recording can fill."""
        gone = set(SYSTEM_PAGES) - set(system_pages(self.session.selection().trace))
        gone |= set() if self.session.trace().has_timeline else {"gaps", "lanes"}
        gone |= set() if self.session.trace().steps.height else {"steps"}
        gone |= {"lines", "stacks"} if session_samples(self.session) == (None, None) else set()
        return tuple(table for table in self.TABLES if table not in gone)

    def inside(self, page: Page, row: Mapping[str, Any]) -> Callable[[], Page] | None:
        """The stretches of a resource of the critical path; what ran in a lane."""
        if page.id == "lanes":
            return inside_lane(self.session, row)
        if page.id == HOST_LINES.id:
            words = NO_LINE if row["function"] is None else f"{row['short_name']} {row['function']}"
            told = (row["percent"] or 0.0) >= LEAST_PERCENT
            return partial(stacks_page, self.session, words) if told else None
        if page.id == HOST_STACKS.id:
            return partial(stacks_page, self.session, str(row["path"]))
        return inside_path(self.session, row) if page.id == "critical_path" else None

    def action_drill(self) -> None:
        """Opens what is inside the row, or shows a gap in the Timeline."""
        timed = self.state is not None and self.state.page.id in (GAPS.id, GAP_CAUSES.id, ITERATIONS.id)
        if timed and not self.table.on_group:
            self.action_timeline()
        else:
            super().action_drill()
