"""The nodes of the dependency graph: API calls and GPU work, as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tracetui.analysis.base.intervals import Ints

LEAST_ENDS = 3
"""With so many steps the first one is left out: nothing says when the one before it ended."""
NONE = -1


class Calls(Struct, frozen=True):
    """API calls of all threads in order of their start; a call inside another one is part of it."""

    row: Ints
    """Host row."""
    start: Ints
    end: Ints
    thread: Ints
    """Which thread made it, counted from 0."""
    before: Ints
    """The call whose end this one's host work follows, or -1: of its own thread, or of the one that handed over."""
    stretch: Ints
    """Host time from the end of that call to the start of this one, ns."""
    own: Ints
    """Where another thread handed over: the thread's own previous call, or -1."""
    kind: NDArray[np.int8]
    """`waits.FREE`, `waits.WAIT` or `waits.FULL`."""
    wait_from: Ints
    """Per call and one more: its slice of `waited`."""
    waited: Ints
    """Positions in `Work` of what the waiting calls waited for."""


@dataclass(frozen=True)
class Work:
    """GPU activities in order of their launch, those of one launch in order of their start."""

    row: Ints
    """Device row."""
    start: Ints
    end: Ints
    call: Ints
    """Position in `Calls` of the launch, or -1 where the recording doesn't say."""
    queued: Ints
    """The activity before it on its stream, or -1."""
    after: Ints
    """An activity of another stream that it waits for, or -1."""
    step: Ints
    """Row of the selection's steps whose host time holds the launch, or -1."""
    stream: Ints
    """Which stream of which GPU, counted from 0."""
