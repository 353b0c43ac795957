"""Are the recordings of a run of one program, on one machine, at one size? Else they can't stand side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from tracetui.analysis.findings.core import words
from tracetui.analysis.findings.core.finding import Abstention, Evidence, Finding, Query
from tracetui.analysis.findings.core.rule import Threshold, rule
from tracetui.parsers.names.kernel_key import key
from tracetui.parsers.names.kernel_names import short_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tracetui.analysis.findings.core.facts import Facts
    from tracetui.analysis.findings.core.rule import Limits
    from tracetui.parsers import Trace

KINDS = ("chrome", "nsys", "ncu")
"""What records kernels with the size of their launches."""


@rule(
    "V25",
    "Recordings of different runs side by side",
    needs=("timeline", "gpu"),
    refutes=("counters",),
    doubts=("counters",),
    remark="the recordings of this run are not of one program at one size on one machine",
    thresholds={
        "alike_percent": Threshold(
            50, "%", "of the other's time in kernels of both that is in launches of a size that this one has", own=True
        ),
    },
    advice="Keep the recordings of each program, size and machine in a folder of their own.",
)
def side_by_side(facts: Facts, limits: Limits) -> Iterator[Finding | Abstention]:
    """Files of other tools in the folder were recorded on another GPU, or with another batch or input.

    Their counters and times stand beside this recording's kernels. The rule compares the GPUs' names and numbers of
    SMs. Of the kernels that both have, most of the other's time must be in launches whose grid and block this recording
    has too: another batch or size of the input launches the same kernels with other grids.
    """
    others = [
        other
        for other in facts.run.traces
        if other is not facts.trace and other.info.kind in KINDS and other.info.kind != facts.trace.info.kind
    ]
    if not others:
        yield Abstention("V25", "another tool's recording of the same run beside this one")
        return
    for other in others:
        if (found := _apart(facts, other, limits)) is not None:
            yield found


def _apart(facts: Facts, other: Trace, limits: Limits) -> Finding | None:
    """Says in what another recording differs from this one."""
    trace = facts.trace
    differences = [
        (what, str(ours), str(theirs))
        for what, field in (("GPU", "name"), ("SMs", "sm_count"))
        if None not in (ours := _gpu(trace, field), theirs := _gpu(other, field)) and ours != theirs
    ]
    mine, its = _launches(trace), _launches(other)
    common = its.join(mine, on="key", how="semi")
    same = common.join(mine, on=["key", "grid", "block"], how="semi", nulls_equal=True)
    whole, alike = (float(rows["ns"].sum()) for rows in (common, same))
    share = 100 * alike / whole if whole else 100.0
    row = ""
    if share < limits.alike_percent:
        apart = common.join(same, on=["key", "grid", "block"], how="anti", nulls_equal=True).sort("ns", descending=True)
        kernel, grid = apart.row(0, named=True), mine.sort("ns", descending=True)
        row = str(grid.filter(pl.col("key") == kernel["key"])["name"][0])
        ours = grid.filter(pl.col("key") == kernel["key"])["grid"][0]
        differences.append((f"grid of {short_name(row)}", _words(ours), _words(kernel["grid"])))
    if not differences:
        return None
    file, kind = other.source.path.name, other.info.kind
    told = "; ".join(f"{what} {ours} here, {theirs} there" for what, ours, theirs in differences)
    return Finding(
        "V25",
        "critical",
        f"{file} is of another run than {trace.source.path.name}: "
        + words.listed([what for what, _, _ in differences])
        + " differ",
        (
            *(Evidence(what, f"{ours} / {theirs}") for what, ours, theirs in differences),
            Evidence("its time in launches of a size that this recording has", share, "%", Query("kernels", row=row)),
        ),
        f"{told}; {words.percent(share)} of its time in kernels of both is in launches of equal size",
        f"the same GPU, and {words.percent(limits.alike_percent)} of that time",
        f"Do not read its numbers beside these: open {file} by itself, or record this program again with it.",
        # only Nsight Compute's numbers stand beside kernels, and only its findings rest on another file
        refutes=("counters",) if kind == "ncu" else (),
        doubts=(),
    )


def _gpu(trace: Trace, field: str) -> object | None:
    """A property of the GPUs that did work, if it is the same for all."""
    used = set(trace.device["device"].drop_nulls().unique().to_list())
    devices = [device for device in trace.info.devices if device.id in used] or trace.info.devices
    found = {getattr(device, field) for device in devices}
    return next(iter(found)) if len(found) == 1 else None


def _words(grid: list[int] | None) -> str:
    return "unknown" if grid is None else "x".join(map(str, grid))


def _launches(trace: Trace) -> pl.DataFrame:
    """Time by kernel and size of launch: key, name, grid, block, ns."""
    rows = trace.device.filter((pl.col("kind") == "kernel") & pl.col("grid").is_not_null())
    sums = rows.group_by("name", "grid", "block").agg(ns=pl.col("duration").sum())
    sums = sums.with_columns(pl.col("name").cast(pl.String))
    return sums.with_columns(key=pl.Series([key(name or "") for name in sums["name"]], dtype=pl.String))
