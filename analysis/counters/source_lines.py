"""Where in the source a kernel waits and how it accesses memory: a row per line, or per instruction without lines."""

from __future__ import annotations

import polars as pl

from tracetui.analysis.base.remembered import kept
from tracetui.parsers import Trace
from tracetui.parsers.names.kernel_names import short_name
from tracetui.parsers.ncu import source_page as page

LINES = {
    "kernel": pl.String(),
    "short_name": pl.String(),
    "place": pl.String(),
    "source": pl.String(),
    "samples": pl.Float64(),
    "percent": pl.Float64(),
    "stall": pl.String(),
    "stall_percent": pl.Float64(),
    "instructions": pl.Float64(),
    "sectors_per_request": pl.Float64(),
    "surplus_percent": pl.Float64(),
}
_PASSES = frozenset({"selected"})
"""What the profiler counts among stalls although the warp ran."""


@kept
def has_lines(trace: Trace) -> bool:
    """Whether the trace has counts at places of the source: ncu's source page, or a report with them."""
    sections = trace.counters["section"].unique().cast(pl.String) if trace.info.kind == "ncu" else pl.Series([""])
    return bool(sections.str.starts_with(page.PLACE).any())


def is_page(trace: Trace) -> bool:
    """Whether the trace is ncu's source page, which has nothing else."""
    return trace.info.kind == "ncu" and dict(trace.info.captured).get("page") == page.PAGE


def source_lines(trace: Trace) -> pl.DataFrame:
    """A row per kernel and place in its source, kernels in their order, of each the place with most samples first.

    Launches of one kernel are one: their samples and counts add up.

    Returns:
        kernel, short_name, place, source, samples, percent (of the kernel's samples), stall (what most of the place's
        samples waited for; null without any), stall_percent (of the place's samples), instructions (that warps
        executed), sectors_per_request (32-byte sectors of global memory per execution by a warp), surplus_percent (of
        these, more than neighbouring accesses would need).
    """
    if not has_lines(trace):
        return pl.DataFrame(schema=LINES)
    names = trace.device["name"].cast(pl.String).to_list()
    found: dict[tuple[str, str], dict[str, float]] = {}
    texts: dict[tuple[str, str], str] = {}
    counters = trace.counters.with_columns(pl.col("section", "metric").cast(pl.String))
    counters = counters.filter(pl.col("section").str.starts_with(page.PLACE))
    counters = counters.select("device_row", "section", "metric", "value", "text")
    for row, section, metric, value, text in counters.iter_rows():
        key = (names[row], section.removeprefix(page.PLACE))
        sums = found.setdefault(key, {})
        if metric == page.SOURCE:
            texts[key] = text or ""
        elif value is not None:
            sums[metric] = sums.get(metric, 0.0) + value
    whole: dict[str, float] = {}
    for (kernel, _), sums in found.items():
        whole[kernel] = whole.get(kernel, 0.0) + sums.get(page.SAMPLES, 0.0)
    rows = [_row(key, texts.get(key, ""), sums, whole[key[0]]) for key, sums in found.items()]
    order = {name: place for place, name in enumerate(dict.fromkeys(names))}
    frame = pl.DataFrame(rows, schema=LINES, orient="row")
    by_kernel = pl.col("kernel").replace_strict(order, return_dtype=pl.Int64)
    return frame.sort(by_kernel, "samples", "instructions", descending=[False, True, True], maintain_order=True)


def _row(key: tuple[str, str], source: str, sums: dict[str, float], whole: float) -> tuple[object, ...]:
    samples = sums.get(page.SAMPLES, 0.0)
    stalls = {
        metric.removeprefix(page.STALL): value
        for metric, value in sums.items()
        if metric.startswith(page.STALL) and not metric.endswith(page.NOT_ISSUED)
    }
    stall = max((name for name in stalls if name not in _PASSES), key=lambda name: stalls[name], default=None)
    sectors, requests = sums.get(page.SECTORS, 0.0), sums.get(page.REQUESTS, 0.0)
    return (
        key[0],
        short_name(key[0]),
        key[1],
        source,
        samples,
        100 * samples / whole if whole else None,
        stall,
        100 * stalls[stall] / samples if stall is not None and samples else None,
        sums.get(page.INSTRUCTIONS, 0.0),
        sectors / requests if requests else None,
        100 * max(sectors - sums.get(page.IDEAL, 0.0), 0.0) / sectors if sectors else None,
    )
