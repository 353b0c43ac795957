"""Traces made of a few NVTX ranges, calls and kernels, without a file: times in ns."""

from pathlib import Path
from typing import Any

import polars as pl

from tracetui.parsers import Source, Trace, TraceInfo, schema


def nvtx_trace(*events: tuple[str, str, int, int] | tuple[str, str, int, int, dict[str, Any]]) -> Trace:
    """Makes a trace of (what, name, start, end, more) events.

    ``range`` takes `style` (push_pop), `domain` ("") and `thread` (1); ``call`` and ``os`` take `thread`; what runs on
    the GPU (``kernel``, ``memcpy``, ``memset``, ``graph``) takes `launch`, the start of the call that launched it.
    """
    host, device = [], []
    for what, name, start, end, *rest in events:
        more = dict(rest[0]) if rest else {}
        row = {"name": name, "start": start, "duration": end - start, "process": more.pop("process", 7)}
        if what in ("kernel", "memcpy", "memset", "graph"):
            device.append(row | {"kind": what, "device": 0, "stream": 7, "at": more.pop("launch", None)} | more)
            continue
        kind = {"range": "annotation", "call": "runtime"}.get(what, what)
        nvtx = {"domain": more.pop("domain", ""), "style": more.pop("style", "push_pop")} if what == "range" else {}
        host.append(row | {"kind": kind, "thread": more.pop("thread", 1)} | nvtx | more)
    host.sort(key=lambda row: (row["process"], row["thread"], row["start"], -row["duration"]))
    device.sort(key=lambda row: row["start"])
    calls = {row["start"]: number for number, row in enumerate(host) if row["kind"] == "runtime"}
    for row in device:
        row["launch"] = calls.get(row.pop("at"))
        row["range"] = _innermost(host, row["launch"])
    info = TraceInfo("nsys", "NVIDIA Nsight Systems", threads=((7, 1, "main"),))
    empty = Trace.empty(info, Source(Path("made.sqlite"), 0))
    return Trace(
        steps=empty.steps,
        host=_frame(host, schema.HOST),
        device=_frame(device, schema.DEVICE),
        memory=empty.memory,
        counters=empty.counters,
        info=info,
        source=empty.source,
    )


def _innermost(host: list[dict[str, Any]], launch: int | None) -> int | None:
    """The push/pop range around a call that began last, else the start/end range that did."""
    if launch is None:
        return None
    call = host[launch]
    around = [
        number
        for number, row in enumerate(host)
        if row.get("style") in ("push_pop", "start_end")
        and row["thread"] == call["thread"]
        and row["start"] <= call["start"]
        and row["start"] + row["duration"] >= call["start"] + call["duration"]
    ]
    return max(around, key=lambda n: (host[n]["style"] == "push_pop", host[n]["start"]), default=None)


def _frame(rows: list[dict[str, Any]], layout: dict[str, pl.DataType]) -> pl.DataFrame:
    plain = {name: pl.String() if dtype == pl.Categorical else dtype for name, dtype in layout.items()}
    return pl.DataFrame([{name: row.get(name) for name in plain} for row in rows], schema=plain).cast(dict(layout))
