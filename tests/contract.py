"""The form of the report's JSON: rows of declared tables from their declarations, the rest by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tracetui.analysis.compare.compared_passes import OF_GPU, OF_NAMES
from tracetui.analysis.matching.join import COUNTERS as MEASURED
from tracetui.analysis.matching.light_overview import UNKNOWN
from tracetui.analysis.overview import CATEGORIES
from tracetui.analysis.tables import (
    captures,
    collectives,
    comparison,
    critical_path,
    findings,
    kernels,
    memory,
    program,
    runs,
    sweeps,
)
from tracetui.analysis.tables.nsight import counters
from tracetui.analysis.tables.registry import COMPARED, OF_RUNS, TABLES
from tracetui.analysis.tables.registry import SECTIONS as TABLES_OF

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tracetui.analysis.tables.table import Field, Table

NONE = type(None)
TEXT, WHOLE, REAL, FLAG, NUMBER = (str,), (int,), (float,), (bool,), (int, float)
MAYBE_TEXT, MAYBE_WHOLE, MAYBE_REAL = (str, NONE), (int, NONE), (float, NONE)


class Row(dict[str, Any]):
    """The form of a declared row: its keys stand in this order."""


@dataclass(frozen=True)
class Maybe:
    """What may be null."""

    shape: Any


@dataclass(frozen=True)
class OrEmpty:
    """An object that may be empty."""

    shape: Any


PLAIN: dict[str, Any] = {
    "text": TEXT,
    "flag": FLAG,
    "whole": WHOLE,
    "real": REAL,
    "number": NUMBER,
    "words": [TEXT],
    "whole list": [WHOLE],
}
"""The form of a value by the type that its field declares, but for nested ones."""
RULE = {
    "kind": TEXT,
    "section": MAYBE_TEXT,
    "name": TEXT,
    "speedup_percent": MAYBE_REAL,
    "speedup_type": MAYBE_TEXT,
    "text": MAYBE_TEXT,
}
EVIDENCE = {
    "label": TEXT,
    "value": (float, int, str),
    "unit": TEXT,
    "tab": MAYBE_TEXT,
    "filter": MAYBE_TEXT,
    "row": MAYBE_TEXT,
}
PROOF = {
    "change": MAYBE_TEXT,
    "explanation": MAYBE_TEXT,
    "step_us": MAYBE_REAL,
    "changed_us": MAYBE_REAL,
    "gain_us": MAYBE_REAL,
    "low_us": MAYBE_REAL,
    "high_us": MAYBE_REAL,
    "gain_percent": MAYBE_REAL,
    "rounds": MAYBE_WHOLE,
    "one_process": (bool, NONE),
    "batch_factor": MAYBE_REAL,
    "device": MAYBE_TEXT,
    "recorded_on": MAYBE_TEXT,
    "bound_us": MAYBE_REAL,
    "bound_percent": MAYBE_REAL,
    "sure_percent": MAYBE_REAL,
    "also": MAYBE_TEXT,
    "most_us": MAYBE_REAL,
    "does_more": FLAG,
    "exceeds": FLAG,
    "compared": Maybe(
        {"what": MAYBE_TEXT, "numbers": MAYBE_WHOLE, "largest": MAYBE_REAL, "scale": MAYBE_REAL,
         "should_agree": (bool, NONE)}
    ),
}  # fmt: skip
NESTED: dict[tuple[str, str], Any] = {
    ("kernels", "modules"): [{"path": TEXT, "calls": WHOLE, "us": REAL}],
    ("kernels", "operators"): [{"name": TEXT, "calls": WHOLE, "us": REAL}],
    ("kernels", "distribution"): {"log": FLAG, "edges_us": [REAL], "counts": [WHOLE]},
    ("ranges", "by_category"): [{"category": TEXT, "calls": WHOLE, "us": REAL}],
    ("counter_launches", "rules"): [RULE],
    ("counters", "rules"): [{**RULE, "launches": WHOLE, "gain_us": MAYBE_REAL}],
    ("findings", "evidence"): [EVIDENCE],
    ("findings", "changes"): [TEXT],
    ("findings", "proofs"): [PROOF],
    ("findings", "remarks"): [TEXT],
    ("findings", "doubted_by"): [TEXT],
}
"""What is inside a nested value, by table and column: its field says only that it is one."""


def value(table: Table, field: Field) -> Any:
    """The form of one value of a declared row."""
    shape = NESTED[table.id, field.name] if field.nested else PLAIN[field.json_type]
    return Maybe(shape) if field.null else shape


def row(table: Table) -> Row:
    """The form of a declared table's row."""
    return Row({field.json_key: value(table, field) for field in table.data_fields})


