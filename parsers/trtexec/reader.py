"""Reads trtexec's JSON: the profile (time of each layer), the layer information beside it, and times of inferences.

TensorRT runs the layers of an engine one after the other, and its profile has the mean of each over all inferences: one
inference of these means is a step, of which each layer is a kernel. Without a profile each timed inference is a step.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
from msgspec import Struct, field

from tracetui.parsers import schema
from tracetui.parsers.bytes_source import ByteSource
from tracetui.parsers.errors import TraceError
from tracetui.parsers.names.kernel_types import type_of_tensorrt
from tracetui.parsers.progress import Watch
from tracetui.parsers.tally import Tally
from tracetui.parsers.tool_registry import BY_KIND, siblings
from tracetui.parsers.trace import Source, Trace, TraceInfo

BLOCK = 1 << 22
TOOL = "TensorRT trtexec"
_REFORMAT = re.compile(r"reformat", re.IGNORECASE)
_DLA = re.compile(r"\bDLA\b|ForeignNode", re.IGNORECASE)
_LONGEST_MS = 1e9
_ADVICE = "run trtexec with --exportProfile=profile.json --separateProfileRun, and open that file"


class Layer(Struct):
    """What is known of a layer."""

    kind: str = ""
    precision: str = ""
    tactic: str = ""


class _Found(Struct):
    """What the files of one engine say."""

    count: int | None = None
    profile: list[tuple[str, float, float]] = field(default_factory=list)
    """Name of each layer, its time in all inferences and its mean, ms."""
    layers: dict[str, Layer] = field(default_factory=dict)
    times: list[dict[str, float]] = field(default_factory=list)


def read_trtexec(path: Path, watch: Watch | None = None) -> Trace:
    """Reads a file of trtexec and those beside it that are of the same engine.

    Raises:
        TraceError: a file can't be read, or none has times.
        Cancelled: the user gave up.
    """
    watch = watch or Watch()
    tally = Tally()
    found = _Found()
    for file in siblings(path, BY_KIND["trtexec"]):
        _read(file, found, tally, watch, needed=file == path)
    info = TraceInfo("trtexec", TOOL, captured=tuple(_captured(found).items()))
    if found.profile:
        device, steps = _one_inference(found)
        info = replace(info, window=None)
        parsed = len(found.profile)
    elif found.times:
        device, steps = _inferences(found)
        parsed = len(found.times)
    else:
        raise TraceError(path, "what trtexec says of the layers of an engine, without their times", _ADVICE)
    source = Source(path, path.stat().st_size, parsed + tally.skipped_events, parsed)
    trace = Trace(steps=steps, device=device, info=info, source=source, notes=tally.notes())
    return replace(trace, clean_step_ns=tuple(_ns(row["computeMs"]) for row in found.times)) if found.profile else trace


def _read(path: Path, found: _Found, tally: Tally, watch: Watch, *, needed: bool) -> None:
    """Adds what a file says; one beside that is no JSON of trtexec's is left alone."""
    with ByteSource(path) as source:
        content = b"".join(map(bytes, source.blocks(BLOCK, watch)))
    try:
        said = msgspec.json.decode(content.decode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError) as error:
        if needed:
            raise TraceError(path, f"JSON of trtexec that can't be read: {error}", "export it anew") from error
        tally.missing(f"{path.name}, which can't be read", 1, str(error))
        return
    if isinstance(said, dict) and isinstance(said.get("Layers"), list):
        for entry in said["Layers"]:
            if isinstance(entry, dict) and isinstance(entry.get("Name"), str):
                found.layers[entry["Name"]] = _layer(entry)
    elif isinstance(said, list):
        for entry in said:
            _add(entry if isinstance(entry, dict) else {}, found, tally)


def _add(entry: dict[str, Any], found: _Found, tally: Tally) -> None:
    name, total, mean = entry.get("name"), _number(entry, "timeMs"), _number(entry, "averageMs")
    numbers = {key: value for key in entry if (value := _number(entry, key)) is not None}
    start = numbers.get("startComputeMs")
    if isinstance(entry.get("count"), int):
        found.count = entry["count"]
    elif isinstance(name, str) and mean is not None:
        found.profile.append((name, total or 0.0, mean))
    elif "computeMs" in numbers and start is not None:
        found.times.append(numbers)
    elif "inMs" in numbers and "computeMs" in numbers:  # before TensorRT 8.5
        found.times.append(
            numbers | {"h2dMs": numbers["inMs"], "d2hMs": numbers.get("outMs", 0.0)}
            | {"startH2dMs": numbers.get("startInMs", 0.0), "startD2hMs": numbers.get("startOutMs", 0.0)}
            | {"startComputeMs": numbers.get("startComputeMs", numbers.get("startInMs", 0.0))}
        )  # fmt: skip
    else:
        tally.skipped("entry that is no layer and no inference", 1, str(entry))


def _number(entry: dict[str, Any], key: str) -> float | None:
    value = entry.get(key)
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < _LONGEST_MS:
        return float(value)
    return None


