"""How far a run has come and how it ended, as those hear who launched it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Tick:
    """How far a run has come."""

    tool: str
    phase: str
    """``building``, ``warm-up``, ``clean``, ``light``, ``profiling``, ``writing``, ``exporting``"""
    step: int = 0
    of: int = 0
    elapsed_s: float = 0.0
    power: dict[str, Any] | None = None
    """The newest sample of the machine's state (`parsers.runs.manifest.PowerState`)."""


@dataclass
class Outcome:
    """How a run ended."""

    status: str
    """``finished``, ``failed`` or ``interrupted``"""
    folder: Path
    exit_code: int = 0
    problems: list[str] = field(default_factory=list)
    """What went wrong or was left out, one line each."""


class Follower:
    """Reads what the child adds to its progress file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = path.stat().st_size if path.exists() else 0

    def newest(self, known: Tick) -> Tick:
        """The state that the last complete new line reports; the previous one if there is no new line."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._at)
                text = file.read()
        except OSError:
            return known
        lines, _, _ = text.rpartition(b"\n")
        if not lines:
            return known
        self._at += len(lines) + 1
        try:
            said = json.loads(lines.splitlines()[-1])
            return Tick(known.tool, str(said["phase"]), int(said["step"]), int(said["of"]))
        except (ValueError, KeyError, TypeError):
            return known