NESTED["gpu_samples", "metrics"] = [{"metric": TEXT, "unit": TEXT, "mean": MAYBE_REAL, "curve": [MAYBE_REAL]}]
NESTED["kernels", "counters"] = OrEmpty(
    Row({field.json_key: value(counters.COUNTERS, field) for field in counters.COUNTERS.chosen(MEASURED)})
)

OF_RUN: dict[str, Table] = {name: TABLES_OF[name] for name in sorted(OF_RUNS)}
"""The tables of the run itself, by its report's key."""
OF_SWEEPS = (
    runs.SWEEP_POINTS, sweeps.SPEEDUPS, sweeps.KINDS, captures.PHASES, captures.CATEGORIES, captures.TOP_KERNELS,
)  # fmt: skip
"""Tables that only the report of a sweep has."""
LISTS: dict[str, Table] = {
    table.section or table.id: table
    for table in TABLES.values()
    if table.data and table not in COMPARED.values() and table not in (*OF_RUN.values(), *OF_SWEEPS)
} | {"findings": findings.FINDINGS}
"""The tables of a trace's part of the report, by the path to their rows."""


def rows_at(trace: dict[str, Any], path: str) -> list[dict[str, Any]]:
    """The rows of a trace's part of the report at a path of `LISTS`; none where the trace has no such section."""
    found: Any = trace
    for key in path.split("."):
        found = None if found is None else found.get(key)
    return found or []


def may_be_null(tables: dict[str, Table]) -> set[str]:
    """The values that are declared as perhaps unknown, as ``section.key``."""
    return {f"{path}.{field.json_key}" for path, table in tables.items() for field in table.data_fields if field.null}


def nulls(path: str, rows: list[dict[str, Any]]) -> Iterator[str]:
    """The values that are null in one of the rows, as ``section.key``."""
    for found in rows:
        yield from (f"{path}.{key}" for key, item in found.items() if item is None)


