"""The GPU work that a rank's recording launched itself and that is no collective.

Work queued before the recording began is another step's; a rank that ran ahead has more of it than one that came late.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from msgspec import Struct

from tracetui.analysis.base import names
from tracetui.analysis.base.conventions import is_collective_kernel
from tracetui.analysis.base.remembered import latest

if TYPE_CHECKING:
    from tracetui.analysis.base.intervals import Ints
    from tracetui.parsers import Trace

WORK_KINDS = ("kernel", "memcpy", "memset", "graph")


class OwnWork(Struct, frozen=True):
    """Device rows in the order of their launch."""

    row: Ints
    launched: Ints
    duration: Ints


@latest
def own_work(trace: Trace) -> OwnWork:
    """What this rank launched within its recording, without collectives; of its steps where it has some."""
    frame = trace.device
    chosen = (frame["kind"].is_in(list(WORK_KINDS)) & frame["launch"].is_not_null()).to_numpy()
    if trace.steps.height:
        chosen &= frame["step"].is_not_null().to_numpy()
    if chosen.any():
        chosen &= ~names.matching(frame["name"], is_collective_kernel)
    rows = np.flatnonzero(chosen)
    launch = frame["launch"].cast(pl.Int64).fill_null(-1).to_numpy()[rows]
    launched = trace.host["start"].to_numpy()[launch]
    order = np.argsort(launched, kind="stable")
    duration = frame["duration"].fill_null(0).to_numpy()[rows]
    return OwnWork(rows[order], launched[order], duration[order])
