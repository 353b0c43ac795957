"""How a rule is declared: its needs, the bases that it rests on, its thresholds, its advice; and what looks for it."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct, field

from tracetui.analysis.base.number_format import format_count, format_percent, three_digits

if TYPE_CHECKING:
    from collections.abc import Callable

    from tracetui.analysis.findings.declared.changes import Change

    Look = TypeVar("Look", bound=Callable[..., Any])

SUBJECTS = ("run", "pair", "sweep")
"""What a rule looks at: `facts.Facts`, `facts.Pair` or `facts.Sweep`."""
BASES = {
    "gpu": "what ran on the GPU",
    "host": "times of the host under the profiler",
    "shares": "shares of a whole",
    "whole": "the recording from beginning to end",
    "steps": "steps that all do the same work",
    "counters": "Nsight Compute's counters",
    "clock": "one clock speed during the run",
    "ranges": "how long ranges last on the host",
}
"""The bases that findings rest on and that validity rules refute or doubt."""


class Threshold(Struct, frozen=True):
    """A number that a rule compares with; users override it as ``[thresholds]`` ``"S2.late_percent" = 40``."""

    value: float
    unit: str
    about: str
    own: bool = False
    """Whether we chose the value ourselves; otherwise it comes from a tool or a vendor."""


def chosen(value: float, unit: str, about: str) -> Threshold:
    """A threshold whose value we chose ourselves."""
    return Threshold(value, unit, about, own=True)


class Limits(Struct, frozen=True):
    """A rule's thresholds as attributes; a value that the user set replaces the default."""

    values: dict[str, float] = field(default_factory=dict)

    def __getattr__(self, name: str) -> float:
        try:
            return self.values[name]
        except KeyError:
            raise AttributeError(name) from None


class Rule(Struct, frozen=True):
    """One rule: what it looks for, in what, against which numbers, and what to do then.

    Raises:
        ValueError: a base or the subject is not one of `BASES` or `SUBJECTS`.
    """

    id: str
    title: str
    """What it looks for, in a few words."""
    explanation: str
    """Paragraphs: how it judges, and why so."""
    subject: str = "run"
    needs: tuple[str, ...] = ()
    """Names of `needs.NEEDS`; if one is missing, the rule abstains."""
    rests_on: tuple[str, ...] = ()
    """Keys of `BASES`."""
    thresholds: dict[str, Threshold] = field(default_factory=dict)
    compared: str = ""
    """What its findings were compared with: "above {late_percent} of the step"; `compared_with` fills in the values."""
    advice: str = ""
    refutes: tuple[str, ...] = ()
    """For a rule on the measurement: the bases that it refutes. What rests on them is set aside."""
    doubts: tuple[str, ...] = ()
    """For a rule on the measurement: the bases that it doubts. What rests on them loses severity."""
    remark: str = ""
    """Why what rests on a base that it doubts may not hold."""
    source: str = ""
    """Another tool that has the rule, or where its numbers come from."""
    changes: tuple[Change, ...] = ()
    """Options of a run that do what it advises, the best first: the finding's command follows from them."""
    general: bool = False
    """Whether it says how much where other rules say what: set aside where one of them is about the same time."""
    part_of: tuple[str, ...] = ()
    """Rules whose advice makes this one's void: set aside where one of them is about most of its time."""
    limit: str = ""
    """The limit of a step that it is about (`dependencies.limit.Kind`): where that is the headline, it stands first."""
    several: bool = False
    """Whether it may find several things in one run, such as kernels."""

    def __post_init__(self) -> None:
        unknown = {*self.rests_on, *self.refutes, *self.doubts} - BASES.keys()
        if unknown or self.subject not in SUBJECTS:
            raise ValueError(f"rule {self.id}: {unknown or self.subject} is not known")

    @property
    def on_measurement(self) -> bool:
        """Whether it judges the recording: it is asked before the others, and nothing sets it aside."""
        return self.id.startswith("V")

    @property
    def paragraphs(self) -> list[str]:
        """The explanation, a line each."""
        return [" ".join(text.split()) for text in inspect.cleandoc(self.explanation).split("\n\n")]

    def limits(self, own: dict[str, float]) -> Limits:
        """Its thresholds, the user's own (by ``RULE.name``) where given."""
        return Limits({name: own.get(f"{self.id}.{name}", limit.value) for name, limit in self.thresholds.items()})

    def compared_with(self, limits: Limits) -> str:
        """`compared` with these values in it: percentages as such, other numbers with three digits."""
        return self.compared.format_map(
            {name: _Written(value, self.thresholds[name].unit) for name, value in limits.values.items()}
        )


class _Written(Struct, frozen=True):
    """A threshold's value in a text; Python's formats hold, and ``count`` for whole numbers."""

    value: float
    unit: str

    def __format__(self, form: str) -> str:
        if form == "count":
            return format_count(self.value)
        if form:
            return format(self.value, form)
        return format_percent(self.value) if self.unit == "%" else three_digits(self.value)


LOOKS: dict[str, Callable[..., Any]] = {}
"""By rule: ``look(facts, limits) -> Finding, findings, Abstention or None``; ``limits.NAME`` is a threshold's value."""


def looks_for(rule: Rule) -> Callable[[Look], Look]:
    """Marks the function that looks for what a rule declares.

    Raises:
        ValueError: another one does already.
    """

    def mark(look: Look) -> Look:
        if rule.id in LOOKS:
            raise ValueError(f"rule {rule.id} has two functions")
        LOOKS[rule.id] = look
        return look

    return mark
