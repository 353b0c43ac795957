"""Messages from views to the application, which has a handler for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from pathlib import Path

    from tracetui.analysis.findings.core.finding import Query


@dataclass
class OpenRuns(Message):
    """Shows a run, or two to compare, and goes to the tab for that."""

    a: Path
    b: Path | None = None


@dataclass
class ShowEvidence(Message):
    """Goes to the rows that a finding rests on, with a way back to the finding."""

    query: Query


@dataclass
class ShowRank(Message):
    """Shows a rank of the run in view: its overview, or its timeline where one of its kernels began."""

    rank: int
    began: int | None = None
    """Of the kernel, as the rank's summary has it."""
