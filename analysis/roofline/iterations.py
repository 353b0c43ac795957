"""What the GPU does in an inference server's iterations of each phase: attention, products, and the cache they read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from tracetui.analysis.gpu.activities import WORK
from tracetui.analysis.gpu.step_kinds import Kind, iterations, recorded_kinds
from tracetui.analysis.roofline.peaks import Peaks, peaks_of
from tracetui.analysis.roofline.shapes import Heads, Work, attention_heads, rate, shape_work
from tracetui.analysis.selection import Selection
from tracetui.parsers import Run
from tracetui.parsers.names import kernel_names
from tracetui.parsers.names.serving import Iteration, iteration_of

KNOWN = 0.95
"""Of the time of the products of a phase, what shapes must tell."""
COLUMNS: dict[str, pl.DataType] = {
    "kind": pl.String(),
    **dict.fromkeys(
        ("gpu_ns", "attention_ns", "attention_percent", "gemm_ns", "gemm_percent", "cache_bytes", "cache_percent"),
        pl.Float64(),
    ),
}


def iteration_work(run: Run | None, sel: Selection, peaks: Peaks | None = None) -> pl.DataFrame:
    """A row for each phase of a server's iterations, means of one as recorded; none of others.

    ``…_ns`` are sums of the times of kernels; ``…_percent`` of attention and products: what their work would take at
    the roof, of their time; ``cache_bytes``: the keys and values that attention reads; ``cache_percent``: what reading
    them takes at the memory's bandwidth, of the GPU's time. Null where the recording does not tell.
    """
    found = recorded_kinds(sel)
    if found is None or found.typical.served is None:
        return pl.DataFrame(schema=COLUMNS)
    (marked, names), roofs = iterations(sel), peaks_of(run, sel.trace) if peaks is None else peaks
    rows = [_of_phase(marked, names, roofs, one) for one in found.kinds]
    return pl.DataFrame(rows, COLUMNS, orient="row")


def _of_phase(sel: Selection, names: Mapping[int, str], peaks: Peaks, kind: Kind) -> tuple[object, ...]:
    rows = sel.trace.steps["index"].is_in(list(kind.steps)).arg_true()
    inside = pl.col("step").is_in(rows.implode()) if rows.len() else pl.lit(value=True)
    work = sel.timed.filter(inside & pl.col("kind").is_in(WORK)).select("kind", "name", "operator", "duration")
    if not work.height or (work["kind"] == "graph").any():  # what a graph launched was not recorded
        gpu = int(work["duration"].sum()) / len(kind.steps) if work.height else None
        return (kind.phase, gpu, *[None] * (len(COLUMNS) - 2))
    texts = work["name"].unique().cast(pl.String)
    categories = pl.DataFrame({"text": texts, "category": [kernel_names.category(text) for text in texts]})
    work = work.with_columns(text=pl.col("name").cast(pl.String)).join(categories, on="text", how="left")
    spent = {key: int(part["duration"].sum()) for (key,), part in work.group_by("category")}
    many = len(kind.steps)
    attention, products = (spent.get(name, 0) / many for name in ("attention", "gemm"))
    shaped = shape_work(sel, kernel_names.uses_tensor_cores, inside)
    shaped = shaped.with_columns(pl.Series("category", map(kernel_names.category, shaped["name"]), pl.String))
    sizes = [one for step in kind.steps if (one := iteration_of(names[step])) is not None]
    attending = work.filter(pl.col("category") == "attention")
    heads, calls = _heads(sel, attending["operator"].drop_nulls().unique(), many)
    at_roof, cache = _attended(sizes, heads, calls, peaks, attending)
    gpu = sum(spent.values()) / many
    ideal = _at_roof(shaped, peaks, products * many)
    reading = None if cache is None or peaks.bandwidth is None else 1e9 * cache / peaks.bandwidth.value
    return (
        kind.phase, gpu, attention, _percent(at_roof, attention), products,
        _percent(None if ideal is None else ideal / many, products), cache, _percent(reading, gpu),
    )  # fmt: skip


def _percent(part: float | None, whole: float) -> float | None:
    return None if part is None or not whole else 100 * part / whole


def _at_roof(shaped: pl.DataFrame, peaks: Peaks, spent: float) -> float | None:
    """What the work of products takes at the roofs, ns; None where that of a part of their time is not known."""
    rows = shaped.filter((pl.col("category") == "gemm") & pl.col("flops").is_not_null())
    known, ideal = 0.0, 0.0
    for launches, total, flops, moved, precision in rows.select(
        "launches", "total_ns", "flops", "bytes", "precision"
    ).iter_rows():
        peak = peaks.flops(precision)
        if peak is None or peaks.bandwidth is None:
            return None
        known += total
        ideal += launches * max(flops / peak, moved / peaks.bandwidth.value) * 1e9
    return ideal if spent and known >= KNOWN * spent else None


def _heads(sel: Selection, operators: pl.Series, many: int) -> tuple[Heads | None, float]:
    """The heads of the calls of attention, if all agree, and how many calls an iteration has."""
    host = sel.trace.host[operators.cast(pl.Int64).to_numpy()]
    told = {
        attention_heads(*row)
        for row in host.select(pl.col("name", "input_shapes", "input_types").cast(pl.String)).unique().iter_rows()
    }
    return (told.pop() if len(told) == 1 else None), operators.len() / many


def _attended(
    sizes: Sequence[Iteration], heads: Heads | None, calls: float, peaks: Peaks, attending: pl.DataFrame
) -> tuple[float | None, float | None]:
    """What the attention of an iteration takes at the roofs, ns, and the bytes of keys and values that it reads."""
    contexts = [one.context for one in sizes if one.context is not None]
    if heads is None or not contexts or len(contexts) < len(sizes) or attending["operator"].null_count():
        return None, None
    read = 2.0 * heads.size * heads.width * heads.key
    cache = calls * read * sum(contexts) / len(sizes)
    kernel = str(attending.sort("duration", descending=True)["text"][0])
    peak = peaks.flops(rate(Work(0.0, 0.0, heads.type, product=True), kernel, kernel_names.uses_tensor_cores))
    ideal = 0.0
    for one, context in zip(sizes, contexts, strict=True):
        if one.tokens is None or one.pairs is None or peak is None or peaks.bandwidth is None:
            return None, cache
        flops = 4.0 * heads.query * heads.width * one.pairs
        moved = read * context + 2.0 * heads.size * heads.width * heads.query * one.tokens
        ideal += 1e9 * max(flops / peak, moved / peaks.bandwidth.value)
    return calls * ideal / len(sizes), cache
