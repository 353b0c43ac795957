"""Builds evidence from the values that are known."""

from __future__ import annotations

from typing import Any

from tracetui.analysis.findings.core.finding import Evidence


def known(*told: tuple[Any, ...]) -> tuple[Evidence, ...]:
    """Builds evidence from tuples of label, value, unit and query; leaves out those without a value."""
    return tuple(Evidence(*one) for one in told if one[1] is not None)
