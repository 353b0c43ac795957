"""Overview: the first page, everything on one screen."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from textual.containers import VerticalScroll
from textual.widgets import Static

from tracetui.analysis.findings.verdict import verdict
from tracetui.analysis.gpu.step_kinds import page_kinds
from tracetui.analysis.host import host_functions
from tracetui.analysis.kernels import kernels
from tracetui.analysis.matching.clean_step import page_step
from tracetui.analysis.matching.light_overview import run_overview
from tracetui.analysis.memory.peak import memory
from tracetui.analysis.ranks.of_run import jobs_of, ranks_of
from tracetui.analysis.ranks.sentences import brief
from tracetui.analysis.timeline.step_lanes import typical_picture
from tracetui.app.keys import commands
from tracetui.app.session.facts import SessionFacts, session_findings
from tracetui.app.session.measured import conventions
from tracetui.app.text.tool_words import WORDS
from tracetui.app.views.common.base import View
from tracetui.app.views.common.chart import ViewChart
from tracetui.app.views.host import ranked, session_path
from tracetui.app.views.overview_text import TOP_HOST, TOP_KERNELS, OverviewData, overview_text

if TYPE_CHECKING:
    from textual.app import ComposeResult


SUMMARIES = (
    "{said}\n\nOnly summaries of its ranks are here, not their recordings: {key} compares the ranks.\n"
    "What one rank did in detail is in its recording."
)
PARTS = 240
"""Of the step that is shown as lanes: as many as a wide terminal has cells."""


class OverviewScroll(VerticalScroll, can_focus=True):
    """The page, which scrolls where the terminal is too small for it."""

    BINDINGS = commands.bindings("overview")


class OverviewView(View):
    """The verdict, the average step, the GPU, the top kernels and host functions."""

    TAB = "overview"
    OF_SUMMARIES = True
    STYLES: ClassVar[tuple[str, ...]] = (
        "head", "verdict", "bar", "muted", "warn", "gpu", "communication", "loader", "runtime", "cpu",
    )  # fmt: skip
    COMPONENT_CLASSES: ClassVar[set[str]] = {f"overview--{key}" for key in STYLES}

    def __init__(self) -> None:
        super().__init__()
        self._data: OverviewData | None = None

    def content(self) -> ComposeResult:
        """One text that may scroll."""
        with OverviewScroll(id="page"):
            yield Static(id="text", markup=False)

    def analyse(self) -> OverviewData:
        """Computes the page's upper half, which shows at once."""
        selection = self.session.selection()
        trace = selection.trace
        overview = self.session.cached("overview", lambda: run_overview(selection, conventions(self.session)))
        page_step(overview)  # the page asks for it again, and must not wait
        return OverviewData(
            overview=overview,
            kinds=page_kinds(selection),
            notes=trace.notes,
            device_names=tuple((device.id, device.name or "") for device in trace.info.devices),
            memory_bytes=self.session.cached("memory", lambda: memory(selection)).peak_allocated_bytes,
        )

    def complete(self, first: OverviewData) -> OverviewData:
        """The same page with kernels, host functions and ranks, which take longer in a large trace."""
        session = self.session
        selection = session.selection()
        run, scope = session.runs["a"], session.scope
        frame = session.cached("kernels", lambda: kernels(selection))
        waits_for_host = first.overview.verdict.kind in ("host", "unknown")
        host = session.cached("host", lambda: host_functions(selection)) if waits_for_host else None
        rich = first.overview.as_recorded or first.overview
        many = len(run.ranks) > 1
        # summaries of ranks that were not read take long to make: only those that are at hand are shown
        ranks = session.cached("ranks", lambda: ranks_of(run, scope, make=False)) if many else None
        jobs = session.cached("jobs", lambda: jobs_of(run, scope, make=False)) if many else ()
        return replace(
            first,
            verdict=session.cached("verdict", lambda: verdict(SessionFacts(session), session.config)),
            job=session.cached("job", lambda: brief(jobs)) if many else "",
            kernels=frame.head(TOP_KERNELS),
            kernel_count=frame.height,
            kernel_ns=int(frame["total_ns"].sum()) if frame.height else 0,
            host=None if host is None else ranked(host).head(TOP_HOST),
            ranks=ranks,
            unread=len(run.unread),
            path=session_path(session),
            lanes=session.cached(
                "step_lanes",
                lambda: typical_picture(selection.trace, rich.per_step, marked=bool(rich.steps), parts=PARTS),
            ),
            whole=True,
        )

    def judge(self, page: OverviewData) -> OverviewData:
        """Adds the findings, which take longest; the page does not wait for them."""
        try:
            found = session_findings(self.session, self.host.log_error).found
        except Exception as error:  # the page is useful without them
            self.host.log_error(error)
            return replace(page, findings=(), unjudged=True)
        return replace(page, findings=found)

    def show(self, result: OverviewData) -> None:
        """Shows the upper half, and goes on to the rest."""
        self._data = result
        trace = self.session.trace()
        if not trace.has_timeline and (words := WORDS[trace.info.kind].no_overview):
            said = "\n".join(f"{title}: {text}" for title, text in trace.info.captured)
            self.blank(f"{words}\n\n{said}" if WORDS[trace.info.kind].says else words)
            return
        run = self.session.runs["a"]
        if run.summaries_in is not None:
            self.blank(
                SUMMARIES.format(
                    said=brief(jobs_of(run, self.session.scope, make=False)), key=commands.key("tab.ranks")
                )
            )
            return
        if not trace.host.height and not trace.device.height:
            self.blank(
                "This trace has no host or GPU events.\n\n"
                "Nothing was recorded between start and stop of the profiler, or all of it was skipped: N says why."
            )
            return
        self._draw()
        self._compute("rest", lambda: self.complete(result))

    def show_inner(self, result: OverviewData) -> None:
        """Shows the page with its tables, and goes on to the findings."""
        self._data = result
        self._draw()
        if result.findings is None:
            self._compute("findings", lambda: self.judge(result))

    def on_mount(self) -> None:
        """Keeps the footer right about whether the page scrolls."""
        self.follow_scrolling(self.query_one("#page"))

    def on_resize(self) -> None:
        """Arranges the page anew."""
        self._draw()

    def _draw(self) -> None:
        width, height = self.size
        if self._data is not None and width:
            styles = {key: self.get_component_rich_style(f"overview--{key}", partial=True) for key in self.STYLES}
            text = overview_text(self._data, width, height, styles, ascii=self.session.ascii)
            self.query_one("#text", Static).update(text)

    def chart(self) -> ViewChart | None:
        """The typical step as lanes."""
        from tracetui.app.charts.gantt import GanttLane, lanes_svg
        from tracetui.app.charts.lanes import lane_title

        picture = None if self._data is None else self._data.lanes
        if picture is None or not picture.lanes:
            return None
        lanes = [GanttLane(lane_title(one.lane, short=True), one.busy) for one in picture.lanes]
        what = "The whole file" if picture.step is None else f"Step {picture.step}"
        title = f"{what} as recorded (how busy each lane is)"
        said = self.session.selection().describe()
        return ViewChart(title, said, lanes_svg(lanes, picture.lasting, title, ascii=self.session.ascii))

    def focus_content(self) -> None:
        """The page scrolls by key."""
        self.query_one("#page").focus()

    def footer_labels(self) -> dict[str, str]:
        """Returns labels for the tabs that the page's lines lead to."""
        labels = {"tab.kernels": "kernels", "tab.host": "host", "tab.findings": "findings", "app.notes": "notes"}
        if self._data is not None and self._data.overview.idle.height:
            labels["go.gaps"] = "gaps"
        if self.host.came_from_finding:
            labels["load.stop"] = "the finding"
        elif self.host.came_by_jump:
            labels["load.stop"] = "back"
        if len(self.session.runs["a"].ranks) > 1:
            labels["run.rank"] = "next rank"
        if self.session.runs["a"].others:
            labels["run.captures"] = "captures"
        page = self.query_one("#page")
        if page.max_scroll_y:
            labels["page.down"] = "scroll"
        return labels
