"""Saves a picture of the screen as a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracetui.app.text.fitting import printable
from tracetui.app.text.pictures import without_fonts
from tracetui.parsers.errors import TraceError
from tracetui.parsers.written import write_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tracetui.app.session.session import Session
    from tracetui.app.views.common.base import View


def ask_for_picture(view: View, session: Session, draw: Callable[[], str], *, in_thread: bool = False) -> None:
    """Asks where to write a picture, and writes it.

    Args:
        view: the view in view.
        session: what is open.
        draw: makes the picture as SVG.
        in_thread: draw beside the screen's thread, since the lanes of millions of events take a moment.
    """
    from tracetui.app.views.common.saving import ask_where

    def write(path: Path, force: bool) -> str:
        return save_picture(session, path, draw(), force=force)

    def save(path: Path, force: bool) -> None:
        if not in_thread:
            view.host.say(write(path, force))
            return

        def work() -> None:
            said = write(path, force)
            view.app.call_from_thread(view.host.say, said)

        view.run_worker(work, thread=True, exclusive=True, group="picture")

    ask_where(view, f"{printable(session.runs['a'].name)}-{view.TAB}.svg".replace("/", "_"), save)
    view.host.remark(".svg")


def save_picture(session: Session, path: Path, svg: str, *, force: bool) -> str:
    """Writes a picture.

    Args:
        session: what is open; its files are not replaced.
        path: as typed.
        svg: the picture.
        force: replace a file that is there.

    Returns:
        A line that says where it was written, or why it was not.
    """
    if path.suffix.lower() != ".svg":
        return "The suffix says the form: a picture of this view is .svg"
    sources = [trace.source.path for run in session.runs.values() for trace in run.traces]
    try:
        write_text(path, without_fonts(svg), force=force, sources=sources)
    except TraceError as error:
        return str(error)
    return f"wrote {path.resolve()}"
