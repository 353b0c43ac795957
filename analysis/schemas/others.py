"""The shapes of the other outputs, and every schema by the name under which `tracetui reference schema` prints it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tracetui.analysis.captures.model import CaptureRow
from tracetui.analysis.checklist import CheckReport
from tracetui.analysis.report.model import Headline, Judged, RanksReport
from tracetui.analysis.schemas.report import COMPARED, CONFIGURATIONS, REPORT
from tracetui.analysis.schemas.shapes import Either, Map, Maybe, Rows, Shape, Told, fields_of, schema_of

if TYPE_CHECKING:
    from tracetui.analysis.base.json_values import Json

_SIDE = {"path": "text", "name": "text", "rank": "whole?", "base": "text"}
_DIFFERENCE = {
    "a_us": "number?",
    "b_us": "number?",
    "delta_us": "number?",
    "delta_percent": "number?",
    "noise_us": "number?",
    "a_median_us": "number?",
    "b_median_us": "number?",
    "median_delta_us": "number?",
    "median_delta_percent": "number?",
    "median_noise_us": "number?",
    "median_low_us": "number?",
    "median_high_us": "number?",
    "beyond_noise": Told("flag?", "whether the medians differ by more than the noise; null where it is unknown"),
    "detectable_us": "number?",
    "detectable_percent": "number?",
}
DIFF = {
    "a": _SIDE,
    "b": _SIDE,
    "comparable": {
        "verdict": Told("text", "comparable, explained, other_work or not_comparable"),
        "differences": [
            {"field": "text", "a": "any", "b": "any", "matters": "flag", "intended": "flag", "work": "flag"},
        ],
    },
    "rests_on": Map("text"),
    "step": {
        "rests_on": Told("text", "clean, light or recorded"),
        "a_steps": "whole?",
        "b_steps": "whole?",
        **_DIFFERENCE,
        "per_sample": Maybe(
            {
                "a_samples": "whole",
                "b_samples": "whole",
                "a_us": "number?",
                "b_us": "number?",
                "delta_percent": "number?",
            }
        ),
        "recorded": Maybe(_DIFFERENCE),
    },
    "split": Rows("diff_step"),
    "waiting": Rows("diff_step"),
    "counters": Maybe({"counters_compared": Maybe(COMPARED), **CONFIGURATIONS, "stopped": Map("any")}),
    "waterfall": Rows("diff_waterfall"),
    "kernels": Rows("diff_kernels"),
    "operators": Rows("diff_operators"),
    "modules": Rows("diff_modules"),
    "ranges": Rows("diff_ranges"),
    "kinds": Rows("diff_kinds"),
    **fields_of(Judged),
    "counts": Map("whole"),
}
_CROSSOVER = {"axis": "text", "value": "number?", "interval": Maybe(["number?"]), "verdict": "text"}
_VALUE = Either(("text?", "number"))
SWEEP = {
    "path": "text",
    "source": Told("text", "index, runs, captures or table"),
    "base": "text",
    "axes": ["text"],
    "x_axis": "text?",
    "points": Rows("sweep_points", other=_VALUE),
    "comparisons": [
        {
            "label": "text",
            "axis": "text",
            "baseline": "any",
            "variant": "any",
            "fixed": Map("any"),
            "x_axis": "text?",
            "points": [Map("any")],
            "crossover": Maybe(_CROSSOVER),
        }
    ],
    "crossover": Maybe(_CROSSOVER),
    "kinds": Rows("sweep_kinds"),
    "captures": [CaptureRow],
    "phases": Rows("capture_phases", other=_VALUE),
    "categories": Rows("capture_categories", other=_VALUE),
    "top_kernels": Rows("capture_top_kernels", other=_VALUE),
    "counters": Maybe({"rows": [Map("any")], "weights": Map("text"), "stopped": Map("any"), "changes": [Map("any")]}),
    **fields_of(Judged),
    "notes": ["text"],
}
QUERY = {
    "path": "text",
    "source": {"path": "text", "kind": "text", "rank": "whole?"},
    "sql": "text",
    "frames": ["text"],
    "columns": [{"name": "text", "type": "text"}],
    "rows": Told([Map("any")], "an object per row, with the keys of columns"),
    "more": "flag",
}
QUERY_FRAMES = {
    "frames": [
        {
            "name": "text",
            "about": "text",
            "columns": [{"name": "text", "type": "text", "unit": "text", "about": "text"}],
        },
    ]
}
RULES = {
    "rules": [
        {
            "id": "text",
            "title": "text",
            "subject": "text",
            "thresholds": [
                {"name": "text", "value": "number", "unit": "text", "about": "text", "own": "flag", "yours": "number?"},
            ],
            "needs": [{"name": "text", "what": "text"}],
            "rests_on": ["text"],
            "refutes": ["text"],
            "doubts": ["text"],
            "remark": "text?",
            "advice": "text?",
            "source": "text?",
            "changes": Told(["text"], "options of `tracetui profile` that do what it advises, for `tracetui prove`"),
            "explanation": "text",
            "silenced": "text?",
        }
    ]
}
MODELS = {
    "python": Maybe({"path": "text", "version": "text?"}),
    "models": [
        {
            "name": "text",
            "family": "text",
            "title": "text",
            "parameters": "whole?",
            "flops_per_step": "whole?",
            "compulsory_bytes_per_step": "whole?",
            "defaults": Map("any"),
            "options": ["text"],
            "needs": [
                {
                    "name": "text",
                    "requirement": "text",
                    "optional": "flag",
                    "why": "text?",
                    "installed": "flag?",
                    "version": "text?",
                    "install": "text?",
                }
            ],
            "ready": "flag?",
        }
    ],
}
DOCTOR = {
    "summary": Map("whole"),
    "checks": [{"group": "text", "name": "text", "status": "text", "message": "text", "remedy": "text?"}],
}
CONFIG = {
    "files": Map({"path": "text?", "there": "flag"}),
    "settings": Map({"value": "any", "from": "text"}),
    "columns": Map("any"),
    "keys": Map("any"),
    "problems": ["text"],
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
