"""A run: the traces of one profiled run of a program, one per rank and tool."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from tracetui.parsers.errors import TraceError
from tracetui.parsers.progress import Progress, Watch
from tracetui.parsers.tool_registry import KINDS

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Sequence

    import pandas as pd

    from tracetui.parsers.runs.manifest import RunManifest
    from tracetui.parsers.runs.proofs import Proof
    from tracetui.parsers.trace import Trace

LIGHT, RICH, CAPTURE = "light", "rich", "capture"
"""Values of `Candidate.recorded_pass` and `TraceInfo.recorded_pass`."""


class RecordedPass(Struct, frozen=True):
    """One recording of a run."""

    name: str
    """`LIGHT` or `RICH`."""
    path: Path
    steps: int | None
    """How many steps run.json says it has; None where it does not say."""


class LightPass:
    """The light recording of a run; it is read when it is first asked for."""

    def __init__(self, path: Path, read: Callable[[], Trace]) -> None:
        self.path = path
        self.problem: str | None = None
        """Why it could not be read; null before it is asked for, and where it could."""
        self._read = read

    @cached_property
    def trace(self) -> Trace | None:
        """The recording; None where it can't be read."""
        try:
            return self._read()
        except TraceError as problem:
            self.problem = str(problem)
            return None

    def read(self) -> Trace | None:
        """`trace`, for those who ask later."""
        return self.trace


KEPT_RANKS = 4
"""How many ranks of a run that was not read whole stay in memory: the first, and those looked at last."""


def main_of(traces: Sequence[Trace]) -> Trace:
    """The first of the traces whose tool sees the most of the program."""
    return min(traces, key=lambda trace: KINDS.index(trace.info.kind))


@dataclass(frozen=True, slots=True)
class RankFile:
    """A recording of one rank of a run; it may not have been read."""

    path: Path
    rank: int
    kind: str
    """What reads it (`detect.Candidate.kind`)."""
    world_size: int | None = None
    recorded_pass: str | None = None
    """``light`` or ``rich``, where the file or its folder says so."""
    read: Callable[[Watch], Trace] | None = field(default=None, compare=False, repr=False)
    """Reads it, with what its run says of it."""


