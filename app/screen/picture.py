"""Saves a picture of the screen as a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tracetui.app.tables import export
from tracetui.app.text.fitting import printable
from tracetui.app.text.pictures import without_fonts
from tracetui.parsers.errors import TraceError
from tracetui.parsers.written import write_text

if TYPE_CHECKING:
    from tracetui.app.session.session import Session


def save_picture(session: Session, tab: str, svg: str) -> str:
    """Writes the screen into the working directory, without replacing a file.

    Args:
        session: what is open.
        tab: the tab in view.
        svg: the picture.

    Returns:
        A line that says where it was written, or why it was not.
    """
    name = printable(session.runs["a"].name).replace("/", "_")
    path = export.free_path(Path(f"{name}-{tab}.svg"))
    try:
        write_text(path, without_fonts(svg))
    except TraceError as error:
        return str(error)
    return f"wrote {path.resolve()}"
