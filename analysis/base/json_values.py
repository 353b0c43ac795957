"""Converts values to those of the report's JSON: ns become µs, and what is not a number becomes null."""

from __future__ import annotations

import math
from typing import Any

from msgspec import Meta

Json = dict[str, Any]
"""A JSON object of the report."""


def us(ns: float | None) -> float | None:
    """µs of a time in ns; unknown stays unknown."""
    return None if ns is None else known(ns / 1000)


def known(value: float | None) -> float | None:
    """The value, or null where it is not a number: JSON has no NaN, and a reader expects null."""
    return value if value is not None and math.isfinite(value) else None


def key_of(column: str) -> str:
    """The report's key for a frame's column: ns become µs."""
    if column == "ns":
        return "us"
    return column.removesuffix("_ns") + "_us" if column.endswith("_ns") else column


def share_of(whole: str) -> Meta:
    """Says in the JSON schema what a percentage is of."""
    return Meta(description=f"% of {whole}")
