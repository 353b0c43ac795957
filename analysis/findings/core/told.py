"""Evidence as far as it is known."""

from __future__ import annotations

from typing import Any

from tracetui.analysis.findings.core.finding import Evidence


def known(*told: tuple[Any, ...]) -> tuple[Evidence, ...]:
    """Evidence from label, value, unit and query each; what has no value is left out."""
    return tuple(Evidence(*one) for one in told if one[1] is not None)
