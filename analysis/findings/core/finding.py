"""What a rule says: findings with their evidence, or why it can't say anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["invalid", "critical", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = ("invalid", "critical", "warning", "info")
"""Worst first: ``invalid`` refutes the measurement itself."""


@dataclass(frozen=True, slots=True)
class Query:
    """Where the rows are that prove something."""

    tab: str
    """Id of a tab, as in `app/tabs.py`: ``kernels``, ``operators``, ``host``, …"""
    filter: str = ""
    """In the language of ``/`` (docs/guide.md): what to filter that tab's table by."""
    row: str = ""
    """Name of the row to put the cursor on."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """One number, or word, that a finding rests on."""

    label: str
    value: float | int | str
    unit: str = ""
    """``ns`` (printed in what reads best), ``%``, ``byte``, ``byte/s``, ``FLOP``, …; empty for counts and words."""
    query: Query | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """A colleague's remark: what, how much, why we think so, what to try."""

    id: str
    severity: Severity
    title: str
    """One sentence with its main number: "Waits for the CPU: the GPU is idle 97 % of the step"."""
    evidence: tuple[Evidence, ...]
    formula: str
    """How the number comes about, with the numbers put in: "3.1 ms busy of 106.4 ms = 2.9 %"."""
    threshold: str
    """What it was compared with: "idle above 40 %"."""
    advice: str
    impact_ns: float | None = None
    """Time per step that is at stake; null where it is no matter of time, or unknown."""
    ceiling_percent: float | None = None
    """The most that the step time could fall if this cost vanished (Amdahl); null where unknown."""
    next_command: str = ""
    """What to run next, to be copied; may be empty."""
    reference: str = ""
    """Where the rule is explained: a section of docs/rules.md, a tool that has the same rule."""
    remarks: tuple[str, ...] = ()
    """What validity rules add to it."""


@dataclass(frozen=True, slots=True)
class Abstention:
    """A rule without its evidence."""

    id: str
    missing: str
    """What is not there, and how to record it."""


@dataclass(frozen=True, slots=True)
class Suppressed:
    """A finding that rests on what a validity rule refutes, or that the user silenced."""

    finding: Finding
    by: str
    """Id of the validity rule, or the user's reason."""


@dataclass(frozen=True, slots=True)
class Findings:
    """Everything the rules said of a run, a pair of runs or a sweep."""

    found: tuple[Finding, ...]
    """Invalid first, then by impact, then by severity."""
    suppressed: tuple[Suppressed, ...] = ()
    silenced: tuple[Suppressed, ...] = ()
    abstained: tuple[Abstention, ...] = ()
    checked: tuple[str, ...] = ()
    """Ids of the rules that had what they need and looked."""
