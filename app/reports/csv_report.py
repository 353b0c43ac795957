"""Writes one section of the report as CSV: one line per row, plain numbers, unknown values empty."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from msgspec import UNSET, Struct
from msgspec.structs import asdict

from tracetui.analysis.report.model import Communication, CriticalPath, Memory, Overview, Report, Step, Trace
from tracetui.analysis.tables.nsight.configurations import CONFIGURATIONS
from tracetui.analysis.tables.registry import COMPARED, OF_RUNS, SECTIONS
from tracetui.app.text.escaping import any_cell, cell

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tracetui.analysis.base.json_values import Json
    from tracetui.analysis.captures.model import CaptureRow
    from tracetui.analysis.report.diff import DiffReport

FINER = {"kernels": "kernel_groups", "range_tree": "range_tree_kernels", "modules": "module_kernels"}
"""What is written in place of a section where it was asked for."""


def report_csv(found: Report, section: str) -> str:
    """One section of every trace of one tool; of several traces each row begins with its trace and rank.

    Rows end with their base: which steps they are of.

    The tool is the main one, or the first that tells of the section: two tools' rows of one program must not be summed.
    """
    if section == "captures":
        return captures_csv(found.run.captures)
    if section in OF_RUNS:
        return plain_csv(getattr(found.run, section) or [], SECTIONS[section].csv_header)
    traces = found.run.traces
    finer = FINER.get(section, "")
    if any(getattr(trace, finer, UNSET) is not UNSET for trace in traces):
        section = finer
    rows: list[Json] = []
    for trace in of_one_tool(found, section):
        origin = {"trace": trace.source.path, "rank": trace.source.rank} if len(traces) > 1 else {}
        rows += [{**origin, **row, "base": trace.totals_base} for row in _rows(getattr(trace, section))]
    if (table := SECTIONS.get(section)) is None:
        return _csv(rows)
    return plain_csv(rows, (*(("trace", "rank") if len(traces) > 1 else ()), *table.csv_header, "base"))


def of_one_tool(found: Report, section: str) -> list[Trace]:
    """The traces whose rows of a section are written."""
    traces = found.run.traces
    if not traces:
        return []
    kinds = dict.fromkeys((traces[found.run.main or 0].source.kind, *(trace.source.kind for trace in traces)))
    by_kind = [[trace for trace in traces if trace.source.kind == kind] for kind in kinds]
    tells = (any(any(row.values()) for trace in some for row in _rows(getattr(trace, section))) for some in by_kind)
    return next((some for some, told in zip(by_kind, tells, strict=True) if told), by_kind[0])


def diff_csv(found: DiffReport, section: str) -> str:
    """The diff's kernels, operators, modules, ranges, findings, or both sides' counters; then runs and their bases."""
    counted = section == "counters"
    counters = [] if found.counters is None else found.counters.configurations
    rows = counters if counted else getattr(found, section)
    header = CONFIGURATIONS.csv_header if counted else COMPARED[section].csv_header
    runs = {"a_run": found.a.name, "a_base": found.a.base, "b_run": found.b.name, "b_base": found.b.base}
    return plain_csv([as_dict(row) | runs for row in rows], (*header, *runs))


def captures_csv(captures: list[CaptureRow]) -> str:
    """A line per capture with every value as a column."""
    return _csv(flat(captures), ("name", *PLAIN))


def _rows(section: object) -> list[Json]:
    """A list as it is, the overview as its steps, communication as its kernels, any other object as one row.

    The critical path is its stretches. Memory is its holders, each with the figures of the whole. What a trace can't
    tell (None) is no row.
    """
    if isinstance(section, CriticalPath):
        return section.stretches
    if isinstance(section, Communication):
        return section.kernels
    if isinstance(section, Overview):
        return list(map(_step, section.per_step or ()))
    if isinstance(section, Memory):
        figures = {
            key: value for key, value in asdict(section).items() if key != "segments" and not isinstance(value, list)
        }
        return [{**figures, **row} for row in section.holders] or [figures]
    if isinstance(section, Struct):
        return [asdict(section)]
    return list(map(as_dict, section)) if isinstance(section, list) else []


def _step(step: Step) -> Json:
    costs = {f"{name}_us": cost.us for name, cost in step.categories.items()}
    return {"index": step.index, "name": step.name, "step_us": step.us, **costs}


def as_dict(row: Json | Struct) -> Json:
    """A row by its keys."""
    return asdict(row) if isinstance(row, Struct) else row


def plain_csv(rows: Iterable[Json | Struct], keys: Iterable[str]) -> str:
    """Any rows with these keys as CSV."""
    return _csv([{key: row.get(key) for key in keys} for row in map(as_dict, rows)], keys)


def _csv(rows: Iterable[Json], keys: Iterable[str] = ()) -> str:
    """The rows under their header, which has what any of them has; `keys` are the header of a list without rows."""
    rows = list(rows)
    fields = list(dict.fromkeys(key for row in rows for key in row) if rows else keys)
    out = io.StringIO()
    if fields:
        writer = csv.DictWriter(out, fields, lineterminator="\n")
        writer.writerow({field: cell(field) for field in fields})
        writer.writerows({key: any_cell(value) for key, value in row.items()} for row in rows)
    return out.getvalue()


PLAIN = (
    "path", "kind", "rank", "problem", "base", "steps", "average_step_us", "wall_us", "kernels", "gpu_us",
    "kernels_per_step", "gpu_us_per_step", "busy_percent",
)  # fmt: skip
TOP = ("short_name", "category", "calls", "total_us", "mean_us", "percent")
PHASE = (
    "instances", "host_total_us", "host_mean_us", "launched_us", "launched_mean_us", "launched_span_us",
    "launched_span_mean_us",
)  # fmt: skip
IN_STEPS = ("instances", "host_us", "host_percent", "launched_us", "launched_percent")
RANGE = ("instances", "host_total_us", "gpu_projected_us", "device_us", "launched_us", "launched_span_us")


def flat(found: Sequence[CaptureRow]) -> list[Json]:
    """Returns one flat object per capture, all with the same keys in the same order; missing values are null.

    Axes come as ``axis.ctx``, categories as ``gpu.gemm_us``, phases as ``forward.host_mean_us``,
    ``forward.gemm_us``, ``forward.in_steps.host_percent``, ranges as ``range.forward_pass.host_total_us``.
    """
    rows = [_flat(row) for row in found]
    groups: dict[str, dict[str, None]] = {}
    for row in rows:
        for key in row:
            groups.setdefault(key.partition(".")[0], {})[key] = None
    keys = [key for group in groups.values() for key in group]
    return [{key: row.get(key) for key in keys} for row in rows]


def _flat(row: CaptureRow) -> Json:
    cells: Json = {"name": row.name, **{f"axis.{axis}": value for axis, value in row.axes.items()}}
    cells |= {key: getattr(row, key) for key in PLAIN}
    cells |= {f"top_kernel.{key}": getattr(row.top_kernel, key, None) for key in TOP}
    cells |= {f"gpu.{share.category}_us": share.us for share in row.categories}
    for role, phase in row.phases.items():
        cells |= {f"{role}.{key}": getattr(phase, key) for key in PHASE}
        cells |= {f"{role}.in_steps.{key}": getattr(phase.in_steps, key, None) for key in IN_STEPS}
        cells |= {f"{role}.{share.category}_us": share.us for share in phase.by_category}
    for phase in row.ranges:
        name = f"{phase.domain}:{phase.name}" if phase.domain else phase.name
        cells |= {f"range.{name}.{key}": getattr(phase, key) for key in RANGE}
    return cells
