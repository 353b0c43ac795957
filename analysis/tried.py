"""The changes that `tracetui try` measured of a run, side by side (`parsers.runs.proofs`)."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracetui.parsers.runs.proofs import Proof

AS_IT_WAS, BESIDE, TOGETHER = "as it was", "+", "together"
RESULTS = {"same": "same", "rounding": "rounding", "differ": "differ", "unknown": "not comparable"}
"""What is said of results, by `proofs.Compared.alike`."""
_SCHEMA = {
    "name": pl.String, "step_ns": pl.Float64, "gain_percent": pl.Float64, "low_percent": pl.Float64,
    "high_percent": pl.Float64, "rounds": pl.Int64, "memory_bytes": pl.Int64, "results": pl.String, "write": pl.String,
    "risk": pl.String, "problem": pl.String, "beside": pl.String,
}  # fmt: skip


def tried(proofs: Sequence[Proof]) -> pl.DataFrame:
    """The run as it was, then each change: the most gainful first, then those beside others, together, and failed."""
    measured = [each for each in proofs if each.gain_ns is not None and each.step_ns]
    measured.sort(
        key=lambda each: (
            len(each.changes) > 1, len(each.beside), each.beside, -(each.gain_ns or 0.0) / (each.step_ns or 1.0)
        )
    )  # fmt: skip
    rows = list(map(_row, measured))
    if alone := [each for each in measured if not each.beside]:
        known = [each.memory_bytes for each in alone if each.memory_bytes is not None]
        as_it_was = {
            "step_ns": statistics.median(each.step_ns or 0.0 for each in alone),
            "memory_bytes": max(known, default=None),
        }
        rows.insert(0, {"name": AS_IT_WAS, **as_it_was})
    rows += [{"name": _name(each), "problem": each.explanation} for each in proofs if each not in measured]
    return pl.DataFrame(rows, schema=_SCHEMA)


def _name(proof: Proof) -> str:
    if len(proof.changes) > 1:
        return f"{TOGETHER}: {proof.change}"
    return f"{BESIDE} {proof.change}" if proof.beside else proof.change or ""


def _row(proof: Proof) -> dict[str, object]:
    def percent(value: float | None) -> float | None:
        return None if value is None or not proof.step_ns else 100 * value / proof.step_ns

    alike = proof.compared.alike if proof.compared is not None else None
    return {
        "name": _name(proof),
        "step_ns": proof.changed_ns,
        "gain_percent": percent(proof.gain_ns),
        "low_percent": percent(proof.low_ns),
        "high_percent": percent(proof.high_ns),
        "rounds": proof.rounds,
        "memory_bytes": proof.changed_memory_bytes,
        "results": RESULTS.get(alike or ""),
        "write": "; ".join(proof.write) or None,
        "risk": "; ".join(proof.risks) or None,
        "beside": ", ".join(proof.beside) or None,
    }
