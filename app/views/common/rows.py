"""What can be done with the rows of a page in view: filter, sort, copy, save and comment."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from tracetui.analysis.tables.table import Field
from tracetui.app import tabs
from tracetui.app.charts.slide import png
from tracetui.app.tables import export, filters
from tracetui.app.text import fitting
from tracetui.app.text.exit_codes import UsageError
from tracetui.app.text.paths import is_file, typed
from tracetui.app.text.pictures import without_fonts
from tracetui.app.views.common.base import View
from tracetui.app.views.common.chart import as_slide
from tracetui.app.views.common.page import PageState, by_row, row_name
from tracetui.app.widgets.arranged import Arranged
from tracetui.app.widgets.prompt import FILTER_HINTS, SAVE_HINTS, Question
from tracetui.app.widgets.tree_table import TreeTable
from tracetui.parsers.errors import TraceError
from tracetui.parsers.runs.comments import add_comment, file_of
from tracetui.parsers.written import written

PICTURES = (".svg", ".png")
CLIPBOARD_LIMIT = 75_000
"""Bytes: many terminals drop an OSC 52 sequence of more than 100 kB, which base64 makes of 75."""
SORT_HINTS = (("Enter", "sort, again: reverse"), ("Esc", "cancel"), ("a part of a title", ""))


class RowsView(View):
    """A view with nested pages, the innermost in view, whose rows can be filtered, sorted, copied and saved."""

    def __init__(self) -> None:
        super().__init__()
        self._stack: list[PageState] = []
        self._comments: dict[int, str] = {}
        """What was written about rows of the page in view, by row of its frame."""

    @property
    def table(self) -> TreeTable:
        """The table."""
        return self.query_one("#table", TreeTable)

    @property
    def state(self) -> PageState | None:
        """The page in view."""
        return self._stack[-1] if self._stack else None

    @property
    def shares_filter(self) -> bool:
        """Returns whether its first page uses the filter that all tabs share."""
        return tabs.OWN_FILTER not in tabs.BY_NAME[self.TAB].can

    @property
    def own_filter(self) -> bool:
        """Returns whether this is an inner page, since inner pages have filters of their own."""
        return len(self._stack) > 1 or not self.shares_filter

    def show_title(self) -> None:
        """Updates the title above the table."""
        raise NotImplementedError

    # --- the clipboard and files

    @property
    def place_text(self) -> str:
        """Returns the row's line, or what it is called."""
        row = self.table.current or {}
        return str(row.get("line") or row.get("name") or "")

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
        if not seen:
            self.host.say("There are no rows here")
        else:
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

    def action_export(self) -> None:
        """Asks for a file name."""
        self._ask_where(".csv", self._export, ".csv .json .parquet .md")

    def action_save_picture(self) -> None:
        """Asks for the name of a picture."""
        self._ask_where(".svg", self._save_picture, " ".join(PICTURES))

    def _ask_where(self, suffix: str, save: Callable[[Path, bool], object], forms: str) -> None:
        if self.state is not None:
            ask_where(self, file_name(self, self.state.page.saved_as or self.state.page.id, suffix), save)
            self.host.remark(forms)

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
            names = self.session.run_names
            runs = {f"{side}_run": name for side, name in names.items()} if self.COMPARES else {"run": names["a"]}
            about = {**runs, "base": " · ".join(filter(None, (self.base, state.page.unit))), "filter": state.filter}
            self._write(path, lambda part: export.write(frame, columns, part, about), "wrote ", force=force)

    @property
    def base(self) -> str:
        """What the numbers of the page in view cover."""
        return self.state.page.note if self.state is not None else ""

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
        row = self.table.row_number(self.table.cursor)
        return self._comments.get(row, "") if row is not None else ""

    @property
    def comment(self) -> str:
        """Returns what was written about the row under the cursor, as it can be shown."""
        return fitting.printable(self.written_comment, ascii=self.session.ascii)

    def mark_comments(self) -> None:
        """Marks the rows of the page in view that have comments, by the session's file as it is now."""
        state = self.state
        if state is not None and "a" in self.session.runs:
            self._comments = by_row(state.page, self.TAB, self.session.runs["a"])
            self.table.mark(frozenset(self._comments))
            self.show_title()

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
        self.host.say(write_file(self, path, write, words, force=force))

    # --- which rows, in which order

    def action_filter(self) -> None:
        """Opens the filter line."""
        if self.state is None:
            return
        before, place = self.state.filter, self.host.here()

        def keep(text: str) -> bool:
            kept = self._set_filter(text)
            if kept and text.strip() != before:
                self.host.leave(place)
            return kept

        self.host.ask(
            Question(
                "filter",
                "/",
                keep,
                before,
                changed=self._set_filter,
                cancelled=lambda: self._set_filter(""),
                hints=FILTER_HINTS,
            )
        )
        self._remark()

    def apply_filter(self) -> None:
        """Follows the session's filter on the root page."""
        if self.shares_filter and self._stack and self._stack[0].filter != self.session.filter:
            self._stack[0].filter = self.session.filter
            try:
                self._stack[0].parsed = filters.parse(self.session.filter)
                if len(self._stack) == 1:
                    self.table.set_filter(self._stack[0].parsed)
            except filters.FilterError as error:
                self._stack[0].parsed = filters.Filter()
                if len(self._stack) == 1:
                    self.table.set_filter(filters.Filter())
                    self.host.say(f"filter: {error}")
            self.show_title()

    def _set_filter(self, text: str) -> bool:
        """Filters the page in view; on the root page, all tabs."""
        state = self.state
        if state is None:  # the rows are computed anew, as for another rank
            if self.shares_filter:
                self.session.filter = text.strip()
            return True
        try:
            parsed = filters.parse(text)
            self.table.set_filter(parsed)
        except filters.FilterError as error:
            self.host.remark(f"{error}")
            return False
        state.filter, state.parsed = text.strip(), parsed
        if len(self._stack) == 1 and self.shares_filter:
            self.session.filter = state.filter
        self._remark()
        self.show_title()
        self.host.refresh_lines()
        return True

    def _remark(self) -> None:
        state = self.state
        if state is not None:
            self.host.remark(f"{self._matching} of {state.page.frame.height:,} {state.page.noun}")

    @property
    def _matching(self) -> str:
        """How many rows the filter keeps, which for a long table is not known at once."""
        return "…" if self.table.is_working else f"{self.table.matching:,}"

    def on_arranged_settled(self, event: Arranged.Settled) -> None:
        """Says how many rows a filter keeps."""
        event.stop()
        if self.host.asking:
            self._remark()
        self.show_title()
        self.host.refresh_lines()

    @property
    def filter_line(self) -> str:
        """Returns the filter of the page in view and how many rows it keeps."""
        state = self.state
        if state is None or not state.filter:
            return ""
        count = f"{self._matching} of {state.page.frame.height:,} {state.page.noun}"
        leads = "Esc goes back to the finding" if self.host.came_from_finding and not self.own_filter else "Esc clears"
        return f"/ {fitting.printable(state.filter)}   {count}   {leads}"

    def action_sort(self) -> None:
        """Asks for the column to sort by, and says at the right which one is meant."""
        if self.state is None:
            return
        self.host.ask(Question("sort", "sort by:", self._sort_by, changed=self._say_meant, pause=0.0, hints=SORT_HINTS))
        self._say_meant("")

    def _say_meant(self, text: str) -> None:
        """Lists the columns that the text may mean; the first is the one that Enter takes."""
        columns = columns_named(self.table.chosen, text)
        first = f"[{columns[0].label}]" if columns and text.strip() else ""
        titles = " ".join(filter(None, (first, *(column.label for column in columns[bool(first) :]))))
        words = titles or "no column has this in its title"
        self.host.remark(fitting.fit(words, max(self.size.width - 32, 12), ascii=self.session.ascii))

    def _sort_by(self, text: str) -> bool:
        """Sorts by the column that is meant, or reverses the order of its rows; returns whether the line closes."""
        if not text.strip() or self.state is None:
            return True
        columns = columns_named(self.table.chosen, text)
        if not columns:
            return False
        column, sort = columns[0], self.table.sort
        same = sort is not None and sort[0] == column.name
        self.table.set_sort(column.name, descending=not sort[1] if same and sort is not None else column.right)
        if column not in self.table.shown:
            hidden, pinned = self.table.hidden - {column.name}, self.table.pinned | {column.name}
            self.table.choose_columns(hidden=hidden, pinned=pinned)
        if column not in self.table.shown:
            self.host.say(f"Sorted by {column.label}, which has no room here")
        return True


