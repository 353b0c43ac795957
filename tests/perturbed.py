"""Recordings with a fault of measurement put in: what a broken clock, a lost buffer or a careless script makes of them.

Each generator takes a sound trace and returns the same with one fault, or None where the fault makes no sense for it (a
warm-up step needs steps). Faults are put into the frames, as a reader would have filled them from a file with that
fault; two are faults of files and are put into the JSON.
"""

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracetui.parsers import Trace, open_path
from tracetui.parsers.names import kernel_names

MS = 1_000_000
WORK = ["kernel", "memcpy", "memset", "graph"]
IS_WORK = pl.col("kind").is_in(WORK)


@dataclass(frozen=True)
class Fault:
    """A fault, which rules may name it, and what it damages."""

    make: Callable[[Trace], Trace | None]
    noticed_by: frozenset[str]
    damaged: frozenset[str]
    """Bases of `rule.BASES` on which no advice may stand above info."""


def _with_device(trace: Trace, device: pl.DataFrame) -> Trace:
    # collectives name rows of the frame that is no more
    device = device.select(trace.device.columns).sort("start", maintain_order=True)
    return replace(trace, device=device, collectives=trace.collectives.clear())


def _has_launches(trace: Trace) -> bool:
    return trace.device.filter(IS_WORK)["launch"].drop_nulls().len() > 0


def _timed(trace: Trace) -> pl.DataFrame:
    return trace.device.filter(IS_WORK & pl.col("start").is_not_null())


# --- lost events


def half_dropped(trace: Trace) -> Trace | None:
    """A random half of the GPU events is lost."""
    if not _has_launches(trace):
        return None
    keep = pl.Series(np.random.default_rng(1).random(trace.device.height) < 0.5)
    return _with_device(trace, trace.device.filter(keep | ~IS_WORK))


def second_half_dropped(trace: Trace) -> Trace | None:
    """From the middle of the recording on all GPU events are lost, as when a buffer is full."""
    if not _has_launches(trace):
        return None
    middle = _timed(trace)["start"].median()
    return _with_device(trace, trace.device.filter((pl.col("start") < middle) | ~IS_WORK))


def no_gpu_events(trace: Trace) -> Trace | None:
    """Nothing of the GPU was recorded."""
    return _with_device(trace, trace.device.filter(~IS_WORK)) if _has_launches(trace) else None


# --- clocks


