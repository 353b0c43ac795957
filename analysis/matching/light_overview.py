"""The overview of a run with two recordings: the light one's steps and GPU, the rich one's beside it."""

from __future__ import annotations

import polars as pl
from msgspec.structs import replace

from tracetui.analysis.base.conventions import TRACETUI, Conventions
from tracetui.analysis.matching.light_times import light_selection
from tracetui.analysis.overview import Overview, overview
from tracetui.analysis.selection import Selection

UNKNOWN = ("dataloader", "cpu_exec")
"""The categories of which a light recording tells nothing: their time is part of its category ``other``."""


def run_overview(sel: Selection, conventions: Conventions = TRACETUI) -> Overview:
    """`overview` of the run's light recording where tables use its times, and of the selection itself otherwise.

    Of some steps, some GPUs or a marked range it is that of the selection, as the verdict is.
    """
    rich = overview(sel, conventions)
    light = light_selection(sel)
    return rich if light is None else _beside(overview(light, conventions), rich)


def _beside(light: Overview, rich: Overview) -> Overview:
    return replace(
        light,
        base=f"{light.base} of the light recording",
        per_step=light.per_step.with_columns(pl.lit(None, pl.Int64).alias(f"{name}_ns") for name in UNKNOWN),
        average=light.average.with_columns(
            pl.when(~pl.col("category").is_in(UNKNOWN)).then(pl.col("ns", "percent")),
        ),
        sel=rich.sel,
        recorded_ns=rich.recorded_ns,
        setup_ns=rich.setup_ns,
        warm_up=rich.warm_up,
        steps_of=rich.steps_of,
        as_recorded=rich,
    )
