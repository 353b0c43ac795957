"""What a board did while a program ran: its samples beside a recording, from a log or from the run's run.json."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import polars as pl

from tracetui.parsers.runs.manifest import GpuState, Power, PowerState, RunManifest
from tracetui.parsers.tally import Tally
from tracetui.parsers.tegrastats.lines import MHZ
from tracetui.parsers.tegrastats.reader import CLOCK, GPU_POWER, INPUTS, LOAD, trace_of
from tracetui.parsers.trace import Source, Trace

ZONE_NS = 900_000_000_000
"""Time zones differ by quarters of an hour."""
_FURTHEST_ZONE = 14 * 4
_ENOUGH = 3
"""Samples within the steps that make a mean."""
BUSY_PERCENT = 50.0
"""Load from which a GPU counts as working; the clock of an idle GPU says nothing."""
IN_STEPS = " in steps"


def of_run(manifest: RunManifest, path: Path) -> Trace | None:
    """The samples that a run's run.json has, as a log of them; None where it has none with a time."""
    states = [state for state in manifest.power.during if state.time_unix_ns is not None]
    values: dict[tuple[str, str], dict[int, float]] = {}
    for at, state in enumerate(states):
        for name, unit, value in _values(state):
            if value is not None:
                values.setdefault((name, unit), {})[at] = float(value)
    if not values:
        return None
    tool = ", ".join(states[-1].sources)
    source = Source(path, path.stat().st_size, len(states), len(states))
    return trace_of(tool, source, [state.time_unix_ns for state in states], values, Tally())


def _values(state: PowerState) -> Iterator[tuple[str, str, float | None]]:
    alone = len(state.gpus) == 1
    for gpu in state.gpus:
        of = "" if alone else f" {gpu.index or 0}"
        yield f"GPU load{of}", "%", gpu.load_percent
        yield f"{CLOCK}{of}", "MHz", gpu.clock_hz and gpu.clock_hz / MHZ
        yield f"{GPU_POWER}{of}", "mW", gpu.power_mw
        yield f"GPU{of}", "C", gpu.temperature_c
    yield "memory load (EMC)", "%", state.emc.load_percent if state.emc else None
    for rail in state.rails:
        yield rail.name or "", "mW", rail.power_mw
    for name, warmth in state.temperatures_c.items():
        yield name, "C", warmth


def as_of_run(board: Trace) -> RunManifest:
    """A log of a board as the run.json of a run that says nothing else, for who asks what the machine did."""
    zero = board.info.base_time or 0
    states = []
    frame = board.counters.with_columns(pl.col("metric", "unit").cast(pl.String)).sort("time", maintain_order=True)
    for (time,), rows in frame.group_by("time", maintain_order=True):
        values = {(name, unit): value for name, unit, value in rows.select("metric", "unit", "value").iter_rows()}
        clock = values.get((CLOCK, "MHz"))
        gpu = GpuState(clock_hz=None if clock is None else round(clock * MHZ), load_percent=values.get((LOAD, "%")))
        warm = {name: value for (name, unit), value in values.items() if unit == "°C" and name not in NO_SENSORS}
        states.append(PowerState(time_unix_ns=zero + int(str(time)), gpus=(gpu,), temperatures_c=warm))
    return RunManifest(power=Power(samples=msgspec.Raw(msgspec.json.encode(states))))


NO_SENSORS = ("PMIC",)
"""Zones that always say the same: 100 °C on a TX2, 50 °C on a Xavier."""


