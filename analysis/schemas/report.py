"""The shape of `tracetui.report/1`: that of its structs, and of what they hold as plain objects."""

from __future__ import annotations

from tracetui.analysis.report import model
from tracetui.analysis.schemas.shapes import Maybe, Rows, Shape, fields_of

COMPARED: Shape = {
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
CONFIGURATIONS = {
    "configurations?": Rows("configurations"),
    "configuration_weights?": dict[str, str],
}
REPORT = {**fields_of(model.Report), "run": {**fields_of(model.Run), "counters_compared?": Maybe(COMPARED)}}