def columns_named(columns: Sequence[Field], text: str) -> list[Field]:
    """Returns the columns that a text may mean, the likeliest first.

    Upper and lower case are the same. The whole title goes first, then a title that begins with the text, then a word
    of it that does, then a title that holds it, then one that has its letters in their order (``gt``: GPU total).

    Args:
        columns: in the order of the table; of equally good ones, the earlier goes first.
        text: as typed; an empty one means every column.
    """
    wanted = text.strip().lower()
    ranked = [(rank, column) for column in columns if (rank := _rank(column.label.lower(), wanted)) is not None]
    return [column for _, column in sorted(ranked, key=lambda each: each[0])]


def _rank(title: str, wanted: str) -> int | None:
    letters = ".*".join(map(re.escape, wanted.replace(" ", "")))
    forms = (
        title == wanted,
        title.startswith(wanted),
        any(word.startswith(wanted) for word in title.split()),
        wanted in title,
        re.search(letters, title) is not None,
    )
    return next((rank for rank, holds in enumerate(forms) if holds), None)


def write_file(view: View, path: Path, write: Callable[[Path], object], words: str = "wrote ", *, force: bool) -> str:
    """Writes a file, over one that is there with `force`; returns a line that says where, or why not."""
    sources = [trace.source.path for run in view.session.runs.values() for trace in run.traces]
    try:
        with written(path, force=force, sources=sources) as part:
            write(part)
    except TraceError as error:
        return str(error)
    return f"{words}{path.resolve()}"


