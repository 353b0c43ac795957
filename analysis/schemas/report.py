"""The shape of `tracetui.report/1`: docs/reference/report.md says in words what its objects mean."""

from __future__ import annotations

from tracetui.analysis.report.model import SECTIONS
from tracetui.analysis.schemas.shapes import Map, Maybe, Rows, Shape, Told
from tracetui.analysis.tables.registry import OF_RUNS
from tracetui.analysis.tables.registry import SECTIONS as TABLES_OF

NOTE = {"reason": "text", "count": "whole", "example": "text"}
COSTS = {
    name: {"us": "number?", "percent": "number?"}
    for name in ("kernel", "communication", "memcpy", "memset", "runtime", "dataloader", "cpu_exec", "other")
}
IDLE = {
    "host_wait_percent": "number?",
    "kernel_wait_percent": "number?",
    "other_percent": "number?",
    "idle_us": "number?",
    "per_device": [
        {
            "device": "whole",
            "idle_us": "number",
            "host_wait_percent": "number",
            "kernel_wait_percent": "number",
            "other_percent": "number",
        }
    ],
}
_AVERAGES = {
    "steps": "whole",
    "base": Told("text", "what the numbers are about"),
    "average_step_us": "number",
    "categories": Told(COSTS, "per step; the shares sum to 100 %"),
    "gpu": Rows("gpu"),
    "idle": Told(IDLE, "why the GPU is idle inside the steps, % of the idle time"),
    "overlap_percent": "number?",
}
OVERVIEW = {
    **_AVERAGES,
    "steps_of": "text?",
    "warm_up_steps": "whole",
    "setup_us": "number?",
    "recorded_us": "number",
    "per_step?": [{"index": "whole", "name": "text", "us": "number", "categories": COSTS}],
    "lanes?": {
        "step": "whole?",
        "us": "number",
        "lanes": [
            {
                "kind": "text",
                "device": "whole?",
                "stream": "whole?",
                "process": "whole?",
                "thread": "whole?",
                "name": "text?",
                "busy_percent": "number",
                "cells": ["number"],
                "events": [{"name": "text", "begin_percent": "number", "end_percent": "number"}],
            }
        ],
    },
    "as_recorded?": Maybe(_AVERAGES),
    "waits_for": Told(
        Maybe(
            {
                "what": Told("text", "host, gpu, dataloader, communication, copies, ranks or unknown"),
                "sentence": "text",
                "recorded_us": "number?",
                "clean_us": "number?",
                "host_free_us": "number?",
                "gpu_free_us": Maybe({"least": "number", "most": "number"}),
                "unexplained_steps": "whole",
            }
        ),
        "what the run waits for, with the numbers that this rests on",
    ),
}
CRITICAL_PATH = {
    "steps": "whole",
    "step_us": "number",
    "resources": Rows("critical_path"),
    "stretches": Rows("critical_path_stretches"),
}
LAUNCHES = {
    "count": "whole",
    "short_kernels": "whole",
    "runtime_outliers": "whole",
    "delay_outliers": "whole",
    "median_delay_us": "number?",
}
COMMUNICATION = {
    "communication_us": "number",
    "compute_us": "number",
    "overlap_us": "number",
    "overlap_percent": "number?",
    "kernels": Rows("communication"),
}
MEMORY = {
    "peak_allocated_bytes": "whole?",
    "peak_reserved_bytes": "whole?",
    "on_gpu": "flag",
    "peak_device": "whole?",
    "peak_time_us": "number?",
    "peaks": [
        {"device_type": "whole", "device": "whole", "allocated_bytes": "whole?", "reserved_bytes": "whole?"},
    ],
    "unused_percent": "number?",
    "end_allocated_bytes": "whole?",
    "end_reserved_bytes": "whole?",
    "fragmentation_percent": "number?",
    "segments": Maybe(
        {
            "count": "whole",
            "reserved_bytes": "whole",
            "allocated_bytes": "whole",
            "free_bytes": "whole",
            "largest_free_bytes": "whole",
            "inactive_split_bytes": "whole",
        }
    ),
    "curve?": [{"at_us": "number", "allocated_bytes": "whole?", "reserved_bytes": "whole?"}],
    "holders": Rows("memory_holders"),
    "long_lived": Rows("memory_long"),
    "growth": Rows("memory_steps"),
    "oom": Rows("memory_oom"),
}
OBJECTS: dict[str, Shape] = {
    "overview": Maybe(OVERVIEW),
    "critical_path": Maybe(CRITICAL_PATH),
    "launches": Maybe(LAUNCHES),
    "communication": Maybe(COMMUNICATION),
    "memory": Maybe(MEMORY),
}
"""The sections of a trace that are objects; all others list the rows of a table."""
EVIDENCE = [
    {
        "label": "text",
        "value": Told("any", "a number or a text"),
        "unit": "text",
        "tab": "text?",
        "filter": "text?",
        "row": "text?",
    }
]
_FINDING = {"evidence": EVIDENCE, "remarks": ["text"], "doubted_by": ["text"]}
FINDINGS = {
    "findings?": Rows("findings", _FINDING, ("evidence", "remarks", "doubted_by")),
    "findings_suppressed?": Told(
        Rows("findings", {**_FINDING, "by": "text"}, ("evidence", "remarks", "doubted_by")),
        "set aside by a rule on the measurement",
    ),
    "findings_silenced?": Rows("findings", {**_FINDING, "reason": "text"}, ("evidence", "remarks", "doubted_by")),
    "findings_abstained?": Rows("abstained"),
    "findings_checked?": Told(["text"], "rules that ran"),
}
CONFIGURATIONS = {
    "configurations?": Rows("configurations"),
    "configuration_weights?": Map("text"),
}
COMPARED = {
    "files": [
        {
            "label": "text",
            "path": "text",
            "launches": "whole",
            "kernels": "whole",
            "total_us": "number?",
            "common_launches": "whole",
        }
    ],
    "problems": ["any"],
    "same_kernels": "flag",
    "kernels": [{"name": "text", "short_name": "text", "launches": ["whole"]}],
    "kernel_count": "whole",
    "metrics": [
        {
            "of": "text",
            "kernel": "text?",
            "metric": "text",
            "label": "text",
            "unit": "text",
            "values": ["number?"],
            "launches": ["whole"],
            "changes": ["number?"],
        }
    ],
}
TRACE = {
    "source": {
        "path": "text",
        "kind": "text",
        "tool": "text",
        "tool_version": "text?",
        "rank": "whole?",
        "world_size": "whole?",
        "bytes": "whole",
        "events_total": "whole",
        "events_parsed": "whole",
        "partial": "flag",
        "captured?": Map("text"),
        "skipped": [NOTE],
        "repaired": [NOTE],
        "missing": [NOTE],
    },
    "device": [
        {
            "id": "whole",
            "name": "text?",
            "compute_capability": "text?",
            "architecture": "text?",
            "sm_count": "whole?",
            "memory_bytes": "whole?",
        }
    ],
    "base": Told("text", "what the numbers are about"),
    "totals_base": Told("text", "what totals are about"),
    **{
        f"{name}?": OBJECTS.get(name) or Rows(TABLES_OF[name].id)
        for name in SECTIONS
        if name not in ("findings", *OF_RUNS)
    },
    "kernels_by?": "text",
    "kernel_groups?": Rows("kernel_groups"),
    "range_tree_kernels?": Rows("range_tree_kernels"),
    "tensor_cores?": {
        "kernels": "whole",
        "percent": "number?",
        "unclear": ["text"],
        "unclear_percent": "number?",
        "eligible_percent": "number?",
    },
    "counters_by_kernel?": Rows("counters"),
    "counters_missing?": Maybe({"what": ["text"], "command": "text"}),
    "collective_pairs?": Rows("collective_pairs"),
    "collectives_link?": Maybe({"name": "text", "gbps": "number", "ranks": "whole", "source": "text"}),
    "roofline_peaks?": Maybe(
        {
            "device": "text?",
            "compute_capability": "text?",
            "compute": [
                {"precision": "text", "flops": "number", "ridge": "number?", "source": "text", "about": "text"},
            ],
            "bandwidth": Maybe({"bytes": "number", "source": "text", "about": "text"}),
            "covered_percent": "number?",
            "unknown": ["text"],
        }
    ),
    **FINDINGS,
    "light": Maybe(
        {
            "path": "text",
            "used": "flag",
            "problem": "text?",
            "steps": "whole",
            "launches": "whole",
            "matched": "whole",
            "matched_percent": "number?",
            "unmatched_us_per_step": "number?",
            "kept_launches": "whole",
            "kept_percent": "number?",
        }
    ),
    "rests_on": Told(Maybe(Map("text")), "by section: light, rich or both"),
    "counts": Told(Map("whole"), "rows of each list without --limit"),
}
RANGE = {
    "name": "text",
    "domain": "text?",
    "role": "text?",
    "names": ["text"],
    "instances": "whole?",
    "host_total_us": "number?",
    "host_mean_us": "number?",
    "launched_us": "number?",
    "launched_mean_us": "number?",
    "launched_ops": "whole?",
    "launched_span_us": "number?",
    "launched_span_mean_us": "number?",
    "gpu_projected_us": "number?",
    "device_us": "number?",
    "gpu_ops": "whole?",
    "by_category": Maybe([{"category": "text", "calls": "whole", "us": "number", "percent": "number?"}]),
    "in_steps": Maybe(
        {
            "instances": "whole",
            "host_us": "number",
            "host_percent": "number?",
            "launched_us": "number?",
            "launched_percent": "number?",
        }
    ),
}
_TOP = {
    "category": "text",
    "name": "text",
    "short_name": "text",
    "calls": "whole",
    "total_us": "number?",
    "mean_us": "number?",
    "percent": "number?",
}
CAPTURE = {
    "name": "text",
    "path": "text",
    "kind": "text",
    "rank": "whole?",
    "axes": Map("any"),
    "problem": "text?",
    "out_of_memory": "text?",
    "cut": ["any"],
    "base": "text?",
    "steps": "whole?",
    "average_step_us": "number?",
    "wall_us": "number?",
    "kernels": "whole?",
    "gpu_us": "number?",
    "kernels_per_step": "number?",
    "gpu_us_per_step": "number?",
    "busy_percent": "number?",
    "categories": [{"category": "text", "calls": "whole", "us": "number", "percent": "number?"}],
    "top_kernel": Maybe(_TOP),
    "top_by_category": [_TOP],
    "phases": Map(RANGE),
    "in_steps": Maybe({"steps": "whole", "host_us": "number", "launched_us": "number?"}),
    "ranges": [RANGE],
}
JOB = {
    "said": Told(["text"], "who came last and why, in sentences"),
    "recordings": [{"recorded_pass": "text?", "ranks": "whole", "collectives": "whole"}],
    "world_size": "whole?",
    "here": "whole",
    "missing": ["whole"],
    "steps": "whole",
    "step_us": "number?",
    "clean_step_us": "number?",
    "transfer_us": "number?",
    "largest_excess_us": "number?",
    "matched_by": "text?",
    "one_clock": "flag",
    "residual_us": "number?",
    "clocks": [{"rank": "whole", "offset_us": "number?", "drift_ppm": "number?"}],
    "path": [{"rank": "whole", "own_us": "number", "percent": "number?"}],
    "unmatched": [{"reason": "text", "count": "whole"}],
}
TOGETHER = {
    "job?": Maybe(JOB),
    "waiting?": Rows("waiting"),
    "stragglers?": Rows("stragglers"),
    "transfers?": Rows("transfers"),
    "stages?": Rows("stages"),
}
"""What the ranks of a job say together."""
LEFT_OUT = {
    "left_out": Told(
        [{"what": "text", "shown": "whole", "of": "whole"}],
        "with --max-tokens: what is not here, and how much of it is",
    ),
    "max_tokens": Told({"asked": "whole", "bytes_per_token": "whole"}, "with --max-tokens: how tokens are counted"),
}
REPORT = {
    "run": {
        "path": "text",
        "traces": Told([TRACE], "one per rank and tool; a section that was not asked for is absent"),
        "main": Told("whole?", "which of traces the tabs show first, from 0"),
        "joins": [
            {
                "trace": "text",
                "with": "text",
                "kind": "text",
                "launches": "whole",
                "matched": "whole",
                "placed": "whole",
                "ambiguous": "whole",
                "unmatched": [{"name": "text", "launches": "whole"}],
                "gpu_time_percent": "number?",
                "own_time_percent": "number?",
                "set_aside": "text?",
            }
        ],
        "comparable": "any",
        "captures": [CAPTURE],
        "passes": [{"name": "text", "path": "text", "steps": "whole"}],
        "warnings": ["text"],
        "other_runs": [{"name": "text", "paths": ["text"]}],
        "counters_compared?": Maybe(COMPARED),
        **CONFIGURATIONS,
        "ranks?": Rows("ranks"),
        **TOGETHER,
    },
    **{f"{key}?": shape for key, shape in LEFT_OUT.items()},
}
