"""The recordings that torch.profiler makes of one run: the rich one stands for it, the light one is a part of it."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct

from tracetui.parsers.errors import TraceError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tracetui.parsers.runs.manifest import RunManifest
    from tracetui.parsers.trace import Trace

LIGHT, RICH = "light", "rich"
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


def listed(rich: Path, light: Path, manifest: RunManifest | None) -> tuple[RecordedPass, ...]:
    """Both recordings of a run, in the order in which they were made."""
    said = manifest.measurement.passes if manifest is not None else ()
    steps = {recorded.name: recorded.steps for recorded in said}
    return tuple(RecordedPass(name, path, steps.get(name)) for name, path in ((LIGHT, light), (RICH, rich)))
