"""How a rule is declared: its needs, the bases that it rests on, its thresholds; and the registry of all rules."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

if TYPE_CHECKING:
    from collections.abc import Callable

    from tracetui.analysis.findings.core.change import Change

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


class Rule(Struct, frozen=True):
    """One rule and how to call it."""

    id: str
    title: str
    """What it looks for, in a few words."""
    subject: str
    needs: tuple[str, ...]
    """Names that `Facts.missing` knows; if one is missing, the rule abstains."""
    rests_on: tuple[str, ...]
    """Keys of `BASES`."""
    thresholds: dict[str, Threshold]
    advice: str
    look: Callable[..., Any]
    """``look(facts, limits) -> Finding, findings, Abstention or None``; ``limits.NAME`` is a threshold's value."""
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

    @property
    def finds_several(self) -> bool:
        """Whether it may find several things in one run, such as kernels, as its function's annotation says."""
        return re.search("Iterator|list", str(inspect.signature(self.look).return_annotation)) is not None


class Limits(Struct, frozen=True):
    """A rule's thresholds as attributes; a value that the user set replaces the default."""

    values: dict[str, float] = field(default_factory=dict)

    def __getattr__(self, name: str) -> float:
        try:
            return self.values[name]
        except KeyError:
            raise AttributeError(name) from None


REGISTRY: dict[str, Rule] = {}
"""Every rule by its id, in the order of their declaration."""


def rule(
    id: str,
    title: str,
    *,
    needs: tuple[str, ...] = (),
    rests_on: tuple[str, ...] = (),
    thresholds: dict[str, Threshold] | None = None,
    advice: str = "",
    subject: str = "run",
    refutes: tuple[str, ...] = (),
    doubts: tuple[str, ...] = (),
    remark: str = "",
    source: str = "",
    changes: tuple[Change, ...] = (),
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declares a rule; the function's docstring is its explanation in docs/reference/rules.md."""
    unknown = (set(rests_on) | set(refutes) | set(doubts)) - set(BASES)
    if unknown or subject not in SUBJECTS:
        raise ValueError(f"rule {id}: {unknown or subject} is not known")

    def declare(look: Callable[..., Any]) -> Callable[..., Any]:
        if id in REGISTRY:
            raise ValueError(f"rule {id} is declared twice")
        REGISTRY[id] = Rule(
            id,
            title,
            subject,
            needs,
            rests_on,
            thresholds or {},
            advice,
            look,
            refutes,
            doubts,
            remark,
            source,
            changes,
        )
        return look

    return declare
