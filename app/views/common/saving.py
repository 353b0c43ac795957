"""Copying from a table, and saving it to a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tracetui.app.charts.slide import png
from tracetui.app.tables import export
from tracetui.app.text import fitting
from tracetui.app.text.exit_codes import UsageError
from tracetui.app.text.paths import is_file, typed
from tracetui.app.text.pictures import without_fonts
from tracetui.app.views.common.base import View
from tracetui.app.views.common.chart import as_slide
from tracetui.app.views.common.comments import row_name
from tracetui.app.widgets.prompt import SAVE_HINTS, Question
from tracetui.app.widgets.tree_table import TreeTable
from tracetui.parsers.errors import TraceError
from tracetui.parsers.runs.comments import add_comment, file_of
from tracetui.parsers.written import written

if TYPE_CHECKING:
    from collections.abc import Callable

    from tracetui.app.views.common.page import PageState

PICTURES = (".svg", ".png")
CLIPBOARD_LIMIT = 75_000
"""Bytes: many terminals drop an OSC 52 sequence of more than 100 kB, which base64 makes of 75."""


class SavingView(View):
    """A view with a table that can be copied and saved."""

    @property
    def table(self) -> TreeTable:
        """The table."""
        return self.query_one("#table", TreeTable)

    @property
    def state(self) -> PageState | None:
        """The page in view."""
        raise NotImplementedError

    def action_copy_name(self) -> None:
        """Copies the full name of the row."""
        row = self.table.current
        texts = [column.name for column in self.table.columns if column.kind == "text"]
        if row is not None and texts:
            name = "name" if "name" in row else texts[0]
            self._copy(str(row.get(name) or ""), "the name")

    def action_copy_row(self) -> None:
        """Copies the titles and the row as they are seen, tab-separated; texts that are cut are copied whole."""
        seen = self.table.current_texts()
        if seen:
            self._copy("\n".join("\t".join(texts) for texts in zip(*seen, strict=True)), "the row and its titles")

    def action_copy_table(self) -> None:
        """Copies the rows in view, tab-separated with a header; to a file where they are too many."""
        state = self.state
        if state is None:
            return
        text = export.tsv(self.table.view(), self.table.chosen)
        if len(text.encode()) <= CLIPBOARD_LIMIT:
            self._copy(text, f"{self.table.height_of_view:,} rows")
        else:
            path = export.free_path(Path(f"tracetui-{state.page.saved_as or state.page.id}.tsv"))
            self._write(
                path, lambda part: part.write_text(text, encoding="utf-8"), "too much for the clipboard: wrote "
            )

    def _copy(self, text: str, what: str) -> None:
        self.app.copy_to_clipboard(text)
        self.host.say(f"Copied {what} (if the terminal allows it: OSC 52)")

    def action_export(self) -> None:
        """Asks for a file name."""
        if self.state is not None:
            run = fitting.printable(self.session.runs["a"].name)
            name = f"{run}-{self.state.page.saved_as or self.state.page.id}.csv".replace("/", "_")
            ask_where(self, name, self._export)
            self.host.remark(".csv .json .parquet .md")

    def _export(self, path: Path, force: bool) -> None:
        """Writes the view to a file; with `force`, over the one that is there."""
        state = self.state
        if state is None:
            return
        if path.suffix.lower() in PICTURES:
            self._export_picture(path, force=force)
        elif path.suffix.lower() not in export.SUFFIXES:
            self.host.say("The suffix says the form: .csv .json .parquet .md; of a picture .svg .png")
        else:
            frame, columns = self.table.view(), self.table.columns
            self._write(path, lambda part: export.write(frame, columns, part), "wrote ", force=force)

    def action_save_picture(self) -> None:
        """Asks for the name of a picture."""
        if self.state is not None:
            run = fitting.printable(self.session.runs["a"].name)
            name = f"{run}-{self.state.page.saved_as or self.state.page.id}.svg".replace("/", "_")
            ask_where(self, name, self._save_picture)
            self.host.remark(" ".join(PICTURES))

    def _save_picture(self, path: Path, force: bool) -> None:
        """Writes the view's chart; with `force`, over the file that is there."""
        if path.suffix.lower() in PICTURES:
            self._export_picture(path, force=force)
        else:
            self.host.say(f"The suffix says the form: {' '.join(PICTURES)}")

    def action_comment(self) -> None:
        """Asks for a comment on the row; the one that it has can be changed, or emptied, which removes it."""
        if self.state is not None and self.table.current is not None:
            hints = (*SAVE_HINTS, ("empty removes it", "")) if self.comment else SAVE_HINTS
            self.host.ask(Question("comment", "comment", self._comment, self.comment, hints=hints, joins=in_a_line))
            self.host.remark(fitting.fit(fitting.printable(self._row_name()), 32))

    def _row_name(self) -> str:
        """What names the row under the cursor."""
        state, row = self.state, self.table.current
        return "" if state is None or row is None else row_name(state.page, row)

    def _comment(self, text: str) -> bool:
        """Writes a comment on the row in the place of the one that it has; returns that the line closes."""
        state, row, text = self.state, self.table.current, text.strip()
        if state is None or row is None or text == self.comment.strip():
            return True
        run, name = self.session.runs["a"], row_name(state.page, row)
        try:
            add_comment(run, self.TAB, state.page.id, name, text, replaces=self.written_comment)
        except TraceError as error:
            self.host.say(str(error))
        else:
            self.mark_comments()
            self.host.say(f"{'wrote' if text else 'removed the comment in'} {file_of(run)}")
        return True

    @property
    def written_comment(self) -> str:
        """Returns what was written about the row under the cursor, as the file has it; empty if nothing was."""
        raise NotImplementedError

    @property
    def comment(self) -> str:
        """Returns what was written about the row under the cursor, as it can be shown."""
        return fitting.printable(self.written_comment, ascii=self.session.ascii)

    def mark_comments(self) -> None:
        """Marks the rows of the page in view that have comments."""
        raise NotImplementedError

    def _export_picture(self, path: Path, *, force: bool) -> None:
        """Writes the view's chart; where it has none, what the screen shows."""
        chart, filter = self.chart(), self.state.filter if self.state is not None else ""
        svg = (
            without_fonts(self.app.export_screenshot(title="tracetui"))
            if chart is None
            else as_slide(self.session, self.TAB, filter if not self.own_filter else "", chart, compares=self.COMPARES)
        )
        try:
            content = svg.encode() if path.suffix.lower() == ".svg" else png(svg)
        except UsageError as problem:
            self.host.say(str(problem))
        else:
            self._write(path, lambda part: part.write_bytes(content), "wrote ", force=force)

    def _write(self, path: Path, write: Callable[[Path], object], words: str, *, force: bool = False) -> None:
        sources = [trace.source.path for run in self.session.runs.values() for trace in run.traces]
        try:
            with written(path, force=force, sources=sources) as part:
                write(part)
        except TraceError as error:
            self.host.say(str(error))
        else:
            self.host.say(f"{words}{path.resolve()}")