def _layer(entry: dict[str, Any]) -> Layer:
    """Its type and tactic; its precision is that of its weights, else of what it puts out."""
    weights, outputs = entry.get("Weights"), entry.get("Outputs")
    said = [weights.get("Type") if isinstance(weights, dict) else None]
    said += (
        [one.get("Format/Datatype") for one in outputs if isinstance(one, dict)] if isinstance(outputs, list) else []
    )
    words = [found for text in said if isinstance(text, str) and (found := type_of_tensorrt(text))]
    kind, tactic = entry.get("LayerType"), entry.get("TacticName")
    return Layer(
        kind if isinstance(kind, str) else "",
        words[0] if words else "",
        tactic if isinstance(tactic, str) else "",
    )


def _kind(name: str, layer: Layer) -> str:
    return layer.kind or ("Reformat" if _REFORMAT.search(name) else "DLA" if _DLA.search(name) else "layer")


def _ns(ms: float) -> int:
    return round(ms * 1e6)


def _one_inference(found: _Found) -> tuple[pl.DataFrame, pl.DataFrame]:
    """A kernel for each layer, one after the other, and the inference as a step."""
    ends = np.round(np.cumsum([mean for *_, mean in found.profile]) * 1e6).astype(np.int64)
    starts = np.concatenate(([0], ends[:-1]))
    names = [name for name, *_ in found.profile]
    layers = [found.layers.get(name, Layer()) for name in names]
    kinds = [_kind(name, layer) for name, layer in zip(names, layers, strict=True)]
    scopes = [
        "/".join(part for part in (kind, layer.tactic) if part) for kind, layer in zip(kinds, layers, strict=True)
    ]
    operations = [f"{kind} {layer.precision}".strip() for kind, layer in zip(kinds, layers, strict=True)]
    rows = {"name": names, "start": starts, "duration": ends - starts, "operation": operations, "scope": scopes}
    steps = [(0, f"mean of {found.count:,} inferences" if found.count else "mean inference", 0, int(ends[-1]))]
    return _device(pl.DataFrame(rows), "kernel", step=0), pl.DataFrame(steps, schema=schema.STEPS, orient="row")


def _inferences(found: _Found) -> tuple[pl.DataFrame, pl.DataFrame]:
    """What each timed inference did on the GPU, and the inferences as steps."""
    zero = min(row.get("startH2dMs", row["startComputeMs"]) for row in found.times)
    parts = []
    for kind, name, start, duration in (
        ("memcpy", "[CUDA memcpy Host-to-Device]", "startH2dMs", "h2dMs"),
        ("kernel", "inference", "startComputeMs", "computeMs"),
        ("memcpy", "[CUDA memcpy Device-to-Host]", "startD2hMs", "d2hMs"),
    ):
        rows = [
            (name, _ns(row.get(start, zero) - zero), _ns(row.get(duration, 0.0)), step)
            for step, row in enumerate(found.times)
            if kind == "kernel" or row.get(duration)
        ]
        frame = pl.DataFrame(
            rows, {"name": pl.String, "start": pl.Int64, "duration": pl.Int64, "step": pl.Int64}, orient="row"
        )
        parts.append(_device(frame, kind))
    steps = pl.DataFrame(
        [
            (
                step,
                "inference",
                _ns(row.get("startH2dMs", row["startComputeMs"]) - zero),
                _ns(row.get("latencyMs", row["computeMs"])),
            )
            for step, row in enumerate(found.times)
        ],
        schema=schema.STEPS,
        orient="row",
    )
    return pl.concat(parts).sort("start", maintain_order=True), steps


def _device(rows: pl.DataFrame, kind: str, **same: int) -> pl.DataFrame:
    same = {"device": 0, "stream": 0, **same}
    rows = rows.with_columns(pl.lit(kind).alias("kind"), *(pl.lit(value).alias(name) for name, value in same.items()))
    return schema.filled(schema.DEVICE, rows)


def _captured(found: _Found) -> dict[str, str]:
    """The numbers that people ask for first."""
    said: dict[str, str] = {}
    if found.profile:
        total = sum(mean for *_, mean in found.profile) or 1.0
        said["layers"] = str(len(found.profile))
        said["inferences profiled"] = str(found.count or "")
        said["mean inference"] = f"{total:.6g} ms"
        for title, pattern in (("reformats", _REFORMAT), ("on DLA", _DLA)):
            of = [mean for name, _, mean in found.profile if pattern.search(name)]
            if of:
                said[title] = f"{len(of)} layers, {100 * sum(of) / total:.4f} % of the inference"
    if found.times:
        compute = np.array([row["computeMs"] for row in found.times])
        said["inferences timed"] = str(compute.size)
        for title, value in (
            ("median", np.median(compute)),
            ("p99", np.percentile(compute, 99)),
            ("longest", compute.max()),
        ):
            said[f"{title} compute"] = f"{value:.6g} ms"
    return {title: value for title, value in said.items() if value}
