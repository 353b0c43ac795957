"""What a rule returns: findings with their evidence, or the reason why it can't judge."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from tracetui.parsers.arrays import Ints

if TYPE_CHECKING:
    from collections.abc import Callable

    from tracetui.analysis.attribution.place import Place
    from tracetui.analysis.base.intervals import Intervals
    from tracetui.analysis.dependencies.costs import Costs
    from tracetui.analysis.dependencies.model import Model
    from tracetui.analysis.findings.core.change import Given
    from tracetui.parsers.runs.proofs import Claim, Proof

Severity = Literal["invalid", "critical", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = ("invalid", "critical", "warning", "info")
"""Worst first: ``invalid`` refutes the measurement itself."""


HEADLINE, NO_ACT = "the headline says it", "it leads to no act"
"""What sets a finding aside that the headline says too, or that leads to no act."""


class Query(Struct, frozen=True):
    """Where to find the rows that prove a finding."""

    tab: str
    """Id of a tab, as in `app/tabs.py`: ``kernels``, ``operators``, ``host``, …"""
    filter: str = ""
    """Filter for that tab's table, in the language of ``/`` (docs/guide.md)."""
    row: str = ""
    """Name of the row to put the cursor on."""


class Evidence(Struct, frozen=True):
    """One number or word that a finding rests on."""

    label: str
    value: float | int | str
    unit: str = ""
    """``ns`` (printed in a readable unit), ``%``, ``byte``, ``byte/s``, ``FLOP``, …; empty for counts and words."""
    query: Query | None = None


class Turn(Struct, frozen=True, eq=False):
    """A change as a replay makes it, so that it can be made after others."""

    change: Callable[[Model, Costs], Costs]
    """New costs of old ones, at most."""
    gone: Intervals | None = None
    """Time of the host that it takes away besides, on the trace's clock: of two changes, what both take goes once."""
    only: Model | None = None
    """The model whose costs it changes; None if it changes those of any."""
    part: float = 1.0
    """What of the change can be had, where something limits it that the replay does not know."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a rule found: what it is, how much it costs, why we think so, and what to try."""

    severity: Severity
    title: str
    """One sentence with its main number: "Waits for the CPU: the GPU is idle 97 % of the step"."""
    evidence: tuple[Evidence, ...]
    formula: str
    """How the number was computed, with the values filled in: "3.1 ms busy of 106.4 ms = 2.9 %"."""
    threshold: str = ""
    """The threshold that it was compared with: "idle above 40 %"; by default what its rule declares."""
    advice: str = ""
    """What to do about it; by default what its rule declares."""
    id: str = ""
    """Its rule's; the engine fills it in."""
    impact_ns: float | None = None
    """Time per step that is at stake; None if the finding is not about time, or the time is unknown."""
    least_ns: float | None = None
    """The lower end of that time, as far as the host's time is known; None where it is not."""
    after_ns: float | None = None
    """What it gains at most once all findings above it are made; None where that is not known."""
    impact_of: Literal["step", "mean_step"] = "step"
    """What both are of: the typical step, or where steps are not alike the mean of all."""
    ceiling_percent: float | None = None
    """The most that the step time could fall if this cost vanished (Amdahl); None if unknown."""
    sure_percent: float | None = None
    """The part of the step that is gained whatever recording cost the host; None where that is not known."""
    next_command: str = ""
    """A command to copy and run next; may be empty."""
    changes: tuple[Given, ...] = ()
    """Options of the run that do what it advises; `next_command` is the run with the first of them."""
    proofs: tuple[tuple[Proof, Claim], ...] = ()
    """What `tracetui try` measured of these changes, and what this finding promised then."""
    reference: str = ""
    """Where the rule is explained: a section of docs/reference/rules.md, or a tool that has the same rule."""
    remarks: tuple[str, ...] = ()
    """Remarks that rules on the measurement added, those that say why it may not hold first."""
    refutes: tuple[str, ...] | None = None
    """For a finding on the measurement: the bases that it refutes, where they are not those of its rule."""
    doubts: tuple[str, ...] | None = None
    """The bases that it doubts, where they are not those of its rule."""
    first: bool = False
    """Whether it is about a mode for debugging: everything else was measured under it, so it stands first."""
    aside: str = ""
    """`HEADLINE` or `NO_ACT`, by which it is set aside; else empty."""
    shared_with: tuple[str, ...] = ()
    """Ids of the findings that count much of the same time (`engine.sharing`)."""
    doubted_by: tuple[str, ...] = ()
    """Ids of the rules because of which it may not hold."""
    work: Ints | None = field(default=None, compare=False, repr=False)
    """Rows of the device frame that it is about; None if it is not about certain GPU work."""
    where: tuple[Place, ...] = field(default=(), compare=False, repr=False)
    """Where in the program its work is launched, or the host's time goes that it would spare: the most time first."""
    turn: Turn | None = field(default=None, compare=False, repr=False)
    """Its change, for replays of several; None where no replay tells its gain."""
    host: Intervals | None = field(default=None, compare=False, repr=False)
    """The host's time that it would spare, on the recording's clock; None if it spares none, or it is not known."""


class Abstention(Struct, frozen=True):
    """A rule that could not judge because its evidence is missing."""

    missing: str
    """What is missing, and how to record it."""
    id: str = ""
    """Its rule's; the engine fills it in."""


class Suppressed(Struct, frozen=True):
    """A finding that rests on something a validity rule refuted, that says nothing new, or that the user silenced."""

    finding: Finding
    by: str
    """Id of the validity rule or of the more particular one, `HEADLINE`, `NO_ACT`, or the user's reason."""


@dataclass(frozen=True, slots=True)
class Findings:
    """Everything that the rules returned for a run, a pair of runs or a sweep."""

    found: tuple[Finding, ...]
    """In the order of `engine.place`."""
    suppressed: tuple[Suppressed, ...] = ()
    silenced: tuple[Suppressed, ...] = ()
    abstained: tuple[Abstention, ...] = ()
    checked: tuple[str, ...] = ()
    """Ids of the rules that had what they need and ran."""

    @property
    def standing(self) -> tuple[Finding, ...]:
        """The findings, and those that are set aside because the headline says the same."""
        return (*self.found, *(each.finding for each in self.suppressed if each.by == HEADLINE))


def evidence(*items: Evidence | tuple[Any, ...]) -> tuple[Evidence, ...]:
    """Evidence, also from tuples of label, value, unit and query; leaves out what has no value."""
    present = (item for item in items if isinstance(item, Evidence) or item[1] is not None)
    return tuple(item if isinstance(item, Evidence) else Evidence(*item) for item in present)