@dataclass(frozen=True)
class Run:
    """The traces of one profiled run, one per rank and tool."""

    path: Path
    traces: tuple[Trace, ...]
    warnings: tuple[str, ...] = ()
    """Files of the folder that could not be read, and what went wrong when the run was made, one line each."""
    others: tuple[tuple[str, tuple[Path, ...]], ...] = field(default=())
    """Other runs found in the same folder: (name, files)."""
    manifest: RunManifest | None = None
    """What `tracetui profile` says of the run, where it launched it."""
    place: int = 0
    """Where it stands among the runs of its folder: that many of `others` come before it."""
    light_pass: LightPass | None = None
    """The light recording of the run, not among `traces`; it is read when it is asked for."""
    rank_files: tuple[RankFile, ...] = ()
    """Every recording of its ranks, light ones too. Of a job of many ranks, `traces` has only those that were read."""
    proofs: tuple[Proof, ...] = ()
    """What `tracetui try` measured of it."""
    cached: bool = True
    """Whether the user's cache may be used and filled."""
    summaries_in: Path | None = None
    """The folder with summaries of its ranks, where nothing else is here; `traces` is then one without a row."""
    whole: Run | None = None
    """The run that this is one rank of, where that rank alone was asked for."""

    @property
    def name(self) -> str:
        """What a person calls this run: the file or folder name without its suffixes."""
        name = self.path.name or str(self.path)
        if name.startswith("repeat-"):  # of a point of a sweep, which has many of that name
            name = f"{self.path.parent.name}/{name}"
        for suffix in (".gz", ".json", ".trace", ".pt", ".sqlite", ".csv", ".pickle"):
            name = name.removesuffix(suffix)
        return name

    @property
    def main(self) -> Trace:
        """The trace whose time line the run is shown by: that of the tool that sees the most of the program."""
        return main_of(self.traces)

    @property
    def light(self) -> Trace | None:
        """The trace of the run's light pass, whose times are nearest to those of the program; `main` has the names.

        None where it has none, or it can't be read (`LightPass.problem`). Reads the file when first asked.
        """
        if self.main.light is not None:
            return self.main.light()
        return None if self.light_pass is None else self.light_pass.trace

    @property
    def passes(self) -> tuple[RecordedPass, ...]:
        """Both recordings that torch.profiler made of this run, in order; empty where there is one."""
        if self.light_pass is None:
            return ()
        of_rank = (one.path for one in self.rank_files if (one.rank, one.recorded_pass) == (self.main.info.rank, LIGHT))
        light = next(of_rank, self.light_pass.path)
        made = self.manifest.measurement.passes if self.manifest is not None else ()
        steps = {recorded.name: recorded.steps for recorded in made}
        named = ((LIGHT, light), (RICH, self.main.source.path))
        return tuple(RecordedPass(name, path, steps.get(name)) for name, path in named)

    def of_kind(self, kind: str) -> tuple[Trace, ...]:
        """The traces of one kind (`TraceInfo.kind`), in order."""
        return tuple(trace for trace in self.traces if trace.info.kind == kind)

    @property
    def ranks(self) -> tuple[int, ...]:
        """The distributed ranks present, ascending, whether or not they were read."""
        read = {trace.info.rank for trace in self.traces if trace.info.rank is not None}
        return tuple(sorted(read.union(file.rank for file in self.rank_files)))

    @property
    def unread(self) -> tuple[int, ...]:
        """The ranks whose recordings were not read, ascending."""
        read = {trace.info.rank for trace in self.traces}
        return tuple(rank for rank in self.ranks if rank not in read)

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that open this run again: those of its traces, and of the ranks that were not read."""
        unread = set(self.unread)
        later = (file.path for file in self.rank_files if file.rank in unread and file.recorded_pass != LIGHT)
        return (*(trace.source.path for trace in self.traces), *later)

    def with_rank(
        self,
        rank: int,
        progress: Callable[[Progress], None] | None = None,
        cancel: threading.Event | None = None,
    ) -> Run:
        """The run with a rank's recordings among its traces; of those added before, only the last ones stay.

        Args:
            rank: which one; nothing happens where it was read, or is not here.
            progress: as for `open_path`.
            cancel: as for `open_path`.

        Raises:
            TraceError: they can't be read.
            Cancelled: reading was stopped before anything was read.
        """
        files = [file for file in self.rank_files if file.rank == rank and file.recorded_pass != LIGHT]
        if rank not in self.unread or not files:
            return self
        watch = Watch(progress, cancel)
        added = tuple(file.read(watch) for file in files if file.read is not None)
        held = list(dict.fromkeys(trace.info.rank for trace in self.traces if trace.info.rank is not None))
        dropped = held[1 : max(1, len(held) + 2 - KEPT_RANKS)]
        return replace(self, traces=(*(one for one in self.traces if one.info.rank not in dropped), *added))

    def to_pandas(self) -> list[dict[str, pd.DataFrame]]:
        """Each trace's frames as pandas DataFrames."""
        return [trace.to_pandas() for trace in self.traces]


SWEEP_INDEX = "sweep.json"
MOST_ABOVE = 3
"""A run's folder is at most so far below its sweep's: ``batch=4,keep=0.1/repeat-2``."""


def sweep_folder(run: Run) -> Path | None:
    """The folder with a sweep's index around the run, else the one that all runs opened with it are in; else None."""
    start = run.traces[0].source.path.absolute().parent if run.traces else run.path.absolute()
    for folder in (start, *start.parents[:MOST_ABOVE]):
        if (folder / SWEEP_INDEX).is_file():
            return folder
    if not run.others:
        return run.path if run.path.is_dir() and len(run.of_kind(run.main.info.kind)) > 1 and not run.ranks else None
    files = [trace.source.path for trace in run.traces] + [file for _, paths in run.others for file in paths]
    return Path(os.path.commonpath([file.absolute().parent for file in files]))