def file_name(view: View, what: str, suffix: str) -> str:
    """Returns a name for what is saved of a run."""
    return f"{fitting.printable(view.session.runs['a'].name)}-{what}{suffix}".replace("/", "_")


def ask_for_picture(view: View, screen: Callable[[], str], *, of_chart: bool) -> None:
    """Asks where to save a view that has no table as SVG.

    Args:
        view: the view in view.
        screen: what the terminal shows, as SVG.
        of_chart: of the view's chart, if it has one; drawn beside the screen's thread, since the lanes of millions of
            events take a moment.
    """
    session = view.session.frozen()

    def save(path: Path, force: bool, draw: Callable[[], str] = screen) -> str:
        if path.suffix.lower() != ".svg":
            return "The suffix says the form: a picture of this view is .svg"
        svg = without_fonts(draw())
        return write_file(view, path, lambda part: part.write_text(svg, encoding="utf-8", newline=""), force=force)

    def draw_chart() -> str:
        chart = view.chart()
        return view.app.call_from_thread(screen) if chart is None else as_slide(session, view.TAB, "", chart)

    def save_chart(path: Path, force: bool) -> None:
        def work() -> None:
            line = save(path, force, draw_chart)
            view.app.call_from_thread(view.host.say, line)

        view.run_worker(work, thread=True, exclusive=True, group="picture")

    name = file_name(view, view.TAB, ".svg")
    ask_where(view, name, save_chart if of_chart else lambda path, force: view.host.say(save(path, force)))
    view.host.remark(".svg")


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
