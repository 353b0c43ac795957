"""Copying from a table, and saving it to a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tracetui.app.reports.png import png
from tracetui.app.tables import export
from tracetui.app.tables.columns import cell_text
from tracetui.app.text import fitting
from tracetui.app.text.exit_codes import UsageError
from tracetui.app.text.paths import is_file, typed
from tracetui.app.text.pictures import without_fonts
from tracetui.app.views.common.base import View
from tracetui.app.views.common.chart import as_slide
from tracetui.app.views.common.comments import row_name
from tracetui.app.widgets.prompt import Prompt
from tracetui.app.widgets.tree_table import TreeTable
from tracetui.parsers.errors import TraceError
from tracetui.parsers.runs.comments import add_comment, file_of
from tracetui.parsers.written import written

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tracetui.app.views.common.page import PageState

PICTURES = (".svg", ".png")
CLIPBOARD_LIMIT = 75_000
"""Bytes: many terminals drop an OSC 52 sequence of more than 100 kB, which base64 makes of 75."""


class SavingView(View):
    """A view with a table that can be copied and saved."""

    _doubtful = ""
    """The name for which the user was asked whether to replace the file."""

    @property
    def table(self) -> TreeTable:
        """The table."""
        return self.query_one("#table", TreeTable)

    @property
    def prompt(self) -> Prompt:
        """The line for filter and file names."""
        return self.query_one(Prompt)

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
        """Copies the row, tab-separated."""
        row = self.table.current
        if row is not None:
            self._copy("\t".join(self._fields(row)), "the row")

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

    def _fields(self, row: Mapping[str, object]) -> list[str]:
        return [cell_text(row.get(c.name), c.kind, ascii=self.session.ascii) for c in self.table.chosen]

    def _copy(self, text: str, what: str) -> None:
        self.app.copy_to_clipboard(text)
        self.host.say(f"Copied {what} (if the terminal allows it: OSC 52)")

    def action_export(self) -> None:
        """Asks for a file name."""
        if self.state is not None:
            run = fitting.printable(self.session.runs["a"].name)
            name = f"{run}-{self.state.page.saved_as or self.state.page.id}.csv".replace("/", "_")
            self.prompt.open("export", "save as", name)
            self.prompt.remark(".csv .json .parquet .md")
            self.host.refresh_lines()

    def _export(self, name: str, *, asked: bool = False) -> None:
        """Writes the view to a file.

        Args:
            name: as typed.
            asked: whether the user was told that this file is there already.
        """
        state = self.state
        if state is None or not name.strip():
            return
        path = typed(name)
        force = asked and name == self._doubtful
        if is_file(path) and not force:
            self._doubtful = name
            self.prompt.open("replace", "is there already; Enter replaces it, Esc keeps it:", name)
            self.host.refresh_lines()
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
            self.prompt.open("export", "save picture as", name)
            self.prompt.remark(" ".join(PICTURES))
            self.host.refresh_lines()

    def action_comment(self) -> None:
        """Asks for a comment on the row."""
        if self.state is not None and self.table.current is not None:
            self.prompt.open("comment", "comment", "")
            self.prompt.remark(fitting.fit(fitting.printable(self._row_name()), 32))
            self.host.refresh_lines()

    def _row_name(self) -> str:
        """What names the row under the cursor."""
        state, row = self.state, self.table.current
        return "" if state is None or row is None else row_name(state.page, row)

    def _comment(self, text: str) -> None:
        """Writes a comment on the row."""
        state, row = self.state, self.table.current
        if state is None or row is None or not text.strip():
            return
        try:
            add_comment(self.session.runs["a"], self.TAB, state.page.id, row_name(state.page, row), text)
        except TraceError as error:
            self.host.say(str(error))
        else:
            self.mark_comments()
            self.host.say(f"wrote {file_of(self.session.runs['a'])}")

    def mark_comments(self) -> None:
        """Marks the rows of the page in view that have comments."""
        raise NotImplementedError

    def _export_picture(self, path: Path, *, force: bool) -> None:
        """Writes the view's chart; where it has none, what the screen shows."""
        chart, filter = self.chart(), self.state.filter if self.state is not None else ""
        svg = (
            without_fonts(self.app.export_screenshot(title="tracetui"))
            if chart is None
            else as_slide(self.session, self.TAB, filter if not self.own_filter else "", chart)
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
