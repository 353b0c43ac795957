"""Makes several runs that differ in some options: one folder per point, and an index of the folders."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tracetui.collectors.request import ProfileRequest

INDEX, SCHEMA = "sweep.json", "tracetui.sweep-index/1"


@dataclass(frozen=True)
class Axis:
    """An option and the values it takes."""

    name: str
    values: tuple[Any, ...]


@dataclass(frozen=True)
class Point:
    """One run of a sweep."""

    values: dict[str, Any]
    repeat: int
    """Counted from 1."""
    request: ProfileRequest


def points(request: ProfileRequest, axes: Sequence[Axis], repeats: int = 1) -> Iterator[Point]:
    """Returns the runs of a sweep, the last axis changing fastest; repeats are spread out, so that a drift shows.

    Every run has its own folder below the request's: ``batch=4,keep=0.1`` or ``batch=4,keep=0.1/repeat-2``.
    """
    for repeat in range(1, repeats + 1):
        for combination in itertools.product(*(axis.values for axis in axes)):
            values = dict(zip((axis.name for axis in axes), combination, strict=True))
            folder = request.output / ",".join(f"{name}={value}" for name, value in values.items())
            if repeats > 1:
                folder /= f"repeat-{repeat}"
            yield Point(values, repeat, replace(request, output=folder, options={**request.options, **values}))


def write_index(folder: Path, axes: Sequence[Axis], done: Sequence[tuple[Point, str]]) -> None:
    """Writes which folder is which point and how each run ended (`Outcome.status`); rewritten after every run."""
    index = {
        "schema": SCHEMA,
        "axes": [{"name": axis.name, "values": list(axis.values)} for axis in axes],
        "points": [
            {
                "values": point.values,
                "repeat": point.repeat,
                "folder": point.request.output.relative_to(folder).as_posix(),
                "status": status,
            }
            for point, status in done
        ],
    }
    scratch = folder / f"{INDEX}.partial"
    scratch.write_text(json.dumps(index, indent=1) + "\n")
    scratch.replace(folder / INDEX)
