"""Reads a Chrome trace the plain way, with json and a loop, as the reference for the columnar reader.

Slow and obvious on purpose. It fills the same Events, from undamaged files only.
"""

from __future__ import annotations

import gzip
import json
import re
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from tracetui.parsers import categories, schema
from tracetui.parsers.chrome import classify, columns, reader
from tracetui.parsers.chrome.columns import NULL, Events
from tracetui.parsers.chrome.frames import build_trace
from tracetui.parsers.names.people import without_home
from tracetui.parsers.tally import Tally
from tracetui.parsers.trace import Source, Trace

if TYPE_CHECKING:
    from pathlib import Path


MANY_DIGITS, NUMBER = re.compile(r"\.\d{8}"), re.compile(r"-?\d+")
AS_JSON = json.JSONEncoder(ensure_ascii=False)
XLA_TEXTS = ("hlo_op", "hlo_module", "tf_op", "step_num", "kernel_details", "memcpy_details")


def text(value: Any) -> str | None:
    return None if value is None or value == "" else str(value)


def ns(value: Any) -> int:
    number = Decimal(words := str(value))
    if MANY_DIGITS.search(words):
        number = number.quantize(Decimal("1e-6"), rounding="ROUND_HALF_UP")
    return int((number * 1000).to_integral_value(rounding="ROUND_DOWN"))


def whole(value: Any) -> int:
    """A number, or the text of one, to 64 bits."""
    if value is None or value == "" or isinstance(value, bool):
        return NULL
    try:
        if not isinstance(value, int):
            value = int(value, 16) if str(value).lower().startswith("0x") else int(Decimal(str(value)))
    except (ArithmeticError, ValueError, OverflowError):
        return NULL
    return value if -(2**63) < value < 2**63 else (value + 2**63) % 2**64 - 2**63


def text_id(value: Any) -> int:
    """pid or tid: the number in it, if any."""
    return number_in(str(value))


@cache
def number_in(words: str) -> int:
    digits = NUMBER.search(words)
    return int(digits.group()) if digits else NULL


def argument(args: dict[str, Any], key: str, other: str) -> int:
    return whole(args.get(other) if args.get(key) is None else args[key])


