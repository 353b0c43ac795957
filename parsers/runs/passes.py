"""The recordings that torch.profiler makes of one run: the rich one stands for it, the light one is a part of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from tracetui.parsers.errors import TraceError
from tracetui.parsers.runs.detect import inspect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tracetui.parsers.runs.detect import Candidate
    from tracetui.parsers.runs.manifest import RunManifest
    from tracetui.parsers.trace import Trace

LIGHT, RICH = "light", "rich"
"""Values of `Candidate.recorded_pass` and `TraceInfo.recorded_pass`."""


@dataclass(frozen=True, slots=True)
class RecordedPass:
    """One recording of a run."""

    name: str
    """`LIGHT` or `RICH`."""
    path: Path
    steps: int | None
    """How many steps run.json says it has; null where it does not say."""


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


def set_aside(found: Iterable[Candidate]) -> tuple[list[Candidate], dict[Path, Candidate]]:
    """The files that stand for themselves, and of those that don't, the light recording of each rich one's path.

    A light recording belongs to the rich one of the same run in the same folder; without one it stands for itself.
    """
    files = list(found)
    rich = {_key(file): file.path for file in reversed(files) if file.recorded_pass == RICH and file.run_id}
    lights: dict[Path, Candidate] = {}
    for file in files:
        if file.recorded_pass == LIGHT and _key(file) in rich:
            lights.setdefault(rich[_key(file)], file)
    aside = {file.path for file in lights.values()}
    return [file for file in files if file.path not in aside], lights


def _key(file: Candidate) -> tuple[Path, str | None, int | None]:
    return file.path.parent, file.run_id, file.rank


def light_beside(files: Sequence[Candidate], manifest: RunManifest | None) -> Candidate | None:
    """The light recording that run.json names, of a run of which only some files were given; None where it has none."""
    if manifest is None:
        return None
    for recorded in manifest.measurement.passes:
        name = recorded.file or ""
        path = files[0].path.parent / name
        if recorded.name != LIGHT or not name or Path(name).name != name or not path.is_file():
            continue
        try:
            light = inspect(path)
        except TraceError:
            continue
        if set_aside([*files, light])[1] and light.path not in {file.path for file in files}:
            return light
    return None


def listed(rich: Path, light: Path, manifest: RunManifest | None) -> tuple[RecordedPass, ...]:
    """Both recordings of a run, in the order in which they were made."""
    said = manifest.measurement.passes if manifest is not None else ()
    steps = {recorded.name: recorded.steps for recorded in said}
    return tuple(RecordedPass(name, path, steps.get(name)) for name, path in ((LIGHT, light), (RICH, rich)))
