"""Reports laid out as `tracetui report` and `tracetui diff` do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tracetui.app.reports.content.diff import diff_parts
from tracetui.app.reports.content.run import run_parts
from tracetui.app.reports.layout import Layout
from tracetui.app.reports.markdown import markdown
from tracetui.app.reports.text import text

if TYPE_CHECKING:
    from tracetui.analysis.base.json_values import Json


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