def real(value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return float("nan")
    return number if np.isfinite(number) else float("nan")


def read_events(path: Path) -> Events:
    raw = path.read_bytes()
    if raw[:2] == b"\x1f\x8b":
        raw = gzip.decompress(raw)
    document = json.loads(raw, parse_float=str, strict=False)
    events = document if isinstance(document, list) else document["traceEvents"]
    header = {} if isinstance(document, list) else {k: v for k, v in document.items() if k != "traceEvents"}
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in columns.GROUPS}
    meta: list[dict[str, Any]] = []
    window = None
    events = [event for event in events if event]
    for number, event in enumerate(events):
        args = event.get("args") or {}
        phase, category = str(event.get("ph")), str(event.get("cat") or "")
        category = category[:1].lower() + category[1:]
        place = {"process": text_id(event.get("pid")), "thread": text_id(event.get("tid"))}
        if phase == "M":
            meta.append(event)
        elif phase == "X" and category in classify.IGNORED_CATEGORIES:
            if category == "trace" and window is None:
                window = (ns(event["ts"]), ns(event["dur"]))
            continue
        if phase == "X" and "Collective name" in args:
            rows["collectives"].append({"offset": number, **described(args)})
        if phase == "X" and category in classify.HOST_CATEGORIES:
            rows["host"].append(
                {
                    "kind": schema.HOST_KINDS.index(classify.HOST_CATEGORIES[category]),
                    "name": without_home(event["name"]),
                    "start": ns(event["ts"]),
                    "duration": ns(event.get("dur", 0)),
                    **place,
                    "offset": number,
                    "correlation": argument(args, "correlation", "correlation_id"),
                    "external_id": argument(args, "External id", "external id"),
                    "sequence": whole(args.get("Sequence number")),
                    "module_id": whole(args.get("Python module id")),
                    "input_shapes": json_text(args.get("Input Dims")),
                    "input_types": json_text(args.get("Input type")),
                    "concrete_inputs": (
                        json_text(args.get("Concrete Inputs")) if re.search(schema.SAYING, event["name"]) else None
                    ),
                    "stack": without_home(args.get("Call stack") or "") or None,
                    "kernel": args.get("kernel") or None,
                    "kernel_file": without_home(args.get("kernel_file") or "") or None,
                }
            )
        elif phase == "X":
            rows["device"].append(
                {
                    "kind": classify.device_kind(category),
                    "name": event["name"],
                    "start": ns(event["ts"]),
                    "duration": ns(event.get("dur", 0)),
                    **place,
                    "offset": number,
                    "device": whole(args.get("device")),
                    "stream": whole(args.get("stream")),
                    "context": whole(args.get("context")),
                    "correlation": argument(args, "correlation", "correlation_id"),
                    "external_id": argument(args, "External id", "external id"),
                    "grid": args.get("grid") or [-1] * 3,
                    "block": args.get("block") or [-1] * 3,
                    "registers": whole(args.get("registers per thread")),
                    "shared_memory": whole(args.get("shared memory")),
                    "occupancy_percent": real(args.get("est. achieved occupancy %")),
                    "blocks_per_sm": real(args.get("blocks per SM")),
                    "bytes": argument(args, "bytes", "size"),
                    "graph_node": argument(args, "graph node id", "cuda_graph_node_id"),
                    "memset_details": args.get("Memset_details", args.get("memset_details")) or None,
                    "xla_context": args.get("context_id") or None,
                    "op_name": text(args.get("name")),
                    **{key: text(args.get(key)) for key in XLA_TEXTS},
                }
            )
        elif phase in ("i", "I") and event.get("name") == "[memory]":
            rows["memory"].append(
                {
                    "time": ns(event["ts"]),
                    **place,
                    "device_type": whole(args.get("Device Type")),
                    "device": whole(args.get("Device Id")),
                    "address": whole(args.get("Addr")),
                    "bytes": whole(args.get("Bytes")),
                    "allocated": whole(args.get("Total Allocated")),
                    "reserved": whole(args.get("Total Reserved")),
                }
            )
        elif phase in ("s", "f") and category in ("fwdbwd", "forward_backward"):
            rows["flows"].append({"id": whole(event["id"]), **place, "time": ns(event["ts"]), "begins": phase == "s"})
    groups = {name: to_columns(columns.GROUPS[name], found) for name, found in rows.items()}
    return Events(groups, meta, header, window, total=len(events), parsed=len(events))


def described(args: dict[str, Any]) -> dict[str, Any]:
    return {
        "said": text(args.get("Collective name")),
        "in_elements": whole(args.get("In msg nelems")),
        "out_elements": whole(args.get("Out msg nelems")),
        "group_size": whole(args.get("Group size")),
        "seq": whole(args.get("Seq")),
        "source_rank": whole(args.get("Src Rank")),
        "target_rank": whole(args.get("Dst Rank")),
        "said_type": text(args.get("dtype")),
        "group": text(args.get("Process Group Name")),
        "group_description": text(args.get("Process Group Description")),
        "group_ranks": json_text(args.get("Process Group Ranks")),
        "in_splits": json_text(args.get("In split size")),
        "out_splits": json_text(args.get("Out split size")),
    }


def json_text(value: Any) -> str | None:
    return None if value is None else AS_JSON.encode(value)


def to_columns(group: dict[str, Any], rows: list[dict[str, Any]]) -> columns.Columns:
    filled = columns.blank(group, len(rows))
    for name, values in filled.items():
        if not rows or name not in rows[0]:
            continue
        found = [row[name] for row in rows]
        filled[name] = categories.encode(found) if values.dtype == np.uint32 else np.array(found, values.dtype)
    return filled


def read_trace(path: Path) -> Trace:
    events = read_events(path)
    tally = Tally()
    info = reader.trace_info(events)
    source = Source(path, path.stat().st_size, events.total, events.parsed)
    return build_trace(events, info, source, tally)
