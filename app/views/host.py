"""Host: where the CPU's time goes, which is what a launch-bound run waits for."""

from __future__ import annotations

import polars as pl

from tracetui.analysis.api import api_calls, launches
from tracetui.analysis.host import host_functions
from tracetui.analysis.ranges import ranges
from tracetui.app.tables.columns import Column
from tracetui.app.text.formats import format_ns
from tracetui.app.text.words import nothing
from tracetui.app.views.common.counted import CountedView, filled, in_units
from tracetui.app.views.common.page import Page
from tracetui.parsers.names import kernel_names

COLUMNS = (
    Column("name", "Function", width=24, priority=0, flex=True, short="short_name", about="what the host called"),
    Column("kind", "Kind", width=8, priority=2, about="operator, Python function, module or API call"),
    Column("self_per_step_ns", "Self/step", "time", priority=0, main=True, about="own time per step"),
    Column("percent", "%", "percent", width=5, priority=0, bar=True, main=True, about="own time, share of step time"),
    Column("self_ns", "Self", "time", priority=3, sums=True, about="own time in scope, without what it called"),
    Column("total_ns", "Total", "time", priority=1, sums=True, about="with what it called; recursion counted once"),
    Column("calls", "Calls", "count", width=6, priority=1, main=True, sums=True, about="number of calls"),
    Column("waits", "Waits", "flag", width=5, priority=2, about="only waits: for a lock, a file, the GPU"),
)

API_CALLS = (
    Column("name", "Function", width=24, priority=0, flex=True, about="CUDA runtime or driver call"),
    Column("total_ns", "Total", "time", priority=0, main=True, sums=True, about="sum of the durations"),
    Column("percent", "%", "percent", width=5, priority=1, bar=True, main=True, about="of the time in all API calls"),
    Column("calls", "Calls", "count", width=6, priority=1, main=True, sums=True, about="number of calls"),
    Column("mean_ns", "Mean", "time", priority=2, about="mean duration"),
    Column("median_ns", "Median", "time", priority=3, about="median duration"),
    Column("max_ns", "Max", "time", priority=4, about="longest call"),
    Column("min_ns", "Min", "time", priority=5, about="shortest call"),
    Column("std_ns", "Std", "time", priority=5, about="standard deviation (sample)"),
)
LAUNCHES = (
    Column("at_ns", "At", "time", width=9, priority=0, about="time since the recording began"),
    Column("cpu_ns", "CPU", "time", priority=0, main=True, about="duration of the launching call"),
    Column("gpu_ns", "GPU", "time", priority=0, about="duration of the work it started"),
    Column("delay_ns", "Delay", "time", priority=1, about="from the end of the call to the start of the work"),
    Column(
        "kernel", "Started", width=16, priority=1, flex=True, short="short_name", about="the first activity it started"
    ),
    Column("api", "Call", width=16, priority=2, flex=True, about="CUDA call"),
)
RANGES = (
    Column("name", "Range", width=24, priority=0, flex=True, about="record_function or NVTX range"),
    Column("host_total_ns", "CPU total", "time", priority=0, main=True, sums=True, about="host time of all instances"),
    Column("device_ns", "GPU work", "time", priority=0, sums=True, about="GPU time of what was launched inside"),
    Column(
        "device_self_ns",
        "GPU self",
        "time",
        priority=4,
        sums=True,
        about="with this range as the innermost around the launch",
    ),
    Column(
        "gpu_projected_ns",
        "GPU span",
        "time",
        priority=2,
        sums=True,
        about="from its first GPU work to the end of its last",
    ),
    Column(
        "gpu_ops", "GPU ops", "count", width=6, priority=3, sums=True, about="kernels, copies and fills launched inside"
    ),
    Column("instances", "Calls", "count", width=6, priority=1, main=True, sums=True, about="number of instances"),
    Column("domain", "Domain", width=8, priority=6, about="NVTX domain"),
    Column("style", "Style", width=9, priority=8, about="how it was opened: push/pop nest, start/end may overlap"),
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
    short = [None if name is None else kernel_names.short_name(name) for name in distinct]
    table = pl.DataFrame({"kernel": distinct, "short_name": pl.Series(short, dtype=pl.String)})
    return names.to_frame("kernel").join(table, on="kernel", how="left", nulls_equal=True, maintain_order="left")[
        "short_name"
    ]


class HostView(CountedView):
    """One row per host function; API calls, launches and ranges beside them."""

    TAB = "host"
    TABLES = ("functions", "API calls", "launches", "ranges")

    def root(self) -> Page:
        """One of the tables in scope."""
        if self.kind == "API calls":
            return self._api_calls()
        if self.kind == "launches":
            return self._launches()
        if self.kind == "ranges":
            return self._ranges()
        session = self.session
        selection = session.counted()
        frame = ranked(session.of_counted("host", host_functions))
        base = "step time" if selection.steps.height else "the file"
        page = Page(
            id="host",
            title="Host",
            frame=frame,
            columns=COLUMNS,
            noun="functions",
            note=f"{selection.describe()} · own time, % of {base} · waits last",
            empty=nothing("host", selection.trace.info.kind),
            alone=not selection.trace.host.height,
            key="name",
        )
        return in_units(session, page)

    def _api_calls(self) -> Page:
        selection = self.session.counted()
        page = Page(
            id="api",
            title="API calls",
            frame=self.session.of_counted("api", api_calls),
            columns=API_CALLS,
            noun="functions",
            note=f"{selection.describe_totals(calls=True)} · % of the time in all API calls",
            empty=nothing("api", selection.trace.info.kind),
            sort=("total_ns", True),
            key="name",
        )
        return in_units(self.session, page)

    def _launches(self) -> Page:
        selection = self.session.selection()
        found = self.session.cached("launches", lambda: launches(selection))
        window = selection.trace.info.window
        begin = window[0] if window else 0
        frame = found.frame.with_columns(
            (pl.col("start") - begin).alias("at_ns"), _short_kernels(found.frame["kernel"])
        )
        return Page(
            id="host_launches",
            title="Launches",
            frame=frame,
            columns=filled(LAUNCHES, frame),
            noun="launches",
            note=f"{found.short_kernels:,} took longer than their GPU work"
            f" · median delay {format_ns(found.median_delay_ns)}",
            empty="No launches in this trace: no API call in it started GPU work.",
        )

    def _ranges(self) -> Page:
        selection = self.session.counted()
        page = Page(
            id="ranges",
            title="Ranges",
            frame=self.session.of_counted("ranges", ranges),
            columns=RANGES,
            noun="ranges",
            note=selection.describe(),
            empty=nothing("ranges", selection.trace.info.kind),
            sort=("host_total_ns", True),
            key="name",
        )
        return in_units(self.session, page, calls="instances")