def beside(board: Trace, timed: Trace, *, zone_known: bool = False) -> tuple[Trace, dict[str, str]]:
    """The log by the clock of a recording beside it, and what the board did, and the energy of a step, in its steps.

    A log's clock has no zone: where several put all steps into the log, nothing is said. trtexec's times are of no
    clock: an inference has the mean power of the samples in which the GPU worked, for as long as it takes.
    """
    frame = board.counters.with_columns(pl.col("metric", "unit").cast(pl.String))
    times = np.unique(frame["time"].to_numpy())
    steps, begins, zero = timed.steps, board.info.base_time, timed.info.base_time
    if timed.info.kind == "trtexec":
        return board, _of_inferences(frame, timed)
    if begins is None or zero is None or not steps.height or len(times) < _ENOUGH:
        return board, {}
    starts = steps["start"].to_numpy()
    first = int(starts.min()) + zero - begins
    last = int((starts + steps["duration"].to_numpy()).max()) + zero - begins
    ends = np.append(times[1:], times[-1] + times[-1] // (len(times) - 1))
    furthest = 0 if zone_known else _FURTHEST_ZONE
    zones = [at * ZONE_NS for at in range(-furthest, furthest + 1)]
    zones = [zone for zone in zones if first + zone >= 0 and last + zone <= ends[-1]]
    if len(zones) != 1:
        return board, {} if zones else {"energy per step": "unknown, for the log does not cover the recorded steps"}
    lasts = np.minimum(ends, last + zones[0]) - np.maximum(times, first + zones[0])
    part = pl.DataFrame({"time": times, "lasts": lasts}).filter(pl.col("lasts") > 0)
    board = replace(board, info=replace(board.info, base_time=begins - zones[0]))
    if part.height < _ENOUGH:
        return board, {}
    frame = frame.join(part, on="time")
    said = {}
    for rail in INPUTS:
        drawn = frame.filter(pl.col("metric") == rail)
        if drawn.height == part.height:
            joules = float((drawn["value"] * drawn["lasts"]).sum()) / 1e12
            said["energy per step"] = (
                f"{joules / steps.height:,.3g} J ({rail}: {joules:,.3g} J in {steps.height:,} recorded steps, "
                f"of {part.height:,} samples)"
            )
            break
    for (name, unit), rows in frame.group_by("metric", "unit", maintain_order=True):
        values = rows["value"].to_numpy()
        if unit != "MB":
            shown = f"mean {values.mean():,.1f} {unit!s}, {values.min():,.6g} to {values.max():,.6g} {unit!s}"
            said[f"{name!s}{' temperature' if unit == '°C' else ''}{IN_STEPS}"] = shown
    return board, said


def _of_inferences(frame: pl.DataFrame, timed: Trace) -> dict[str, str]:
    steps = timed.steps
    if steps.height > 1:  # inferences may overlap
        each = int((steps["start"] + steps["duration"]).max() - steps["start"].min()) / steps.height
    else:
        clean = timed.clean_step_ns or steps["duration"].to_list()
        each = sum(clean) / len(clean) if clean else 0
    busy = frame.filter((pl.col("metric") == LOAD) & (pl.col("value") >= BUSY_PERCENT))["time"]
    drawn = frame.filter(pl.col("time").is_in(busy.implode()))
    for rail in INPUTS:
        power = drawn.filter(pl.col("metric") == rail)["value"]
        if len(power) >= _ENOUGH and len(power) == len(busy) and each:
            watts = float(power.to_numpy().mean()) / 1e3
            return {
                "energy per inference": f"about {watts * each / 1e6:,.3g} mJ ({rail}: {watts:,.3g} W, the mean of "
                f"{len(busy):,} samples with a load of {BUSY_PERCENT:.0f} % or more, for {each / 1e6:,.3g} ms)"
            }
    return {}


def with_board(traces: Iterable[Trace], manifest: RunManifest | None, path: Path) -> Iterator[Trace]:
    """The traces, of which the first with a time line and logs of the board say what it did during the steps."""
    traces = list(traces)
    timed = next((trace for trace in traces if trace.has_timeline), None)
    own = of_run(manifest, path) if timed is not None and manifest is not None else None
    said = {} if own is None or timed is None else beside(own, timed, zone_known=True)[1]
    if timed is not None:
        for at, trace in enumerate(traces):
            if trace.info.kind == "tegrastats":
                traces[at], found = beside(trace, timed)
                traces[at] = _saying(traces[at], found)
                said = said or found
    yield from (_saying(trace, said) if trace is timed else trace for trace in traces)


def _saying(trace: Trace, said: dict[str, str]) -> Trace:
    return replace(trace, info=replace(trace.info, captured=(*trace.info.captured, *said.items()))) if said else trace