JOB = Maybe(
    {
        "said": [TEXT],
        "recordings": [{"recorded_pass": MAYBE_TEXT, "ranks": WHOLE, "collectives": WHOLE}],
        "world_size": WHOLE,
        "here": WHOLE,
        "missing": [WHOLE],
        "steps": WHOLE,
        "step_us": MAYBE_REAL,
        "clean_step_us": MAYBE_REAL,
        "transfer_us": REAL,
        "largest_excess_us": MAYBE_REAL,
        "matched_by": MAYBE_TEXT,
        "one_clock": FLAG,
        "residual_us": MAYBE_REAL,
        "clocks": [{"rank": WHOLE, "offset_us": REAL, "drift_ppm": REAL}],
        "path": [{"rank": WHOLE, "own_us": REAL, "percent": MAYBE_REAL}],
        "unmatched": [{"reason": TEXT, "count": WHOLE}],
    }
)
NOTE = {"reason": TEXT, "count": WHOLE, "example": TEXT}
COST = {"us": REAL, "percent": MAYBE_REAL}
NOT_IN_LIGHT = {"us": MAYBE_REAL, "percent": MAYBE_REAL}
"""What of a step a light recording does not tell."""
BY_CATEGORY = {**dict.fromkeys(CATEGORIES, COST), **dict.fromkeys(UNKNOWN, NOT_IN_LIGHT)}
IDLE = {"host_wait_percent": MAYBE_REAL, "kernel_wait_percent": MAYBE_REAL, "other_percent": MAYBE_REAL}
ALL_IDLE = {**IDLE, "idle_us": MAYBE_REAL, "per_device": [{"device": WHOLE, "idle_us": REAL, **IDLE}]}
LIGHT = {
    "path": MAYBE_TEXT,
    "used": FLAG,
    "problem": MAYBE_TEXT,
    "steps": MAYBE_WHOLE,
    "launches": WHOLE,
    "matched": WHOLE,
    "matched_percent": MAYBE_REAL,
    "unmatched_us_per_step": REAL,
    "kept_launches": WHOLE,
    "kept_percent": MAYBE_REAL,
}
FINDING = row(findings.FINDINGS)
FINDINGS = {
    "findings": [FINDING],
    "findings_suppressed": [Row({**FINDING, "by": TEXT})],
    "findings_silenced": [Row({**FINDING, "reason": TEXT})],
    "findings_abstained": [row(findings.ABSTAINED)],
    "findings_checked": [TEXT],
}
TRACE: dict[str, Any] = {
    "source": {
        "path": TEXT,
        "kind": TEXT,
        "tool": TEXT,
        "tool_version": MAYBE_TEXT,
        "rank": MAYBE_WHOLE,
        "world_size": MAYBE_WHOLE,
        "bytes": WHOLE,
        "events_total": WHOLE,
        "events_parsed": WHOLE,
        "partial": FLAG,
        "captured": dict,
        "skipped": [NOTE],
        "repaired": [NOTE],
        "missing": [NOTE],
    },
    "device": [
        {
            "id": WHOLE,
            "name": MAYBE_TEXT,
            "compute_capability": MAYBE_TEXT,
            "architecture": MAYBE_TEXT,
            "sm_count": MAYBE_WHOLE,
            "memory_bytes": MAYBE_WHOLE,
        }
    ],
    "base": TEXT,
    "totals_base": TEXT,
    "light": Maybe(LIGHT),
    "rests_on": (dict, NONE),
    "counts": dict,
    "overview": {
        "steps": WHOLE,
        "base": TEXT,
        "average_step_us": REAL,
        "steps_of": MAYBE_TEXT,
        "warm_up_steps": WHOLE,
        "setup_us": MAYBE_REAL,
        "recorded_us": MAYBE_REAL,
        "categories": BY_CATEGORY,
        "per_step": [{"index": WHOLE, "name": TEXT, "us": REAL, "categories": BY_CATEGORY}],
        "gpu": [row(runs.GPUS)],
        "idle": ALL_IDLE,
        "overlap_percent": MAYBE_REAL,
        "as_recorded": Maybe(
            {
                "steps": WHOLE,
                "base": TEXT,
                "average_step_us": REAL,
                "categories": dict.fromkeys(CATEGORIES, COST),
                "gpu": [row(runs.GPUS)],
                "idle": ALL_IDLE,
                "overlap_percent": MAYBE_REAL,
            }
        ),
        "lanes": {
            "step": MAYBE_WHOLE,
            "us": MAYBE_REAL,
            "lanes": [
                {
                    "kind": TEXT,
                    "device": MAYBE_WHOLE,
                    "stream": MAYBE_WHOLE,
                    "process": MAYBE_WHOLE,
                    "thread": MAYBE_WHOLE,
                    "name": MAYBE_TEXT,
                    "busy_percent": REAL,
                    "cells": [REAL],
                    "events": [{"name": TEXT, "begin_percent": REAL, "end_percent": REAL}],
                }
            ],
        },
        "waits_for": {
            "what": TEXT,
            "sentence": TEXT,
            "recorded_us": MAYBE_REAL,
            "clean_us": MAYBE_REAL,
            "host_free_us": MAYBE_REAL,
            "gpu_free_us": Maybe({"least": REAL, "most": REAL}),
            "unexplained_steps": WHOLE,
        },
    },
    "critical_path": Maybe(
        {
            "steps": WHOLE,
            "step_us": REAL,
            "resources": [row(critical_path.CRITICAL_PATH)],
            "stretches": [row(critical_path.STRETCHES)],
        }
    ),
    "kernels": [row(kernels.KERNELS)],
    "tensor_cores": {
        "kernels": WHOLE,
        "percent": MAYBE_REAL,
        "unclear": [TEXT],
        "unclear_percent": MAYBE_REAL,
        "eligible_percent": MAYBE_REAL,
    },
    "memops": [row(kernels.MEMOPS)],
    "operators": [row(program.OPERATORS)],
    "modules": [row(program.MODULES)],
    "host_functions": [row(program.HOST_FUNCTIONS)],
    "api": [row(program.API_CALLS)],
    "ranges": [row(program.RANGES)],
    "range_tree": [row(program.RANGE_TREE)],
    "launches": {
        "count": WHOLE,
        "short_kernels": WHOLE,
        "runtime_outliers": WHOLE,
        "delay_outliers": WHOLE,
        "median_delay_us": MAYBE_REAL,
    },
    "communication": {
        "communication_us": MAYBE_REAL,
        "compute_us": MAYBE_REAL,
        "overlap_us": MAYBE_REAL,
        "overlap_percent": MAYBE_REAL,
        "kernels": [row(kernels.COMMUNICATION)],
    },
    "collectives": [row(collectives.COLLECTIVES)],
    "collective_pairs": [row(collectives.PAIRS)],
    "collectives_link": Maybe({"name": TEXT, "gbps": REAL, "ranks": WHOLE, "source": TEXT}),
    "counters": [row(counters.COUNTER_LAUNCHES)],
    "counters_by_kernel": [row(counters.COUNTERS)],
    "counters_missing": (dict, NONE),
    "roofline": [row(counters.ROOFLINE)],
    "roofline_peaks": {
        "device": MAYBE_TEXT,
        "compute_capability": MAYBE_TEXT,
        "compute": [{"precision": TEXT, "flops": REAL, "ridge": MAYBE_REAL, "source": TEXT, "about": TEXT}],
        "bandwidth": (dict, NONE),
        "covered_percent": MAYBE_REAL,
        "unknown": [TEXT],
    },
    "memory": {
        "peak_allocated_bytes": MAYBE_WHOLE,
        "peak_reserved_bytes": MAYBE_WHOLE,
        "on_gpu": FLAG,
        "peak_device": MAYBE_WHOLE,
        "peak_time_us": MAYBE_REAL,
        "peaks": [
            {
                "device_type": MAYBE_WHOLE,
                "device": MAYBE_WHOLE,
                "allocated_bytes": MAYBE_WHOLE,
                "reserved_bytes": MAYBE_WHOLE,
            }
        ],
        "unused_percent": MAYBE_REAL,
        "end_allocated_bytes": MAYBE_WHOLE,
        "end_reserved_bytes": MAYBE_WHOLE,
        "fragmentation_percent": MAYBE_REAL,
        "segments": (dict, NONE),
        "curve": [{"at_us": MAYBE_REAL, "allocated_bytes": MAYBE_WHOLE, "reserved_bytes": MAYBE_WHOLE}],
        "holders": [row(memory.HOLDERS)],
        "long_lived": [row(memory.LONG_LIVED)],
        "growth": [row(memory.STEPS)],
        "oom": [row(memory.OUT_OF_MEMORY)],
    },
    **FINDINGS,
}
GROUPED: dict[str, Any] = {**TRACE, "kernels_by": TEXT, "kernel_groups": [row(kernels.KERNEL_GROUPS)]}
"""With the kernels grouped by something else than their names."""
NO_TIMELINE = dict.fromkeys(("overview", "critical_path", "launches", "communication"), NONE)
"""Sections that are null for a recording without a time line."""
SIDE = {"path": TEXT, "name": TEXT, "rank": MAYBE_WHOLE, "base": TEXT}
STEP_DIFFERENCE = {
    "a_us": MAYBE_REAL,
    "b_us": MAYBE_REAL,
    "delta_us": MAYBE_REAL,
    "delta_percent": MAYBE_REAL,
    "noise_us": MAYBE_REAL,
    "a_median_us": MAYBE_REAL,
    "b_median_us": MAYBE_REAL,
    "median_delta_us": MAYBE_REAL,
    "median_delta_percent": MAYBE_REAL,
    "median_noise_us": MAYBE_REAL,
    "median_low_us": MAYBE_REAL,
    "median_high_us": MAYBE_REAL,
    "beyond_noise": (bool, NONE),
    "detectable_us": MAYBE_REAL,
    "detectable_percent": MAYBE_REAL,
}
DIFF: dict[str, Any] = {
    "schema": TEXT,
    "a": SIDE,
    "b": SIDE,
    "comparable": {
        "verdict": TEXT,
        "differences": [{"field": TEXT, "a": object, "b": object, "matters": FLAG, "intended": FLAG, "work": FLAG}],
    },
    "rests_on": dict.fromkeys(("step", *OF_GPU, *OF_NAMES), TEXT),
    "step": {
        "rests_on": TEXT,
        "a_steps": WHOLE,
        "b_steps": WHOLE,
        **STEP_DIFFERENCE,
        "per_sample": (dict, NONE),
        "recorded": Maybe(STEP_DIFFERENCE),
    },
    "counters": (dict, NONE),
    "split": [row(comparison.STEP)],
    "waiting": [row(comparison.STEP)],
    "waterfall": [row(comparison.WATERFALL)],
    "kernels": [row(comparison.KERNELS)],
    "operators": [row(comparison.OPERATORS)],
    "modules": [row(comparison.MODULES)],
    "ranges": [row(comparison.RANGES)],
    "kinds": [row(comparison.KINDS)],
    **FINDINGS,
    "counts": dict,
}


def conforms(value: Any, shape: Any, where: str = "") -> None:
    """Fails where a key is missing, too many, out of order in a declared row, or of another type than it should be."""
    if isinstance(shape, Maybe):
        if value is not None:
            conforms(value, shape.shape, where)
    elif isinstance(shape, OrEmpty):
        if value != {}:
            conforms(value, shape.shape, where)
    elif isinstance(shape, dict):
        assert isinstance(value, dict), where
        assert set(value) == set(shape), f"{where}: {set(value) ^ set(shape)}"
        assert not isinstance(shape, Row) or list(value) == list(shape), f"{where}: {list(value)}"
        for key, inner in shape.items():
            conforms(value[key], inner, f"{where}.{key}")
    elif isinstance(shape, list):
        assert isinstance(value, list), where
        for n, item in enumerate(value):
            conforms(item, shape[0], f"{where}[{n}]")
    else:
        kinds = shape if isinstance(shape, tuple) else (shape,)
        assert isinstance(value, kinds), f"{where}: {value!r} is no {kinds}"
        # a bool is an int to isinstance, but not to a reader of JSON
        assert not isinstance(value, bool) or bool in kinds or object in kinds, where