def in_a_line(text: str) -> str:
    """Returns a pasted text of several lines in one."""
    return " ".join(text.split())


def ask_where(view: View, name: str, save: Callable[[Path, bool], object]) -> None:
    """Asks for the name of a file, and again before one that is there is replaced.

    Args:
        view: what asks.
        name: the name to begin with, selected; its suffix is that of a name typed without one.
        save: writes the file; its second argument says whether to replace one that is there.
    """

    def begin(text: str) -> bool:
        if not text.strip():
            return True
        if not Path(text.strip()).suffix and not text.rstrip().endswith("/"):
            text = text.rstrip() + "".join(Path(name).suffixes[-3 if name.endswith(".gz") else -1 :])
        if is_file(typed(text)):
            label = "is there already; Enter replaces it, Esc keeps it:"
            view.host.ask(Question("replace", label, lambda again: replace(text, again), text, True, hints=SAVE_HINTS))
        else:
            write(text, force=False)
        return True

    def replace(known: str, text: str) -> bool:
        if text != known:
            return begin(text)
        write(text, force=True)
        return True

    def write(text: str, *, force: bool) -> None:
        # the picture must not show the line in which its name was typed
        view.call_after_refresh(save, typed(text), force)

    view.host.ask(Question("save", "save as", begin, name, True, hints=SAVE_HINTS))
