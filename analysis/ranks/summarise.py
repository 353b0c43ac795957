"""From one rank's recording to its summary: one function for each frame, and the header.

Pure, and cheap beside reading the file: no call tree, no attribution and no other recording is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from tracetui.analysis.gpu.steps import extent
from tracetui.analysis.ranks.calls import collective_rows, group_rows
from tracetui.analysis.ranks.environment import device_name, environment
from tracetui.analysis.ranks.kernels import kernel_rows
from tracetui.analysis.ranks.steps import step_rows
from tracetui.analysis.ranks.summary import RankSummary
from tracetui.analysis.ranks.work import work_rows

if TYPE_CHECKING:
    from tracetui.parsers import Trace
    from tracetui.parsers.runs.manifest import RunManifest

_TIMES = ("begin", "end", "launched")


def summarise(
    trace: Trace,
    path: str = "",
    *,
    rank: int | None = None,
    recorded_pass: str | None = None,
    manifest: RunManifest | None = None,
) -> RankSummary:
    """What is kept of a recording.

    Args:
        trace: the recording.
        path: what it is called in its job; its file's name by default.
        rank: which rank it is, where the recording does not say; 0 for a job that has no ranks.
        recorded_pass: which recording of its run it is, where it does not say itself.
        manifest: the run.json beside it.
    """
    info = trace.info
    known = info.rank if info.rank is not None else rank
    groups = group_rows(trace)
    named = max((max(ranks) + 1 for _, _, ranks in groups if ranks), default=None)
    window = extent(trace)
    shift = info.base_time or 0
    return RankSummary(
        steps=_shifted(step_rows(trace), shift),
        collectives=_shifted(collective_rows(trace), shift),
        work=work_rows(trace),
        kernels=kernel_rows(trace),
        path=path or trace.source.path.name,
        rank=0 if known is None else known,
        world_size=info.world_size if info.world_size is not None else named,
        host=None if manifest is None else manifest.host_of(known),
        device=device_name(trace),
        tool=info.tool,
        recorded_pass=info.recorded_pass or recorded_pass,
        absolute=info.base_time is not None,
        window=None if window is None else (window[0] + shift, window[1] + shift),
        groups=groups,
        clean_step_ns=trace.clean_step_ns or (manifest.clean_steps(known) if manifest is not None else ()),
        environment=environment(trace, manifest, known),
        notes=trace.notes,
    )


def _shifted(frame: pl.DataFrame, shift: int) -> pl.DataFrame:
    """The frame with its times on the clock that begins `shift` ns earlier."""
    return frame.with_columns(pl.col(name) + shift for name in _TIMES if name in frame.columns)
