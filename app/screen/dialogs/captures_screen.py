"""A screen that compares the captures of a folder: one row per file, Enter opens it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import polars as pl
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

from tracetui.analysis.captures.model import CaptureRow
from tracetui.analysis.scope import Scope
from tracetui.analysis.tables.runs import CAPTURES, ROLES
from tracetui.app.session import jobs
from tracetui.app.text.fitting import printable, to_ascii
from tracetui.app.widgets.frame_table import FrameTable
from tracetui.parsers import Run, Trace

SCHEMA = {
    "number": pl.Int64(),
    **{column.name: pl.Float64() if column.kind in ("time", "percent") else pl.String() for column in CAPTURES.columns},
    "kernels": pl.Int64(),
    "problem": pl.String(),
}


class CapturesScreen(ModalScreen["tuple[Path, ...] | None"]):
    """Reads the other files in the background; its result is the path of the chosen file."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "cancel", show=False),
        Binding("enter", "choose", show=False),
    ]

    def __init__(self, run: Run, scope: Scope, *, use_cache: bool, ascii: bool) -> None:
        super().__init__()
        self._run, self._scope = run, scope
        self._use_cache = use_cache
        self._ascii = ascii
        self._found: list[CaptureRow] = []
        self._read = 0
        self._left_alone = threading.Event()

    def compose(self) -> ComposeResult:
        """Lays out a title, the table, and a line of keys."""
        with Vertical(id="reader"):
            yield Static(markup=False, id="dialog-title")
            yield FrameTable(id="captures")
            yield Static(" Enter opens, < > sort, r reverses, Esc closes", markup=False, id="reader-foot")

    def on_mount(self) -> None:
        """Starts reading."""
        table = self.query_one(FrameTable)
        table.ascii = self._ascii
        table.empty_text = "Reading …"
        table.focus()
        self._show_title()
        self._timer = self.set_interval(0.2, self._show_title)
        jobs.start(self, "captures", self._measure)

    def _measure(self) -> list[CaptureRow]:
        from tracetui.analysis.captures.captures import captures
        from tracetui.parsers import open_path

        def done(_: CaptureRow) -> None:
            self._read += 1

        def read(path: Path) -> Trace:
            return open_path(path, cache=self._use_cache, cancel=self._left_alone).main

        return captures(self._run, self._scope, read, done)

    def on_unmount(self) -> None:
        """Stops reading: nobody waits for the other files."""
        self._left_alone.set()

    def on_job_done(self, event: jobs.JobDone[list[CaptureRow]]) -> None:
        """Shows the table, or says why there is none."""
        event.stop()
        self._timer.stop()
        table = self.query_one(FrameTable)
        if event.error is not None or not event.result:
            why = f": {event.error}" if event.error is not None else ": there is only one of this kind"
            table.empty_text = ""
            self.query_one("#dialog-title", Static).update(self._own(f" No captures to compare{why}"))
            return
        self._found = event.result
        frame = captures_frame(self._found)
        shown = [column for column in CAPTURES.columns if frame[column.name].null_count() < frame.height]
        table.load(frame, shown)
        self._show_title()

    def _show_title(self) -> None:
        what = f"{len(self._found)} captures" if self._found else f"Reading captures: {self._read} done"
        self.query_one("#dialog-title", Static).update(self._own(f" {what}; means of one range, GPU: what it launched"))

    def _own(self, text: str) -> str:
        text = printable(text)
        return to_ascii(text) if self._ascii else text

    def on_frame_table_activated(self, event: FrameTable.Activated) -> None:
        """Treats a double click as Enter."""
        event.stop()
        self.action_choose()

    def action_choose(self) -> None:
        """Opens the capture under the cursor."""
        if (path := self._current()) is not None:
            self.dismiss((path,))

    def _current(self) -> Path | None:
        """Returns the file under the cursor, if it could be read."""
        row = self.query_one(FrameTable).current
        return None if row is None or row["problem"] is not None else Path(self._found[int(str(row["number"]))].path)

    def action_cancel(self) -> None:
        """Closes the screen without a choice."""
        self.dismiss(None)


def captures_frame(found: Sequence[CaptureRow]) -> pl.DataFrame:
    """Returns the rows of the screen's table; times in ns, null if a capture lacks the value."""
    rows = []
    for number, row in enumerate(found):
        cells: dict[str, object] = {
            "number": number,
            "capture": row.label,
            "problem": row.problem,
            "step_ns": _ns(row.average_step_us),
            "gpu_ns": _ns(row.gpu_us_per_step if row.steps else row.gpu_us),
            "busy_percent": row.busy_percent,
            "kernels": row.kernels if row.kernels_per_step is None else round(row.kernels_per_step),
            "wall_ns": _ns(row.wall_us),
            "top": row.problem or (row.top_kernel.short_name if row.top_kernel else None),
        }
        for role, _ in ROLES:
            cells[f"{role}_host_ns"] = _ns(row.of_phase(role, "host_mean_us"))
            cells[f"{role}_gpu_ns"] = _ns(row.of_phase(role, "launched_mean_us"))
        rows.append(cells)
    return pl.DataFrame(rows, schema=SCHEMA)


def _ns(us: float | None) -> float | None:
    return None if us is None else round(us * 1000, 6)  # whole ns, which a product may miss by the last bit
