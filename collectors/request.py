"""What the user asked `tracetui profile` to do, with every choice made that does not depend on the machine.

A sweep is several runs that differ in some options: one folder per point, and an index of the folders.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

TOOLS = ("torch", "nsys", "ncu", "memory")
"""The tools in the order in which ``all`` runs them: the first trace decides which kernels ncu measures."""


class ProfileError(Exception):
    """The requested run is not possible; the text is one line for the user."""


@dataclass(frozen=True)
class ProfileRequest:
    """The request for one profiled run."""

    output: Path
    """The final path of the run's folder."""
    entry: str | None = None
    """A name of `tracetui reference models`, ``timm:NAME`` or ``module.path:factory``; None for the user's command."""
    command: tuple[str, ...] = ()
    """The user's own program, word by word."""
    tools: tuple[str, ...] = ("torch",)
    options: dict[str, Any] = field(default_factory=dict)
    """Options for building the model: batch, img_size, dtype, …"""
    device: str = "cuda"
    """``cpu``, ``cuda`` or ``cuda:1``"""
    steps: int = 3
    """How many steps are recorded."""
    warmup: int = 3
    """How many steps run before that, without a profiler."""
    clean_steps: int = 10
    """How many steps in between are timed without a profiler."""
    light_steps: int = 10
    """On a GPU, how many steps torch.profiler records lightly before the recording with all; 0 for none."""
    sample_seconds: float = 0.0
    """How long steps go on at most while a sampler looks at the program's stacks from outside; 0 for none."""
    ranks: int = 1
    """How many processes run the model, each a rank of one job; more than one share its work by option ``parallel``."""
    with_stack: bool = True
    with_memory: bool = False
    window: tuple[float, float] | None = None
    """For a program without optimizer steps: when recording starts and how long it lasts, s."""
    timeout_s: float | None = None
    """How long all of it may take; None for no limit."""
    ncu_launches: int = 200
    """The most launches that Nsight Compute measures, since it replays each some dozen times."""
    memory_entries: int = 100_000
    """How many events of the allocator's history are kept."""
    python: str = sys.executable
    typed: tuple[str, ...] = ()
    """The command line, for run.json."""

    @property
    def name(self) -> str:
        """What is profiled, in words for the user."""
        return self.entry or " ".join(self.command)


INDEX, SCHEMA = "sweep.json", "tracetui.sweep-index/1"


@dataclass(frozen=True)
class Axis:
    """An option and the values it takes."""

    name: str
    values: tuple[object, ...]


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
    """Writes which folder is which point and how each run ended; rewritten after every run."""
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
