"""The shapes of outputs, and every schema by the name under which `tracetui reference schema` prints it."""

from __future__ import annotations

from dataclasses import dataclass

from tracetui.analysis.base.json_values import Json
from tracetui.analysis.captures.model import CaptureRow
from tracetui.analysis.checklist import CheckReport
from tracetui.analysis.report.diff import DiffReport
from tracetui.analysis.report.model import Headline, Judged, RanksReport, Report
from tracetui.analysis.schemas.shapes import Either, Map, Maybe, Rows, Shape, Told, fields_of, schema_of

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
    "columns": [{"name": str, "type": str, "unit": str | None}],
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
    "report": Output("tracetui.report/1", "tracetui report RUN --format json", fields_of(Report)),
    "headline": Output(
        "tracetui.headline/1", "tracetui report --max-tokens N with room for no section", fields_of(Headline)
    ),
    "diff": Output("tracetui.diff/1", "tracetui diff A B --format json: per step, B minus A", fields_of(DiffReport)),
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
