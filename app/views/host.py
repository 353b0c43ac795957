"""Host: where the CPU's time goes, which is what a launch-bound run waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from tracetui.analysis.api import api_calls, launches
from tracetui.analysis.base.number_format import format_ns
from tracetui.analysis.host import host_functions
from tracetui.analysis.matching.light_times import launching
from tracetui.analysis.ranges import ranges
from tracetui.analysis.tables.program import API_CALLS, API_LAUNCHES, HOST_FUNCTIONS, RANGES
from tracetui.app.tables.columns import own_time
from tracetui.app.text.words import nothing
from tracetui.app.views.beside import PAGES, beside_page, pages_of
from tracetui.app.views.common.counted import CountedView, filled, in_units
from tracetui.app.views.common.page import Page
from tracetui.app.views.critical_path import inside_path, path_page
from tracetui.app.views.gaps import gaps_page, inside_lane, lanes_page
from tracetui.app.views.ranges import launched_elsewhere
from tracetui.parsers.names import kernel_names

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

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
    """One row per host function; the critical path, API calls, launches and ranges beside them."""

    TAB = "host"
    TABLES = ("functions", "critical path", "API calls", "launches", "ranges", "gaps", "lanes", *PAGES)

    def root(self) -> Page:
        """One of the tables in scope."""
        if self.kind == "critical path":
            return path_page(self.session)
        if self.kind == "API calls":
            return self._api_calls()
        if self.kind == "launches":
            return self._launches()
        if self.kind == "ranges":
            return self._ranges()
        if self.kind == "gaps":
            return gaps_page(self.session)
        if self.kind == "lanes":
            return lanes_page(self.session)
        if self.kind in PAGES:
            return beside_page(self.session, self.kind)
        session = self.session
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

    @property
    def _next_kind(self) -> str:
        known = () if "a" not in self.session.runs else pages_of(self.session.selection().trace)
        there = [table for table in self.TABLES if table not in PAGES or table in known]
        if "a" in self.session.runs and not self.session.trace().has_timeline:
            there = [table for table in there if table not in ("gaps", "lanes")]
        return there[(there.index(self.kind) + 1) % len(there)] if self.kind in there else there[0]

    def inside(self, page: Page, row: Mapping[str, Any]) -> Callable[[], Page] | None:
        """The stretches of a resource of the critical path; what ran in a lane."""
        if page.id == "lanes":
            return inside_lane(self.session, row)
        return inside_path(self.session, row) if page.id == "critical_path" else None

    def action_drill(self) -> None:
        """Opens what is inside the row, or shows a gap in the Timeline."""
        if self.state is not None and self.state.page.id == "gaps":
            self.action_timeline()
        else:
            super().action_drill()

    def _api_calls(self) -> Page:
        selection = self.session.counted()
        page = Page.of(
            API_CALLS,
            self.session.of_counted("api", api_calls),
            note=f"{selection.describe_totals(calls=True)} · % of the time in all API calls",
            empty=nothing("api", selection.trace.info.kind),
        )
        return in_units(self.session, page)

    def _launches(self) -> Page:
        selection = self.session.selection()
        found = self.session.cached("launches", lambda: launches(selection))
        summed, remark = found, ""
        if (nearer := launching(selection)) is not selection:
            # the list leads to the timeline, and so is of the recording that is drawn there
            summed = self.session.cached("light launches", lambda: launches(nearer))
            remark = f"of {summed.count:,} in the light recording "
        window = selection.trace.info.window
        begin = window[0] if window else 0
        frame = found.frame.with_columns(
            (pl.col("start") - begin).alias("at_ns"), _short_kernels(found.frame["kernel"])
        )
        return Page.of(
            API_LAUNCHES,
            frame,
            columns=filled(API_LAUNCHES.columns, frame),
            note=f"{summed.short_kernels:,} {remark}took longer than their GPU work"
            f" · median delay {format_ns(summed.median_delay_ns)}{' · list as recorded' if remark else ''}",
            empty="No launches in this trace: no API call in it started GPU work.",
        )

    def _ranges(self) -> Page:
        selection = self.session.counted()
        frame = self.session.of_counted("ranges", ranges)
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
        return in_units(self.session, page, calls="instances")
