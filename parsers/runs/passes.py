"""Finds which light recording belongs to which run, by what the files say of themselves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tracetui.parsers.errors import TraceError
from tracetui.parsers.runs.detect import inspect
from tracetui.parsers.runs.light_pass import LIGHT, RICH

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tracetui.parsers.runs.detect import Candidate
    from tracetui.parsers.runs.manifest import RunManifest


def by_folder(found: Sequence[Candidate]) -> list[Candidate]:
    """The files, those in folders ``rich`` and ``light`` of one job marked as these recordings of their ranks.

    Nothing is marked where only one of the two folders is there, or files say themselves what they are.
    """
    ranks: dict[tuple[Path, str], set[tuple[int | None, int | None]]] = {}
    for file in found:
        ranks.setdefault((file.path.parent.parent, file.path.parent.name), set()).add((file.rank, file.world_size))

    def marked(file: Candidate) -> Candidate:
        job, name = file.path.parent.parent, file.path.parent.name
        other = LIGHT if name == RICH else RICH
        if name not in (LIGHT, RICH) or file.run_id or file.recorded_pass or file.rank is None:
            return file
        if file.kind != "chrome" or (file.rank, file.world_size) not in ranks.get((job, other), ()):
            return file
        return replace(file, recorded_pass=name, of_folder=job)

    return [marked(file) for file in found]


def set_aside(found: Iterable[Candidate]) -> tuple[list[Candidate], dict[Path, Candidate]]:
    """The files that stand for themselves, and of those that don't, the light recording of each rich one's path.

    A light recording belongs to the rich one of the same run in the same folder, or to that of the same rank in the
    folder ``rich`` beside its own; without one it stands for itself.
    """
    files = by_folder(list(found))
    rich = {_key(file): file.path for file in reversed(files) if file.recorded_pass == RICH and _run_of(file)}
    lights: dict[Path, Candidate] = {}
    for file in files:
        if file.recorded_pass == LIGHT and _key(file) in rich:
            lights.setdefault(rich[_key(file)], file)
    aside = {file.path for file in lights.values()}
    return [file for file in files if file.path not in aside], lights


def _key(file: Candidate) -> tuple[Path, str | None, int | None]:
    return file.of_folder or file.path.parent, file.run_id, file.rank


def _run_of(file: Candidate) -> Path | str | None:
    return file.of_folder or file.run_id


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
