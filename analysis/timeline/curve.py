"""One sampled metric over time: the mean of any stretch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tracetui.analysis.base.intervals import Ints

    Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Curve:
    """One metric of one GPU over time."""

    device: int
    name: str
    unit: str
    """``%``, ``MHz``, …; may be empty."""
    time: Ints
    """Ascending, ns on the trace's clock; a sample is about the time since the one before it."""
    value: Floats

    def __post_init__(self) -> None:
        """Adds up once, so that any stretch is fast."""
        running = np.append(0.0, np.cumsum(self.value[1:] * np.diff(self.time)))
        object.__setattr__(self, "_running", running)

    @property
    def top(self) -> float:
        """The value that a full cell stands for: 100 for a share, else the largest."""
        return 100.0 if self.unit == "%" else float(self.value.max(initial=0.0))

    def means(self, edges: Ints) -> Floats:
        """The mean in each cell between these ascending edges, over the time that samples cover; NaN where none do."""
        at = np.clip(edges, self.time[0], self.time[-1])
        running: Floats = self._running  # type: ignore[attr-defined]
        sums, covered = np.diff(np.interp(at, self.time, running)), np.diff(at).astype(np.float64)
        means: Floats = np.divide(sums, covered, out=np.full(sums.size, np.nan), where=covered > 0)
        return means
