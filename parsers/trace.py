"""The one data model: a Trace is six frames and their context, whatever tool wrote the file."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from tracetui.parsers import schema
from tracetui.parsers.tool_registry import WITHOUT_TIME_LINE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pandas as pd
    import polars as pl


FRAMES = ("steps", "host", "device", "memory", "counters", "collectives")


@dataclass(frozen=True, slots=True)
class Note:
    """Something that the parser skipped, repaired, or found missing."""

    kind: str
    """``skipped`` (the event is lost), ``repaired`` (kept, but changed) or ``missing`` (something was not there)."""
    reason: str
    count: int
    example: str = ""


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """One GPU, as the trace describes it; null where it does not."""

    id: int
    name: str | None = None
    compute_capability: str | None = None
    """Of an NVIDIA GPU."""
    architecture: str | None = None
    """Of an AMD GPU: ``gfx942``, an x where the file doesn't tell the end."""
    sm_count: int | None = None
    """SMs; of an AMD GPU compute units."""
    memory_bytes: int | None = None
    max_threads_per_sm: int | None = None
    warp_size: int | None = None
    registers_per_sm: int | None = None
    shared_memory_per_sm: int | None = None
    max_blocks_per_sm: int | None = None
    clock_hz: int | None = None
    """The highest clock of the SMs."""
    memory_bandwidth: int | None = None
    """What its DRAM can move at most, byte/s."""


@dataclass(frozen=True, slots=True)
class ProcessGroup:
    """Ranks that communicate with each other."""

    name: str
    description: str | None = None
    size: int | None = None
    ranks: tuple[int, ...] = ()
    """Empty where they are not recorded whole."""


@dataclass(frozen=True, slots=True)
class TraceInfo:
    """Where a trace comes from and how it was captured."""

    kind: str
    """One of `tool_registry.KINDS`."""
    tool: str
    tool_version: str | None = None
    rank: int | None = None
    world_size: int | None = None
    devices: tuple[DeviceInfo, ...] = ()
    captured: tuple[tuple[str, str], ...] = ()
    """Capture settings and versions that the file records, in its own words."""
    window: tuple[int, int] | None = None
    """Start and duration of the recording, ns."""
    base_time: int | None = None
    """Unix time of the trace's zero, ns."""
    processes: tuple[tuple[int, str], ...] = ()
    threads: tuple[tuple[int, int, str], ...] = ()
    """(process, thread, name)"""
    run_id: str | None = None
    """Which run of `tracetui profile` it is of (`Identity.run_id` in run.json)."""
    recorded_pass: str | None = None
    """Which of that run's recordings by torch.profiler: ``light`` or ``rich`` (`manifest.Pass`), or a cut of one."""
    groups: tuple[ProcessGroup, ...] = ()
    """The process groups that this rank is in."""

    def device(self, number: int) -> DeviceInfo | None:
        """What the file says about a device; of one that it doesn't describe, what holds for all it does describe.

        Work may run on a device with another number than those described: a process that sees one GPU describes it as
        number 0.
        """
        found = next((device for device in self.devices if device.id == number), None)
        alike = {replace(device, id=number) for device in self.devices}
        return next(iter(alike)) if found is None and len(alike) == 1 else found


@dataclass(frozen=True, slots=True)
class Source:
    """The file behind a trace."""

    path: Path
    bytes: int
    """Size on disk."""
    events_total: int = 0
    """Every event object in the file, metadata and flows included."""
    events_parsed: int = 0
    partial: bool = False
    """Whether the user stopped loading before the end of the file."""


@dataclass(frozen=True, slots=True)
class MarkedBy:
    """The ranges that stand for steps in a trace whose profiler marked none."""

    name: str
    warm_up: int
    """How many of them, and of ranges that are called a warm-up, come before the first step and are no steps."""
    begins: int
    """When the first of all these begins: what comes before is the program's setup, ns."""
    asked: str | None = None
    """The name that the user gave for them; None where they were found."""


@dataclass(frozen=True, slots=True)
class Replays:
    """What the capture of CUDA and HIP graphs told of the kernels of their replays (`parsers.replays`)."""

    launches: int
    """Launches of graphs that have kernels."""
    pieces: int
    """How many graphs were captured."""
    kernels: int
    """All that were replayed."""
    matched: int
    """Those of them that a captured launch, or several, was found for."""
    ambiguous: int
    """Those of the matched ones that may be of several launches, which have not the same operator and modules."""
    by_order: int
    """Those whose name the capture doesn't tell: their place among the others decides."""
    incomplete: int
    """Launches of graphs that lack kernels of their graph."""
    ns: int
    """GPU time of all replayed kernels."""
    named_ns: int
    """GPU time of those matched that are not ambiguous."""
    ambiguous_ns: int
    by_order_ns: int
    """GPU time of those that have their place alone."""
    files: tuple[str, ...]
    """The names of the files with the captures."""
    by: str = "order"
    """How launches were found: by the ``order`` of names, for operators; or by the ``node`` of a graph, for ranges."""


@dataclass(frozen=True, kw_only=True)
class Trace:
    """Six frames (see ``parsers.schema``) and their context."""

    steps: pl.DataFrame = field(default_factory=partial(schema.empty, schema.STEPS))
    host: pl.DataFrame = field(default_factory=partial(schema.empty, schema.HOST))
    device: pl.DataFrame = field(default_factory=partial(schema.empty, schema.DEVICE))
    memory: pl.DataFrame = field(default_factory=partial(schema.empty, schema.MEMORY))
    counters: pl.DataFrame = field(default_factory=partial(schema.empty, schema.COUNTERS))
    collectives: pl.DataFrame = field(default_factory=partial(schema.empty, schema.COLLECTIVES))
    info: TraceInfo
    source: Source
    notes: tuple[Note, ...] = ()
    clean_step_ns: tuple[int, ...] = ()
    """The program's steps as timed without a profiler, ns; empty where the run has no run.json that says so."""
    clean_host_ns: tuple[int, ...] = ()
    """How long the host took to give each of them out, ns."""
    light: Callable[[], Trace | None] | None = None
    """Reads the light recording of the same run; None where there is none."""
    marked_by: MarkedBy | None = None
    """What stands for steps; None where the profiler marked them, or nothing does."""
    replays: Replays | None = None
    """What captures of graphs told of this recording's replays; None where it has none, or no capture is known."""

    @classmethod
    def empty(cls, info: TraceInfo, source: Source, notes: tuple[Note, ...] = ()) -> Trace:
        """A trace without a single row."""
        return cls(info=info, source=source, notes=notes)

    @property
    def has_timeline(self) -> bool:
        """Whether its events have a place in time: Nsight Compute's have durations only."""
        return self.info.kind not in WITHOUT_TIME_LINE

    def to_pandas(self) -> dict[str, pd.DataFrame]:
        """The six frames as pandas DataFrames, by name.

        Raises:
            ImportError: pandas or pyarrow is missing; ``pip install 'tracetui[pandas]'`` brings both.
        """
        try:
            importlib.import_module("pandas")
            importlib.import_module("pyarrow")
        except ImportError as error:
            raise ImportError("to_pandas needs pandas and pyarrow: pip install 'tracetui[pandas]'") from error
        return {name: getattr(self, name).to_pandas() for name in FRAMES}
