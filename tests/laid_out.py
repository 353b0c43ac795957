"""Reports laid out as `tracetui report` and `tracetui diff` do."""

from collections.abc import Iterator
from typing import Any

from as_json import as_diff, as_structs

from tracetui.analysis.base.json_values import Json
from tracetui.analysis.report.model import Report
from tracetui.app.reports import csv_report
from tracetui.app.reports.content import diff
from tracetui.app.reports.content import run as content
from tracetui.app.reports.layout import Layout
from tracetui.app.reports.markdown import markdown
from tracetui.app.reports.parts import Part
from tracetui.app.reports.text import text


def run_parts(found: Json | Report, layout: Layout) -> Iterator[Part]:
    """The parts of a report, which may be JSON: what its structs are written to can be read as them."""
    return content.run_parts(as_structs(found) if isinstance(found, dict) else found, layout)


def report_csv(found: Json | Report, section: str) -> str:
    """A section of a report, which may be JSON, as CSV."""
    return csv_report.report_csv(as_structs(found) if isinstance(found, dict) else found, section)


def diff_parts(found: Json, layout: Layout) -> Iterator[Part]:
    """The parts of a diff that is JSON."""
    return diff.diff_parts(as_diff(found), layout)


def diff_csv(found: Json, section: str) -> str:
    """A section of a diff that is JSON, as CSV."""
    return csv_report.diff_csv(as_diff(found), section)


def report_text(found: Json, **options: Any) -> str:
    layout = Layout(**options)
    return text(run_parts(found, layout), layout)


def report_markdown(found: Json, **options: Any) -> str:
    layout = Layout(**options)
    return markdown(run_parts(found, layout), layout)


def diff_text(found: Json, **options: Any) -> str:
    layout = Layout(**options)
    return text(diff_parts(found, layout), layout)


def diff_markdown(found: Json, **options: Any) -> str:
    layout = Layout(**options)
    return markdown(diff_parts(found, layout), layout)


def body(printed: str) -> str:
    """A report without the command at its end, which is not wrapped however long a path in it is."""
    return printed.split("\nOn the screen:\n")[0]
