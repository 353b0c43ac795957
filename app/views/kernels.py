"""Kernels: what ran on the GPU, by name; inside, their launches, with a picture of how long these take in any tab."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np
from textual.app import ComposeResult
from textual.message import Message

from tracetui.analysis.base.distribution import Distribution, distribution, p95_of
from tracetui.analysis.base.number_format import format_count, format_ns
from tracetui.analysis.kernels import kernels, known_groupings
from tracetui.analysis.memops import copy_rows, memops
from tracetui.analysis.tables.kernels import MEMOPS
from tracetui.app.charts.histogram import bins_for, histogram
from tracetui.app.keys.commands import key
from tracetui.app.session import jobs
from tracetui.app.text.words import nothing
from tracetui.app.views.common.counted import CountedView, filled, in_units
from tracetui.app.views.common.page import Page
from tracetui.app.views.common.table_view import TableView
from tracetui.app.views.kernel_pages import group_page, inside_row, kernel_page, member_page, work_group_page
from tracetui.app.widgets.arranged import AT_ONCE
from tracetui.app.widgets.painted import Picture
from tracetui.parsers.arrays import Ints

UNASKED_ROWS = 30
"""The least lines of a tab for the picture to be shown by default."""
LEAST_ROWS, MOST_ROWS = 8, 14
MARKS = ("longest", "p95", "median")
"""The launches that one key goes to, one after the other."""


class LaunchPicture(Picture):
    """The place of the picture, for which another thread sorts the launches of a long table."""

    class Ready(Message):
        """The distribution that was asked for last is there."""

    def __init__(self) -> None:
        super().__init__(id="picture")
        self.found: Distribution | None = None
        """The distribution of the launches that were asked for, or till then of those before."""
        self._of: tuple[object, ...] | None = None
        self._asked: tuple[tuple[object, ...], Callable[[], Distribution | None]] | None = None
        self._doing: tuple[object, ...] | None = None

    @property
    def is_working(self) -> bool:
        """Whether the distribution is not that which was asked for yet."""
        return self._asked is not None

    def ask(self, of: tuple[object, ...], work: Callable[[], Distribution | None], *, at_once: bool) -> None:
        """Asks for a distribution.

        Args:
            of: what it is made from; nothing is done twice for the same.
            work: computes it.
            at_once: whether to wait for it.
        """
        if of == self._of or (self._asked is not None and of == self._asked[0]):
            return
        if at_once:
            self.found, self._of, self._asked = work(), of, None
            return
        if self._of is None or self._of[0] is not of[0]:
            self.found = None  # that of another page
        self._asked = of, work
        if self._doing is None:
            self._work()

    def _work(self) -> None:
        assert self._asked is not None
        self._doing, work = self._asked
        jobs.start(self, "picture", work)

    def on_job_done(self, event: jobs.JobDone[Any]) -> None:
        """Keeps the distribution, unless another one was asked for meanwhile."""
        event.stop()
        done, self._doing = self._doing, None
        if self._asked is None:
            return
        if done is not self._asked[0]:
            self._work()
            return
        self._asked = None
        if event.error is not None:
            raise event.error
        self.found, self._of = event.result, done
        self.post_message(self.Ready())


class PicturedView(TableView):
    """A view whose rows lead to kernels and their launches, with a picture that marks the launch under the cursor."""

    def __init__(self) -> None:
        super().__init__()
        self._wants_picture: bool | None = None
        """Whether the user wants the picture; None lets the height decide."""
        self._next_mark = 0

    def content(self) -> ComposeResult:
        """A place for the picture, above what every table has."""
        yield LaunchPicture()
        yield from super().content()

    def inside(self, page: Page, row: Mapping[str, Any]) -> Callable[[], Page] | None:
        """A kernel's launches; the kernels of a module, an operator or a range."""
        return inside_row(self.session, page, row)

    def members(self, page: Page, row: Mapping[str, Any], kind: str) -> Page | None:
        """A kernel's operators or modules."""
        return member_page(self.session, page, row, kind) if page.id == "kernels" else None

    def counterpart(self, tab: str) -> str:
        """In Counters, the kernel as its counters spell it."""
        return str((self.table.current or {}).get("measured_as") or "") if tab == "counters" else ""

    # --- the picture

    @property
    def _of_launches(self) -> bool:
        return self.state is not None and self.state.page.id == "launches" and self.state.page.frame.height > 0

    def _show_page(self) -> None:
        super()._show_page()
        self._next_mark = 0
        self._draw_launches()

    def on_resize(self) -> None:
        """Draws the picture anew; Textual calls the handler of `TableView` too."""
        self._draw_launches()

    def follow_cursor(self) -> None:
        """Updates the picture: it marks the launch under the cursor and covers the launches that the filter keeps."""
        super().follow_cursor()
        self._draw_launches()

    def on_launch_picture_ready(self, event: LaunchPicture.Ready) -> None:
        """Draws what another thread worked out."""
        event.stop()
        self._draw_launches()

    def action_picture(self) -> None:
        """Shows or hides the picture of launches."""
        if not self._of_launches:
            self.host.say(
                f"{key('table.picture')} shows how long a kernel's launches take: {key('go.in')} on a kernel opens them"
            )
            return
        self._wants_picture = not self.query_one(LaunchPicture).display
        self._draw_launches()
        self.host.refresh_lines()

    def _draw_launches(self) -> None:
        picture = self.query_one(LaunchPicture)
        width, height = self.size
        wanted = height >= UNASKED_ROWS if self._wants_picture is None else self._wants_picture
        lines = self._launch_lines(width, height) if wanted and self._of_launches else []
        if lines and picture.is_working and picture.found is not None:
            return  # drawn once the launches in view are sorted
        picture.display = bool(lines)
        if lines:
            picture.show(lines)

    def _launch_lines(self, width: int, height: int) -> list[str]:
        table = self.table
        count = table.height_of_view
        picture = self.query_one(LaunchPicture)
        if not table.is_working:  # till then the picture is of the rows in view
            made_from = (self.state, count, width, self.state and self.state.filter)
            durations, bins = table.values_later("duration_ns"), bins_for(width - 2, count)
            long = count > AT_ONCE
            picture.ask(made_from, lambda: distribution(durations(), bins), at_once=not long)
        found, ascii = picture.found, self.session.ascii
        here = cast("int | None", (table.current or {}).get("duration_ns"))
        rows = min(max(height // 3, LEAST_ROWS), MOST_ROWS)
        if found is None and (table.is_working or picture.is_working):
            return [""] * rows  # so that the table keeps its place
        if found is None:
            same = f"All {format_count(count)} launches take {format_ns(here, ascii=ascii)}."
            return [f" {same}"] if count > 1 and here is not None else []
        return [f" {line}" for line in histogram(found, width - 2, rows, here=here, ascii=ascii)]

    # --- from the picture to a launch

    def action_launch_mark(self) -> None:
        """Goes to the longest launch in view; again, to that at the 95th percentile, and to the median."""
        if not self._of_launches or not self.table.height_of_view:
            self.host.say(
                f"{key('launch.mark')} goes to a kernel's longest launch: {key('go.in')} on a kernel opens them"
            )
            return
        durations = self.table.values("duration_ns").fill_null(-1).to_numpy()
        mark = MARKS[self._next_mark % len(MARKS)]
        self._next_mark += 1
        position = _position(durations, mark)
        self.table.move_to(position)
        lasting = format_ns(int(durations[position]), ascii=self.session.ascii)
        following = MARKS[self._next_mark % len(MARKS)]
        leads = f"{key('launch.mark')}: {following}"
        if not self.table.frame["at_ns"].is_null().all():  # Nsight Compute knows durations only
            leads = f"{key('go.timeline')} shows it in the timeline, {leads}"
        self.host.say(f"The {mark} of {durations.size:,} launches: {lasting}; {leads}")

    def footer_labels(self) -> dict[str, str]:
        """Returns labels of the picture's keys, if there are launches."""
        labels = super().footer_labels()
        if self.counterpart("counters"):
            labels["tab.counters"] = "counters"
        if self._of_launches and not self.has_class("-blank"):
            shown = self.query_one(LaunchPicture).display
            labels |= {"table.picture": "hide" if shown else "histogram", "launch.mark": "longest"}
        return labels


def _position(durations: Ints, mark: str) -> int:
    """Returns the position of the first launch of this rank."""
    ordered = np.sort(durations)
    value = {"longest": ordered[-1], "p95": p95_of(ordered), "median": ordered[(ordered.size - 1) // 2]}[mark]
    return int(np.flatnonzero(durations == value)[0])


class KernelsView(CountedView, PicturedView):
    """One row per kernel name, or per group of kernels; copies and fills beside them."""

    TAB = "kernels"
    TABLES = ("kernels", "copies")
    GROUPS = TABLES

    def groupings(self) -> tuple[str, ...]:
        """What this recording says of its kernels, or of its copies."""
        if self.kind == "copies":
            return self.session.of_counted(
                "copy groupings", lambda counted: known_groupings(counted, copy_rows(counted))
            )
        return self.session.of_counted("kernel groupings", known_groupings)

    def root(self) -> Page:
        """All kernels in scope, or all copies and fills."""
        session = self.session
        grouped_by = self.grouped_by if self.grouped_by in self.groupings() else "name"
        if self.kind == "copies" and grouped_by != "name":
            return work_group_page(session, grouped_by, "copies and fills", copy_rows)
        if self.kind == "copies":
            frame = session.of_counted("memops", memops)
            page = Page.of(
                MEMOPS,
                frame,
                columns=filled(MEMOPS.columns, frame),
                note=session.counted().describe() + session.counted().work_words,
                empty=nothing("copies", session.trace().info.kind),
            )
            return in_units(session, page)
        if grouped_by != "name":
            return group_page(session, grouped_by)
        return kernel_page(session, session.of_counted("kernels", kernels), title="Kernels")
