"""Matches what other tools measured of the kernels in view, once per session."""

from __future__ import annotations

import polars as pl

from tracetui.analysis.base.conventions import Conventions
from tracetui.analysis.matching.join import Joined, Measured, conventions_of, joined, kernel_counters_of
from tracetui.app.session.session import Session


def conventions(session: Session) -> Conventions:
    """Returns the conventions for numbers: if ncu measured a kernel, its counters tell whether it used tensor cores."""
    return session.cached("conventions", lambda: conventions_of(measured_of(session)))


def joined_with(session: Session, kind: str) -> list[Joined]:
    """Matches the recording in view with each recording of another tool, kernel by kernel."""
    return session.cached(("joined", kind), lambda: joined(session.runs["a"], session.trace(), kind))


def measured_as(session: Session, names: pl.Series) -> pl.Series:
    """How the counters spell kernels of the recording in view, by their names in it; null of those not measured."""
    if session.trace().info.kind == "ncu":
        return names
    matched = [pair.join.launches.filter(status="matched") for pair in joined_with(session, "ncu")]
    spelled = {ours: theirs for part in matched for ours, theirs in part.select("kernel", "name").unique().iter_rows()}
    told: pl.Series = names.cast(pl.String).replace_strict(spelled, default=None, return_dtype=pl.String)
    return told


def measured_of(session: Session) -> Measured | None:
    """Returns what ncu measured of the kernels in view; None if it measured none."""
    run, trace = session.runs["a"], session.trace()
    if trace.info.kind != "ncu" and not run.of_kind("ncu"):
        return None
    return session.cached("measured", lambda: kernel_counters_of(run, trace, joined_with(session, "ncu")))
