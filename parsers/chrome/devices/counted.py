"""Kernels of which Kineto recorded counters in place of times (`profiler_metrics`, ``cuda_profiler_range`` events).

CUPTI runs each kernel again and again until all its counters are known, so the file says neither when it ran nor how
long. Its rows are a recording of their own beside the time line, as Nsight Compute's would be.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracetui.parsers import categories, schema
from tracetui.parsers.trace import Trace

if TYPE_CHECKING:
    from tracetui.parsers.chrome.columns import Columns
    from tracetui.parsers.nesting import Ints

COUNTED = schema.DEVICE_KINDS.index("counted")
TOOL = "PyTorch Kineto, CUPTI's counters"
NAME = "__missing__"
"""What Kineto writes where CUPTI gave no name."""
_LAUNCH = re.compile(r"(cuda|cu|hip)\w*Launch\w*Kernel")


def link_launches(host: Columns, device: Columns, api: Ints, launch: Ints) -> None:
    """Fills in the calls that launched counted kernels, in place: one by one, if there are as many launches as kernels.

    Args:
        host: the host events.
        device: the device's activities, by start.
        api: the rows of calls.
        launch: the call of each activity; -1 where it is not known.
    """
    rows = np.flatnonzero(device["kind"] == COUNTED)
    if not rows.size:
        return
    name = host["name"][api]
    codes = [code for code, text in categories.texts(name).items() if _LAUNCH.match(text)]
    calls = api[np.isin(name, np.array(codes, np.uint32))]
    if calls.size == rows.size:
        launch[rows] = calls[np.argsort(host["start"][calls], kind="stable")]


def split_counted(trace: Trace) -> tuple[Trace, ...]:
    """The trace without counted kernels, and one that has nothing else; the trace itself where there are none."""
    if "counted" not in trace.device["kind"].unique().to_list():
        return (trace,)
    is_counted = trace.device["kind"] == "counted"
    rows = is_counted.arg_true()
    place = np.zeros(trace.device.height, np.uint32)
    place[rows.to_numpy()] = np.arange(len(rows))
    of_kernels = trace.counters["device_row"].is_not_null()
    counters = trace.counters.filter(of_kernels)
    counters = counters.with_columns(
        device_row=pl.Series(place[counters["device_row"].to_numpy()], dtype=schema.RowId), time=pl.lit(None, pl.Int64)
    )
    device = trace.device.filter(is_counted).with_columns(
        kind=pl.lit("kernel", schema.DeviceKind),
        start=pl.lit(None, pl.Int64),
        **{
            name: pl.lit(None, schema.RowId)
            for name in ("launch", "operator", "module", "forward_module", "range", "step")
        },
    )
    empty = Trace.empty(replace(trace.info, kind="ncu", tool=TOOL), trace.source)
    alone = replace(empty, device=device, counters=counters)
    rest = replace(trace, device=trace.device.filter(~is_counted), counters=trace.counters.filter(~of_kernels))
    return rest, alone
