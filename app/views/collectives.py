"""Collectives: what the ranks exchange, by kind, group and size; inside, the calls; sends and receives by pair."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import polars as pl

from tracetui.analysis.base.number_format import format_number
from tracetui.analysis.collectives import TRANSFER, Link, by_pair, by_size, calls, calls_of, work_rows
from tracetui.analysis.kernels import known_groupings
from tracetui.analysis.ranks.of_run import jobs_of
from tracetui.analysis.ranks.one_rank import own_calls
from tracetui.analysis.roofline.peaks import link_of
from tracetui.analysis.selection import Selection
from tracetui.analysis.tables.collectives import COLLECTIVE_CALLS, COLLECTIVES, PAIRS
from tracetui.app.views.common.counted import CountedView, filled
from tracetui.app.views.common.page import Page
from tracetui.app.views.kernel_pages import work_group_page

NO_COLLECTIVES = (
    "No collectives in this recording.\n\n"
    "Several processes exchange data with torch.distributed (NCCL, RCCL, gloo); record each of them, "
    "for example with one trace per rank in a folder."
)
NO_PAIRS = "No sends or receives in this recording whose other rank is known."


class CollectivesView(CountedView):
    """One row per kind, group and size; the pairs of ranks beside them."""

    TAB = "collectives"
    TABLES = ("collectives", "pairs")
    GROUPS = ("collectives",)

    def groupings(self) -> tuple[str, ...]:
        """What this recording says of its collectives."""
        return self.session.of_counted(
            "collective groupings", lambda counted: known_groupings(counted, work_rows(counted))
        )

    def root(self) -> Page:
        """One of the tables in scope."""
        selection = self._selection()
        if self.kind == "collectives" and self.grouped_by in self.groupings()[1:]:
            return work_group_page(self.session, self.grouped_by, "collectives", work_rows)
        frame = self.session.cached("collectives", lambda: by_size(selection, self._link(), self._matched()))
        nothing = not selection.trace.collectives.height
        base = f"{selection.describe()}{self.session.selection().host_words}"
        if self.kind == "pairs":
            pairs = self.session.cached("collective pairs", lambda: by_pair(selection))
            return Page.of(
                PAIRS,
                pairs,
                note=base,
                empty=NO_COLLECTIVES if nothing else NO_PAIRS,
                columns=filled(PAIRS.columns, pairs),
            )
        return Page.of(
            COLLECTIVES,
            frame,
            columns=filled(COLLECTIVES.columns, frame),
            note=" · ".join(text for text in (base, _rests_on(frame), _link_words(frame, self._link())) if text),
            empty=NO_COLLECTIVES if nothing else f"No collectives in {selection.describe()}.",
            alone=nothing,
        )

    def inside(self, page: Page, row: Mapping[str, Any]) -> Callable[[], Page] | None:
        """The calls of a row."""
        if page.id != COLLECTIVES.id:
            return None
        return lambda: _calls_page(self._selection(), self._link(), row, self._matched())

    def _selection(self) -> Selection:
        return self.session.selection().recorded

    def _matched(self) -> pl.DataFrame | None:
        """What the other ranks' recordings tell of this one's calls; None where they are not at hand."""
        run, trace = self.session.runs["a"], self.session.trace()
        return self.session.cached("matched calls", lambda: own_calls(jobs_of(run, make=False), trace))

    def _link(self) -> Link | None:
        trace = self.session.trace()
        return self.session.cached("link", lambda: link_of(self.session.runs["a"], trace))


def _calls_page(
    selection: Selection, link: Link | None, row: Mapping[str, Any], matched: pl.DataFrame | None = None
) -> Page:
    frame = calls_of(calls(selection, link, matched), row)
    window = selection.trace.info.window
    begin = window[0] if window else 0
    frame = frame.with_columns(
        at_ns=pl.col("begin") - begin,
        row=pl.coalesce("device", "host").cast(pl.Int64).fill_null(-1),
        frame=pl.when(pl.col("device").is_not_null()).then(pl.lit("device")).otherwise(pl.lit("host")),
    )
    title = str(row["kind"] or "unknown")
    return Page.of(
        COLLECTIVE_CALLS,
        frame,
        title=title,
        columns=filled(COLLECTIVE_CALLS.columns, frame),
        note=f"{selection.describe()}{_of_group(row)}",
    )


def _of_group(row: Mapping[str, Any]) -> str:
    group = "" if row["group"] is None else f" · group {row['group']}"
    return group if row["group_size"] is None else f"{group} of {row['group_size']} ranks"


def _link_words(frame: pl.DataFrame, link: Link | None) -> str:
    return (
        ""
        if link is None or frame["link_percent"].is_null().all()
        else f"Link% of {link.name}, {format_number(link.bytes_per_s / 1e9)} GB/s"
    )


def _rests_on(frame: pl.DataFrame) -> str:
    """That bandwidths are lower bounds, where they are."""
    known = frame["rests_on"].drop_nulls()
    if not known.len():
        return ""
    told = int((known == TRANSFER).sum())
    if told == known.len():
        return "BusBW by transfer"
    return f"BusBW by transfer of {told} of {known.len()} rows" if told else "BusBW is a lower bound"
