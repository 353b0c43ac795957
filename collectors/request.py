"""What the user asked `tracetui profile` to do, with everything decided that can be decided without the machine."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

TOOLS = ("torch", "nsys", "ncu", "memory")
"""What can record, in the order in which ``all`` runs them: the first trace picks the kernels that ncu measures."""


class ProfileError(Exception):
    """The run can't be made as asked; the text is one line for the person who asked."""


@dataclass(frozen=True)
class ProfileRequest:
    """One profiled run."""

    output: Path
    """The run's folder when it is finished."""
    entry: str | None = None
    """A name of `tracetui models`, ``timm:NAME`` or ``module.path:factory``; null for a command of the user's own."""
    command: tuple[str, ...] = ()
    """The user's own program, word by word."""
    tools: tuple[str, ...] = ("torch",)
    options: dict[str, Any] = field(default_factory=dict)
    """What the entry is built with: batch, img_size, dtype, …"""
    device: str = "cuda"
    """``cpu``, ``cuda`` or ``cuda:1``"""
    steps: int = 3
    """Steps that are recorded."""
    warmup: int = 3
    """Steps before, without a profiler."""
    clean_steps: int = 5
    """Steps between, timed without a profiler."""
    with_stack: bool = True
    with_memory: bool = False
    window: tuple[float, float] | None = None
    """Of a program without optimizer steps: when recording begins and how long it lasts, s."""
    ncu_launches: int = 200
    """The most launches that Nsight Compute measures: each is replayed some dozen times."""
    memory_entries: int = 100_000
    """The allocator's history: so many events are kept."""
    python: str = sys.executable
    typed: tuple[str, ...] = ()
    """The command line, for run.json."""

    @property
    def name(self) -> str:
        """What the run is of, for a person."""
        return self.entry or " ".join(self.command)
