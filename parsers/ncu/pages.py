"""Merges the pages of an Nsight Compute report: only the raw page has all metrics, only the details page the rules."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from tracetui.parsers.names.kernel_key import key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracetui.parsers.trace import Trace

ROUNDING = 0.02
"""The tolerance for durations, since the details page prints only about three digits."""


def join_pages(traces: Sequence[Trace]) -> list[Trace]:
    """Merges each details page into the raw page of the same report; a page without a raw page stays.

    A copy of a page that was merged stays too. Pages of a report that is there itself add nothing.
    """
    reports = [trace for trace in traces if _page(trace) == "report"]
    joined = [
        trace
        for trace in traces
        if _page(trace) not in ("raw", "details") or not any(is_same_report(report, trace) for report in reports)
    ]
    whole: set[int] = set()
    for details in [trace for trace in joined if _page(trace) == "details"]:
        for place, raw in enumerate(joined):
            if _page(raw) == "raw" and id(raw) not in whole and is_same_report(raw, details):
                joined[place] = with_rules(raw, details)
                whole.add(id(joined[place]))
                joined = [trace for trace in joined if trace is not details]
                break
    return joined


def with_rules(raw: Trace, details: Trace) -> Trace:
    """The raw page with the rules of the details page, which must have as many launches."""
    rules = details.counters.filter(pl.col("kind") != "metric")
    return replace(raw, counters=pl.concat([raw.counters, rules]).sort("device_row", maintain_order=True))


def is_same_report(raw: Trace, details: Trace) -> bool:
    """Whether both have the same launches in the same order, with the same durations as far as they are printed."""
    ours, theirs = (trace.device.select("name", "grid", "block", "duration") for trace in (raw, details))
    if raw.source.path.parent != details.source.path.parent or ours.height != theirs.height:
        return False
    # a report has the whole function, a page its name only unless ncu was asked for more
    named = [
        frame.drop("duration").with_columns(pl.Series("name", map(key, frame["name"].cast(pl.String).to_list())))
        for frame in (ours, theirs)
    ]
    if not named[0].equals(named[1]):
        return False
    apart = (ours["duration"] - theirs["duration"]).abs() > ROUNDING * ours["duration"]
    return not apart.any()


def _page(trace: Trace) -> str | None:
    return dict(trace.info.captured).get("page") if trace.info.kind == "ncu" else None