def _shifted(trace: Trace, by: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> Trace | None:
    """GPU times plus a function of them, which counts from 0 at the first to 1 at the last work."""
    if not _has_launches(trace):
        return None
    start = trace.device["start"]
    first, last = int(start.min()), int(start.max())  # type: ignore[arg-type]
    place = (start.to_numpy() - first) / max(last - first, 1)
    moved = pl.Series("start", (start.to_numpy() + by(place)).round().astype(np.int64))
    return _with_device(trace, trace.device.with_columns(moved))


def late(trace: Trace) -> Trace | None:
    """The GPU's clock is 5 ms late."""
    return _shifted(trace, lambda place: 5 * MS + 0 * place)


def early(trace: Trace) -> Trace | None:
    """The GPU's clock is 5 ms early."""
    return _shifted(trace, lambda place: -5 * MS + 0 * place)


def drifting_late(trace: Trace) -> Trace | None:
    """The GPU's clock falls behind by 5 ms from the first to the last work."""
    return _shifted(trace, lambda place: 5 * MS * place)


def drifting_early(trace: Trace) -> Trace | None:
    """The GPU's clock runs ahead by 5 ms from the first to the last work."""
    return _shifted(trace, lambda place: -5 * MS * place)


def jumping(trace: Trace) -> Trace | None:
    """The GPU's clock jumps by 20 ms in the middle of the recording."""
    return _shifted(trace, lambda place: 20 * MS * (place > 0.5))


# --- durations


def _lasting(trace: Trace, durations: NDArray[np.int64]) -> Trace:
    return _with_device(trace, trace.device.with_columns(pl.Series("duration", durations)))


def one_kernel_1000(trace: Trace) -> Trace | None:
    """The longest kernel of the first half takes a thousand times as long."""
    kernels = trace.device.with_row_index("at").filter((pl.col("kind") == "kernel") & pl.col("start").is_not_null())
    if kernels.height < 20:
        return None
    at = int(kernels.head(kernels.height // 2).sort("duration")["at"][-1])
    durations = trace.device["duration"].to_numpy().copy()
    durations[at] *= 1000
    return _lasting(trace, durations)


def gemms_by_1000(trace: Trace) -> Trace | None:
    """Matrix products take a thousandth of their time."""
    names = trace.device["name"].cast(pl.String)
    gemms = {name for name in names.unique().drop_nulls().to_list() if kernel_names.category(name) == "gemm"}
    chosen = names.is_in(list(gemms)).fill_null(value=False).to_numpy()
    if not chosen.any():
        return None
    durations = trace.device["duration"].to_numpy()
    return _lasting(trace, np.where(chosen, durations // 1000, durations))


def all_by_1000(trace: Trace) -> Trace | None:
    """All GPU durations were written in the wrong unit: a thousandth."""
    kernels = (trace.device["kind"] == "kernel").any()
    return _lasting(trace, trace.device["duration"].to_numpy() // 1000) if kernels else None


def all_1000(trace: Trace) -> Trace | None:
    """All GPU durations were written in the wrong unit: a thousand times too long."""
    return _lasting(trace, trace.device["duration"].to_numpy() * 1000) if _timed(trace).height > 20 else None


def _rounded(trace: Trace, unit: int) -> Trace | None:
    if not _timed(trace).height:
        return None
    return _lasting(trace, (trace.device["duration"].to_numpy() + unit // 2) // unit * unit)


def whole_milliseconds(trace: Trace) -> Trace | None:
    """GPU durations are rounded to milliseconds."""
    return _rounded(trace, MS)


def whole_microseconds(trace: Trace) -> Trace | None:
    """GPU durations are rounded to microseconds."""
    return _rounded(trace, 1000)


def no_durations(trace: Trace) -> Trace | None:
    """All GPU durations are 0."""
    return _lasting(trace, np.zeros(trace.device.height, np.int64)) if _timed(trace).height else None


def some_durations(trace: Trace) -> Trace | None:
    """Every third GPU event has no duration."""
    if trace.device.filter(pl.col("kind") == "kernel").height < 20:
        return None
    durations = trace.device["duration"].to_numpy().copy()
    durations[::3] = 0
    return _lasting(trace, durations)


def _at_speeds(trace: Trace, *speeds: float) -> Trace | None:
    """Everything lasts longer by a factor that changes from step to step; without steps, from third to third."""
    kernels = trace.device.filter((pl.col("kind") == "kernel") & pl.col("start").is_not_null())
    keys = kernels.group_by("name", "grid", "block").agg(n=pl.len())
    if kernels.height < 20 or not (keys["n"] > 2).any() or trace.steps.height in (1, 2):
        return None
    if not _in_steps(trace):
        return None
    begin, end = int(kernels["start"].min()), int(kernels["start"].max())  # type: ignore[arg-type]
    edges = trace.steps["start"].to_numpy() if trace.steps.height else np.linspace(begin, end, 4)[:-1]
    places = np.linspace(0, 1, len(edges))
    factors = np.interp(places, np.linspace(0, 1, len(speeds)), speeds)
    known = np.append(edges, edges[-1] + 10**12)
    moved = edges[0] + np.concatenate([[0], np.cumsum(np.diff(known) * factors)])
    return _warped(trace, lambda at: np.where(at > edges[0], np.interp(at, known, moved), at))


def _in_steps(trace: Trace) -> bool:
    """Whether the GPU works while the steps are open; else it works off what they queued, and knows nothing of them."""
    if not trace.steps.height:
        return True
    end = int((trace.steps["start"] + trace.steps["duration"]).max())  # type: ignore[arg-type]
    start = _timed(trace)["start"]
    return bool((start < end).mean() > 0.9)  # type: ignore[operator]


def _warped(trace: Trace, place: Callable[[Any], Any], *, kernels: bool = True) -> Trace:
    """Moves all times; durations become what lies between the moved ends, those of GPU work only if asked for."""

    def moved(frame: pl.DataFrame) -> pl.DataFrame:
        start = frame["start"].to_numpy()
        began = np.asarray(place(start)).round().astype(np.int64)
        ended = np.asarray(place(start + frame["duration"].to_numpy())).round().astype(np.int64)
        return frame.with_columns(pl.Series("start", began), pl.Series("duration", ended - began))

    device = moved(trace.device)
    if not kernels:
        device = device.with_columns(trace.device["duration"])
    return replace(trace, steps=moved(trace.steps), host=moved(trace.host), device=device)


def throttled(trace: Trace) -> Trace | None:
    """Kernels take 1.0, 1.3 and 1.7 times as long from the first to the last step."""
    return _at_speeds(trace, 1.0, 1.3, 1.7)


def speeding_up(trace: Trace) -> Trace | None:
    """Kernels take 1.7, 1.3 and 1.0 times as long: the clock was still rising."""
    return _at_speeds(trace, 1.7, 1.3, 1.0)


# --- doubled and mixed


def _doubled(trace: Trace, chosen: pl.Expr) -> Trace | None:
    rows = trace.device.filter(chosen & pl.col("start").is_not_null())
    return _with_device(trace, pl.concat([trace.device, rows])) if rows.height else None


def gpu_twice(trace: Trace) -> Trace | None:
    """Every GPU event is there twice."""
    return _doubled(trace, IS_WORK)


def gpu_elsewhere_too(trace: Trace) -> Trace | None:
    """Every GPU event is there twice, the second time on a stream of its own; not where no launch is known."""
    rows = trace.device.filter(IS_WORK & pl.col("start").is_not_null() & pl.col("launch").is_not_null())
    other = rows.with_columns(pl.lit(99_999).cast(trace.device.schema["stream"]).alias("stream"))
    return _with_device(trace, pl.concat([trace.device, other])) if 2 * rows.height > trace.device.height else None


def copies_twice(trace: Trace) -> Trace | None:
    """Every copy is there twice, and no kernel."""
    return _doubled(trace, pl.col("kind") == "memcpy")


def all_twice(trace: Trace) -> Trace | None:
    """Every event of host and GPU is there twice."""
    doubled = _doubled(trace, IS_WORK)
    if doubled is None or not trace.host.height:
        return None
    # each row is followed by its double
    ids = [pl.col(name) * 2 for name in ("parent", "forward")]
    host = trace.host.with_columns(ids).select(pl.all().repeat_by(2).explode())
    owners = ("launch", "operator", "module", "forward_module", "range")
    return replace(doubled, host=host, device=doubled.device.with_columns(pl.col(name) * 2 for name in owners))


def mixed_processes(trace: Trace) -> Trace | None:
    """The recording of a second process, a millisecond later and on the same GPU, is in the file."""
    if not _has_launches(trace):
        return None
    rows = trace.host.height
    other = pl.col("process") + 1_000_000
    host = trace.host.with_columns(
        pl.col("start") + MS, other, *(pl.col(name) + rows for name in ("parent", "forward"))
    )
    owners = ("launch", "operator", "module", "forward_module", "range")
    device = trace.device.with_columns(
        pl.col("start") + MS, other, pl.col("stream") + 100, *(pl.col(name) + rows for name in owners)
    )
    both = replace(trace, host=pl.concat([trace.host, host]))
    return _with_device(both, pl.concat([trace.device, device]))


def same_process(trace: Trace) -> Trace | None:
    """As `mixed_processes`, of a process with the same number (of another container), on the same stream."""
    work = _timed(trace)
    by_graph = trace.host["name"].gather(work["launch"]).cast(pl.String).str.contains("GraphLaunch")
    if work.height < 20 or not _has_launches(trace) or by_graph.any():
        return None  # the work of one graph may run side by side
    gap = int(work["duration"].median()) // 3 + 500  # type: ignore[arg-type]
    other = trace.device.filter(IS_WORK).with_columns(pl.col("start") + gap, pl.col("duration") * 2 // 3)
    return _with_device(trace, pl.concat([trace.device, other]))


def another_program(trace: Trace) -> Trace | None:
    """A stream of another program, of which nothing was launched in the file, is never idle."""
    if not _has_launches(trace):
        return None
    nobody = {name: pl.lit(None, trace.device.schema[name]) for name in ("launch", "correlation", "external_id")}
    theirs = trace.device.filter(IS_WORK & pl.col("start").is_not_null() & pl.col("launch").is_not_null())
    lasts = (pl.col("start").shift(-1) - pl.col("start")).fill_null(pl.col("duration"))
    theirs = theirs.sort("start").with_columns(
        duration=lasts, stream=pl.lit(9_999, trace.device.schema["stream"]), **nobody
    )
    return _with_device(trace, pl.concat([trace.device, theirs]))


# --- steps


def warm_up(trace: Trace) -> Trace | None:
    """The first of the steps takes three times as long; its kernels take as long as before."""
    if trace.steps.height < 3 or not _in_steps(trace):
        return None
    begin, duration = (int(trace.steps[name][0]) for name in ("start", "duration"))
    return _warped(trace, lambda at: at + 2 * np.clip(at - begin, 0, duration), kernels=False)


GPU = frozenset({"gpu", "shares", "whole"})
CLOCKS = frozenset({"host", "whole"})
FAULTS: dict[str, Fault] = {
    "half of the GPU events dropped": Fault(half_dropped, frozenset({"V17"}), GPU),
    "second half of the GPU events dropped": Fault(second_half_dropped, frozenset({"V17"}), GPU),
    "no GPU events": Fault(no_gpu_events, frozenset({"V9", "V17"}), GPU),
    "GPU clock 5 ms late": Fault(late, frozenset({"V19"}), CLOCKS),
    "GPU clock 5 ms early": Fault(early, frozenset({"V10", "V19"}), CLOCKS),
    "GPU clock drifts, late": Fault(drifting_late, frozenset({"V19"}), CLOCKS),
    "GPU clock drifts, early": Fault(drifting_early, frozenset({"V10", "V19"}), CLOCKS),
    "GPU clock jumps": Fault(jumping, frozenset({"V19"}), CLOCKS),
    "one kernel x 1000": Fault(one_kernel_1000, frozenset({"V21"}), GPU),
    "GEMMs / 1000": Fault(gemms_by_1000, frozenset({"V22", "V15"}), GPU),
    "all durations / 1000": Fault(all_by_1000, frozenset({"V22", "V15"}), GPU),
    "all durations x 1000": Fault(all_1000, frozenset({"V21"}), GPU),
    "whole milliseconds": Fault(whole_milliseconds, frozenset({"V23", "V9"}), GPU),
    "whole microseconds": Fault(whole_microseconds, frozenset({"V23"}), frozenset()),
    "no durations": Fault(no_durations, frozenset({"V9"}), GPU),
    "every third duration 0": Fault(some_durations, frozenset({"V22"}), GPU),
    "throttled": Fault(throttled, frozenset({"T2"}), frozenset({"clock", "whole"})),
    "speeding up": Fault(speeding_up, frozenset({"T2"}), frozenset({"clock", "whole"})),
    "GPU events twice": Fault(gpu_twice, frozenset({"V20"}), GPU),
    "GPU events on another stream too": Fault(gpu_elsewhere_too, frozenset({"V20"}), GPU),
    "copies twice": Fault(copies_twice, frozenset({"V20"}), frozenset()),
    "all events twice": Fault(all_twice, frozenset({"V20"}), GPU),
    "two processes mixed": Fault(mixed_processes, frozenset({"V24"}), GPU | CLOCKS),
    "two recordings under one process": Fault(same_process, frozenset({"V21"}), GPU),
    "another program's work": Fault(another_program, frozenset({"V32"}), frozenset()),
    "warm-up step x 3": Fault(warm_up, frozenset({"V6"}), frozenset({"whole"})),
}
"""By name. `whole microseconds`, `copies twice` and another program damage little: only the naming is asked for."""


# --- faults of files


def rewritten(path: Path, into: Path, change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> Trace:
    """A Chrome trace with its events changed, read again."""
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    held = json.loads(text)
    events = held["traceEvents"] if isinstance(held, dict) else held
    changed = change(events)
    file = into / "rewritten.json"
    file.write_text(json.dumps({**held, "traceEvents": changed} if isinstance(held, dict) else changed))
    return open_path(file, cache=False).traces[0]
