"""The shapes of outputs, and every schema by the name under which `tracetui reference schema` prints it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tracetui.analysis.captures.model import CaptureRow
from tracetui.analysis.checklist import CheckReport
from tracetui.analysis.report.model import Headline, Judged, RanksReport, Report, Run
from tracetui.analysis.schemas.shapes import Either, Map, Maybe, Rows, Shape, Told, fields_of, schema_of

if TYPE_CHECKING:
    from tracetui.analysis.base.json_values import Json

COMPARED: Shape = {
    "files": [
        {
            "label": str,
            "path": str,
            "launches": int,
            "kernels": int,
            "total_us": float | None,
            "common_launches": int,
        }
    ],
    "problems": [object],
    "same_kernels": bool,
    "kernels": [{"name": str, "short_name": str, "launches": [int]}],
    "kernel_count": int,
    "metrics": [
        {
            "of": str,
            "kernel": str | None,
            "metric": str,
            "label": str,
            "unit": str,
            "values": [float | None],
            "launches": [int],
            "changes": [float | None],
        }
    ],
}
CONFIGURATIONS = {
    "configurations?": Rows("configurations"),
    "configuration_weights?": dict[str, str],
}
REPORT = {**fields_of(Report), "run": {**fields_of(Run), "counters_compared?": Maybe(COMPARED)}}
_SIDE = {
    "path": str,
    "name": str,
    "rank": int | None,
    "repeats": Told(int, "runs of one configuration; above 1, the tables are of the one whose step is the median"),
    "base": str,
}
_DIFFERENCE = {
    "a_us": float | None,
    "b_us": float | None,
    "delta_us": float | None,
    "delta_percent": Told(float | None, "% of A's mean step"),
    "noise_us": float | None,
    "a_median_us": float | None,
    "b_median_us": float | None,
    "median_delta_us": float | None,
    "median_delta_percent": Told(float | None, "% of A's median step"),
    "median_noise_us": float | None,
    "median_low_us": float | None,
    "median_high_us": float | None,
    "beyond_noise": Told(bool | None, "whether the medians differ by more than the noise; null where it is unknown"),
    "detectable_us": float | None,
    "detectable_percent": Told(float | None, "% of A's median step"),
}
_BETWEEN = {
    "rests_on": Told(str, "clean, light or recorded"),
    "a_runs_us": Told([float], "the median step of each repeat"),
    "b_runs_us": [float],
    "a_us": Told(float, "their mean"),
    "b_us": float,
    "delta_us": float,
    "delta_percent": Told(float, "% of the mean of A's runs"),
    "noise_us": Told(float, "half of the 95 % interval, by Student's t over the runs"),
    "low_us": float,
    "high_us": float,
    "beyond_noise": Told(bool, "whether the interval leaves out zero"),
    "detectable_us": Told(float, "the smallest true difference that four of five such sets of runs show"),
    "detectable_percent": Told(float, "% of the mean of A's runs"),
}
DIFF = {
    "a": _SIDE,
    "b": _SIDE,
    "comparable": {
        "verdict": Told(str, "comparable, explained, other_work or not_comparable"),
        "differences": [
            {"field": str, "a": object, "b": object, "matters": bool, "intended": bool, "work": bool},
        ],
    },
    "rests_on": Map(str),
    "step": {
        "rests_on": Told(str, "clean, light or recorded"),
        "a_steps": int | None,
        "b_steps": int | None,
        **_DIFFERENCE,
        "per_sample": Maybe(
            {
                "a_samples": int,
                "b_samples": int,
                "a_us": float | None,
                "b_us": float | None,
                "delta_percent": Told(float | None, "% of A's time per sample"),
            }
        ),
        "recorded": Maybe(_DIFFERENCE),
        "between_runs": Maybe(_BETWEEN),
        "regression": {
            "slower_percent": Told(
                float | None,
                "B's step is slower by more than any limit below this, % of A's; null where no limit is so",
            ),
            "not_slower_percent": Told(
                float | None, "B's step is not slower by more than this, % of A's; between both is doubt"
            ),
            "causes": [
                {
                    "what": Told(str, "gpu_work, launches or operators: of which a step of B has more"),
                    "a": Told(float, "per step; of GPU work µs"),
                    "b": float,
                    "percent": Told(float, "by how much it alone makes a step longer, of A's"),
                }
            ],
        },
    },
    "split": Rows("diff_step"),
    "waiting": Rows("diff_step"),
    "counters": Maybe({"counters_compared": Maybe(COMPARED), **CONFIGURATIONS, "stopped": Map(object)}),
    "waterfall": Rows("diff_waterfall"),
    "kernels": Rows("diff_kernels"),
    "operators": Rows("diff_operators"),
    "modules": Rows("diff_modules"),
    "ranges": Rows("diff_ranges"),
    "kinds": Rows("diff_kinds"),
    **fields_of(Judged),
    "counts": Map(int),
}
_CROSSOVER = {"axis": str, "value": float | None, "interval": Maybe([float | None]), "verdict": str}
_VALUE = Either((str | None, float))
SWEEP = {
    "path": str,
    "source": Told(str, "index, runs, captures or table"),
    "base": str,
    "axes": [str],
    "x_axis": str | None,
    "points": Rows("sweep_points", other=_VALUE),
    "comparisons": [
        {
            "label": str,
            "axis": str,
            "baseline": object,
            "variant": object,
            "fixed": Map(object),
            "x_axis": str | None,
            "points": [Map(object)],
            "crossover": Maybe(_CROSSOVER),
        }
    ],
    "crossover": Maybe(_CROSSOVER),
    "kinds": Rows("sweep_kinds"),
    "captures": [CaptureRow],
    "phases": Rows("capture_phases", other=_VALUE),
    "categories": Rows("capture_categories", other=_VALUE),
    "top_kernels": Rows("capture_top_kernels", other=_VALUE),
    "counters": Maybe({"rows": [Map(object)], "weights": Map(str), "stopped": Map(object), "changes": [Map(object)]}),
    **fields_of(Judged),
    "notes": [str],
}
QUERY = {
    "path": str,
    "source": {"path": str, "kind": str, "rank": int | None},
    "sql": str,
    "frames": [str],
    "columns": [{"name": str, "type": str}],
    "rows": Told([Map(object)], "an object per row, with the keys of columns"),
    "more": bool,
}
QUERY_FRAMES = {
    "frames": [
        {
            "name": str,
            "about": str,
            "columns": [{"name": str, "type": str, "unit": str, "about": str}],
        },
    ]
}
RULES = {
    "rules": [
        {
            "id": str,
            "title": str,
            "subject": str,
            "thresholds": [
                {"name": str, "value": float, "unit": str, "about": str, "own": bool, "yours": float | None},
            ],
            "needs": [{"name": str, "what": str}],
            "rests_on": [str],
            "refutes": [str],
            "doubts": [str],
            "remark": str | None,
            "advice": str | None,
            "source": str | None,
            "changes": Told([str], "options of `tracetui profile` that do what it advises, for `tracetui try`"),
            "explanation": str,
            "silenced": str | None,
        }
    ]
}
MODELS = {
    "python": Maybe({"path": str, "version": str | None}),
    "models": [
        {
            "name": str,
            "family": str,
            "title": str,
            "parameters": int | None,
            "flops_per_step": int | None,
            "compulsory_bytes_per_step": int | None,
            "defaults": Map(object),
            "options": [str],
            "needs": [
                {
                    "name": str,
                    "requirement": str,
                    "optional": bool,
                    "why": str | None,
                    "installed": bool | None,
                    "version": str | None,
                    "install": str | None,
                }
            ],
            "ready": bool | None,
        }
    ],
}
DOCTOR = {
    "summary": Map(int),
    "checks": [{"group": str, "name": str, "status": str, "message": str, "remedy": str | None}],
}
CONFIG = {
    "files": Map({"path": str | None, "there": bool}),
    "settings": Map({"value": object, "from": str}),
    "columns": Map(object),
    "keys": Map(object),
    "problems": [str],
}


@dataclass(frozen=True, slots=True)
class Output:
    """One JSON output of the program."""

    schema: str
    """What its key ``schema`` says; empty where it has none."""
    about: str
    shape: Shape


OUTPUTS = {
    "report": Output("tracetui.report/1", "tracetui report RUN --format json", REPORT),
    "headline": Output(
        "tracetui.headline/1", "tracetui report --max-tokens N with room for no section", fields_of(Headline)
    ),
    "diff": Output("tracetui.diff/1", "tracetui diff A B --format json: per step, B minus A", DIFF),
    "sweep": Output("tracetui.sweep/1", "tracetui sweep PATH --format json", SWEEP),
    "ranks": Output("tracetui.ranks/1", "tracetui ranks DIR --format json", fields_of(RanksReport)),
    "check": Output("tracetui.check/1", "tracetui check RUN --format json", fields_of(CheckReport)),
    "query": Output("tracetui.query/1", "tracetui query RUN SQL --format json", QUERY),
    "frames": Output("tracetui.query-frames/1", "tracetui query --schema --format json", QUERY_FRAMES),
    "rules": Output("tracetui.rules/1", "tracetui reference rules --format json", RULES),
    "models": Output("tracetui.models/1", "tracetui reference models --format json", MODELS),
    "doctor": Output("tracetui.doctor/1", "tracetui doctor --format json", DOCTOR),
    "config": Output("", "tracetui config --format json", CONFIG),
}
"""Every output by the name that `tracetui reference schema` takes."""


def part_of(schema: Json, key: str) -> Json | None:
    """The schema of one key, wherever it stands in an output, with the rows that it needs; null if there is none."""
    waiting: list[Json] = [schema]
    while waiting:
        node = waiting.pop()
        found = node.get("properties", {}).get(key)
        if found is not None:
            text = str(found)
            rows = {name: row for name, row in schema["$defs"].items() if f"'#/$defs/{name}'" in text}
            return {"$schema": schema["$schema"], "title": f"{schema['title']}: {key}", **found, "$defs": rows}
        inner = [
            *node.get("properties", {}).values(),
            *node.get("anyOf", []),
            *([node["items"]] if "items" in node else []),
        ]
        waiting += reversed(inner)  # the first of its declaration is found first: a section before what it holds
    return None


def json_schema(name: str, *, closed: bool = False) -> Json:
    """The JSON Schema (2020-12) of an output.

    Args:
        name: a key of `OUTPUTS`.
        closed: whether keys that it does not know are refused.
    """
    one = OUTPUTS[name]
    return schema_of(one.schema, one.about, one.shape, closed=closed)
