"""Host: where the CPU's time goes, which is what a launch-bound run waits for."""

from __future__ import annotations

import polars as pl

from tracetui.analysis.host import host_functions
from tracetui.app.columns import Column
from tracetui.app.views.page import Page
from tracetui.app.views.table_view import TableView

COLUMNS = (
    Column("name", "Function", width=24, priority=0, flex=True, short="short_name", about="what the host called"),
    Column("kind", "Kind", width=8, priority=2, about="operator, Python function, module or API call"),
    Column("self_per_step_ns", "Self/step", "time", priority=0, main=True, about="own time per step"),
    Column("percent", "%", "percent", width=5, priority=0, bar=True, main=True, about="own time, share of step time"),
    Column("self_ns", "Self", "time", priority=3, about="own time in scope, without what it called"),
    Column("total_ns", "Total", "time", priority=1, about="with what it called; recursion counted once"),
    Column("calls", "Calls", "count", width=6, priority=1, main=True, about="number of calls"),
    Column("waits", "Waits", "flag", width=5, priority=2, about="only waits: for a lock, a file, the GPU"),
)

_BUILT_IN = r"^<built-in (?:method|function) (\S+?)(?: of (.+?)(?: object)?(?: at 0x[0-9a-f]+)?)?>$"

NO_HOST = (
    "No host events in this trace.\n\n"
    "The profiler did not record the CPU side: use\n"
    "profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], with_stack=True)\n"
    "to see Python functions and modules too."
)


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


class HostView(TableView):
    """One row per host function."""

    TAB = "host"

    def root(self) -> Page:
        """All host functions in scope."""
        selection = self.session.selection()
        frame = ranked(self.session.cached("host", lambda: host_functions(selection)))
        return Page(
            id="host",
            title="Host",
            frame=frame,
            columns=COLUMNS,
            noun="functions",
            note=f"{selection.describe()} · own time, % of step time · calls that only wait come last",
            empty=NO_HOST,
            key="name",
        )
