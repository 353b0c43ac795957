"""Pages of the Host tab about what nsys recorded beside CUDA; the file is read again when a page is opened."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from tracetui.analysis.nsys.gpu_samples import gpu_samples
from tracetui.analysis.nsys.os_calls import os_calls
from tracetui.analysis.nsys.threads import cpu_functions, threads
from tracetui.analysis.nsys.unified_memory import unified_memory
from tracetui.analysis.tables.nsight import system
from tracetui.app.reports.content.beside import WHOLE_TIME
from tracetui.app.views.common.counted import filled
from tracetui.app.views.common.page import Page
from tracetui.parsers.nsys.beside.unread import held

if TYPE_CHECKING:
    from collections.abc import Callable

    from tracetui.analysis.selection import Selection
    from tracetui.analysis.tables.table import Table
    from tracetui.app.session.session import Session
    from tracetui.parsers import Trace

PAGES: dict[str, tuple[Table, Callable[[Selection], pl.DataFrame]]] = {
    "threads": (system.THREADS, threads),
    "CPU samples": (system.CPU_FUNCTIONS, cpu_functions),
    "OS calls": (system.OS_CALLS, os_calls),
    "GPU metrics": (system.GPU_SAMPLES, gpu_samples),
    "unified memory": (system.UNIFIED_MEMORY, unified_memory),
}
"""The pages by what they are called among the tables of the tab."""
_NEEDS = {
    "threads": {"SCHED_EVENTS", "COMPOSITE_EVENTS"},
    "CPU samples": {"COMPOSITE_EVENTS"},
    "GPU metrics": {"GPU_METRICS"},
    "unified memory": {"CUDA_UM_CPU_PAGE_FAULT_EVENTS", "CUDA_UM_GPU_PAGE_FAULT_EVENTS"},
}


def pages_of(trace: Trace) -> tuple[str, ...]:
    """Those of the pages that the trace's file can fill."""
    if trace.info.kind != "nsys":
        return ()
    there = held(trace)
    return tuple(
        name
        for name in PAGES
        if (_NEEDS[name] & there if name in _NEEDS else (trace.host["kind"] == "os").any())
        or (name == "unified memory" and trace.device["name"].cast(pl.String).str.contains("memcpy Unified").any())
    )


def beside_page(session: Session, name: str) -> Page:
    """One of the pages."""
    table, make = PAGES[name]
    selection = session.selection()
    frame = session.cached(("beside", name), lambda: make(selection))
    if name == "GPU metrics":
        every = pl.when(pl.col("calls").is_null()).then(pl.lit(WHOLE_TIME)).otherwise("kernel")
        frame = frame.with_columns(kernel=every)
    page = Page.of(
        table, frame, note=table.base or "in the recorded time", empty="The file can't be read any more, or has none."
    )
    return replace(page, columns=filled(page.columns, frame))
