"""What `tracetui prove` is to measure, and what its child is told."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tracetui.collectors import profiler_commands

if TYPE_CHECKING:
    from pathlib import Path

TOOL = "prove"
"""As `child.script.TIMES`, and in the names of the files that the child reads and writes."""
WARMUP_S = 3.0
"""On a GPU each variant warms up for so long at least, as `tracetui profile` does."""
WARMUP_STEPS = 5
TURN_S = 3.0
"""How long a program of one's own is timed in each of its processes."""
ROUNDS, LEAST_ROUNDS = 12, 2
ROUNDS_OF_PROCESSES = 3
"""Rounds where each turn is a process, which must start and warm up."""
BLOCK_S = 0.15
"""The length of a turn in one process."""
COMPARED = 1 << 16
"""How many numbers of the results are compared."""


@dataclass(frozen=True)
class Claimed:
    """A finding that advises a change, and what it promises."""

    id: str
    bound_ns: float | None = None
    bound_percent: float | None = None
    sure_percent: float | None = None
    also: str = ""
    most_ns: float | None = None
    """Of all that the change does, where it is known."""


@dataclass(frozen=True)
class Trial:
    """One change to measure."""

    change: str
    """As options: ``--attention fused``."""
    options: dict[str, Any] = field(default_factory=dict)
    command: tuple[str, ...] = ()
    """Of a program of one's own: the changed command."""
    claims: tuple[Claimed, ...] = ()
    agrees: bool = True
    """Whether both variants compute the same, but for rounding."""

    @property
    def compares(self) -> bool:
        """Whether the results of both variants can be put side by side: they are of the same samples."""
        return not self.command and not {"batch", "workers", "data", "seed", "img_size", "ctx"} & self.options.keys()


@dataclass(frozen=True)
class ProveRequest:
    """What to measure of a run."""

    output: Path
    """The folder that gets the proofs."""
    trials: tuple[Trial, ...]
    entry: str | None = None
    """The run's model; None for a program of one's own."""
    options: dict[str, Any] = field(default_factory=dict)
    """The options that it ran with."""
    command: tuple[str, ...] = ()
    """The program as it was run."""
    device: str = "cuda"
    recorded_on: tuple[str, ...] = ()
    """The GPUs of the recording; empty where they are not known."""
    rounds: int | None = None
    timeout_s: float | None = None
    """For each process."""
    python: str = sys.executable

    @property
    def processes_rounds(self) -> int:
        """Rounds where each turn is a process."""
        return self.rounds or ROUNDS_OF_PROCESSES


def child_spec(request: ProveRequest, folder: Path, variants: list[dict[str, Any]], trial: Trial) -> dict[str, Any]:
    """What the child of a model reads: its variants take turns in its process.

    Args:
        request: what to measure.
        folder: the working folder.
        variants: the options of each.
        trial: the change.
    """
    both = len(variants) > 1
    return {
        **_common(request, folder),
        "registry": f"{profiler_commands.MODELS}.registry",
        "entry": request.entry,
        "variants": variants,
        "rounds": (request.rounds or ROUNDS) if both else 1,
        "block_s": BLOCK_S if both else TURN_S,
        "check": COMPARED if trial.compares else 0,
    }


def program_spec(request: ProveRequest, folder: Path, command: tuple[str, ...]) -> dict[str, Any]:
    """What the child of a program of one's own reads: it times one turn."""
    return {**_common(request, folder), "entry": None, "script": list(command), "block_s": TURN_S, "clean_steps": 0}


def _common(request: ProveRequest, folder: Path) -> dict[str, Any]:
    return {
        "run_id": "",
        "tool": TOOL,
        "out": str(folder),
        "progress": str(folder / profiler_commands.PROGRESS),
        "ranked": False,
        "device": request.device,
        "warmup": WARMUP_STEPS,
        "warmup_s": WARMUP_S,
    }


def words_of(request: ProveRequest, folder: Path) -> tuple[str, ...]:
    """The command line of the child."""
    program = folder / profiler_commands.PROGRAM
    return (
        request.python, "-u", str(program / profiler_commands.START),
        str(program / profiler_commands.SPEC.format(TOOL)),
    )  # fmt: skip


def with_change(options: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    """The options of the changed variant."""
    return {**options, **change}
