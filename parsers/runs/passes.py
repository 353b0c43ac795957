"""Finds which light recording belongs to which run, by what the files say of themselves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tracetui.parsers.errors import TraceError
from tracetui.parsers.runs.detect import inspect
from tracetui.parsers.runs.light_pass import LIGHT, RICH

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tracetui.parsers.runs.detect import Candidate
    from tracetui.parsers.runs.manifest import RunManifest


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
