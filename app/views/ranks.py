"""The ranks of a job: what each does in a step, who waits for whom, what transfers take, stages of a pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from tracetui.analysis.ranks.files.at_hand import jobs_of, ranks_of, summaries_of
from tracetui.analysis.ranks.rank_table import TOGETHER, judged
from tracetui.analysis.ranks.together.said import in_title
from tracetui.analysis.tables.ranks import ARRIVALS, RANKS, STAGES, TRANSFERS, WAITING
from tracetui.app.keys import commands
from tracetui.app.reports.content.job.drawn import DRAWN, drawable, first_drawn
from tracetui.app.reports.content.pictures import job_heat
from tracetui.app.views import rank_pages
from tracetui.app.views.common.chart import ViewChart
from tracetui.app.views.common.counted import filled
from tracetui.app.views.common.messages import ShowRank
from tracetui.app.views.common.page import Page
from tracetui.app.views.common.table_view import WAITING as COMPUTING
from tracetui.app.views.common.table_view import TableView
from tracetui.app.views.rank_pages import NOTHING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tracetui.analysis.ranks.together.job import Job

ONE_RANK = (
    "This run has one rank.\n\nA folder with a trace of each rank opens as one run; "
    "`tracetui profile -- torchrun …` records them."
)
UNREAD = (
    "Most ranks of this job were not read.\n\n"
    "`tracetui ranks FOLDER` summarises them once; then this tab compares them."
)
NO_STAGES = "No pipeline: its ranks have no groups that pass on activations."


class RanksView(TableView):
    """A row per rank with a number of each step as a picture; beside it arrivals, who waited for whom, transfers."""

    TAB = "ranks"
    OF_SUMMARIES = True
    TABLES = ("ranks", "arrivals", "waiting", "transfers", "stages")
    BINDINGS = commands.bindings("ranks")

    def __init__(self) -> None:
        super().__init__()
        self._drawn = ""
        """What the table of ranks draws; empty for what the job suggests."""

    def root(self) -> Page:
        """One of the tables of the job."""
        if len(self.session.runs["a"].ranks) < 2:
            return Page.of(RANKS, pl.DataFrame(), empty=ONE_RANK, alone=True)
        job = self._job()
        if job is None:
            return Page.of(RANKS, pl.DataFrame(), empty=UNREAD, alone=True)
        ascii = self.session.ascii
        if self.kind == "ranks":
            drawn = self._drawn or first_drawn(job)
            return self.session.cached(
                ("table of ranks", drawn),
                lambda: rank_pages.ranks_page(job, self._table(job), drawn, in_title(job), ascii=ascii),
            )
        if self.kind == "arrivals":
            return self.session.cached("arrivals", lambda: rank_pages.arrivals_page(job, self._zero(job), ascii=ascii))
        if self.kind == "stages":
            return Page.of(STAGES, job.pipeline, columns=filled(STAGES.columns, job.pipeline), empty=NO_STAGES)
        if self.kind == "transfers":
            bounds = "ranks are missing: waiting and busbw at least, transfer at most" if job.bounded else ""
            columns = filled(TRANSFERS.columns, job.kinds)
            return Page.of(TRANSFERS, job.kinds, columns=columns, empty=NOTHING, note=bounds)
        per_step = pl.col("wait_ns") / job.called_steps
        waits = job.waits.with_columns(wait_ns=per_step, pair=pl.format("{} for {}", "rank", "for_rank"))
        return Page.of(WAITING, waits, empty=NOTHING, note="chains are followed to their root")

    def inside(self, page: Page, row: Mapping[str, Any]) -> Callable[[], Page] | None:
        """The ranks of a collective."""
        job = self._job() if page.id == ARRIVALS.id else None
        return None if job is None else lambda: rank_pages.arrivals_of_one(job, row, ascii=self.session.ascii)

    def action_drill(self) -> None:
        """Shows a rank: reads it first, if that has not been done."""
        rank = self._rank()
        if rank is None:
            super().action_drill()
        else:
            self.post_message(ShowRank(rank))

    def action_beside(self) -> None:
        """Shows the rank beside the median rank."""
        rank, job = self._rank(), self._job()
        if rank is None or job is None:
            self.host.say(self._no_median())
            return

        def work() -> Page:
            return rank_pages.beside_page(job, summaries_of(self.session.runs["a"], self.session.scope), rank)

        self.host.say(COMPUTING)
        self._making = work
        self._compute("inner", work)

    def _no_median(self) -> str:
        """Says why nothing is compared with the median rank here, and where it is."""
        beside = commands.key("ranks.beside")
        if len(self.session.runs["a"].ranks) < 2:
            return "This run has one rank, and so no median to compare it with"
        if self.state is None or not self.state.page.frame.height:
            return f"{beside} compares a rank with the median: there are no ranks to compare here"
        return f"{beside} compares a rank of the table Ranks with the median: {commands.key('table.next')} leads there"

    def action_draw(self) -> None:
        """Draws the next number of each rank's steps."""
        job, state = self._job(), self.state
        if job is None or state is None or state.page.id != RANKS.id:
            self.host.say(f"{commands.key('table.next')} leads to the table of ranks, whose pictures this is for")
            return
        self._drawn = self._next_drawn(job)
        self.session.sorts.update({page: sort for page, sort in self.sorts().items() if sort is not None})
        row = self.table.current
        self._wanted = None if row is None else str(row["rank"])
        self._compute("root", self.root)
        self.host.say(f"Drawn: {DRAWN[self._drawn].about}")

    def chart(self) -> ViewChart | None:
        """The ranks as a heat map; other tables as bars."""
        job = self._known_job()
        if job is None or self.state is None or self.state.page.id != RANKS.id:
            return super().chart()
        drawn = self._drawn or first_drawn(job)
        svg = job_heat(job, drawn, ascii=self.session.ascii)
        title = in_title(job)
        said = f"{DRAWN[drawn].title}: {DRAWN[drawn].about}"
        return None if svg is None else ViewChart(title[:1].upper() + title[1:], said, svg)

    def footer_labels(self) -> dict[str, str]:
        """Returns labels that say what is drawn next."""
        labels = super().footer_labels() | {"ranks.draw": "", "ranks.beside": ""}
        job = None if self.has_class("-blank") or self.state is None else self._known_job()
        if job is not None and self.state is not None and self.state.page.id == RANKS.id:
            labels["ranks.draw"] = f"draw {DRAWN[self._next_drawn(job)].label}"
            labels["ranks.beside"] = "compare"
        return labels

    def _next_drawn(self, job: Job) -> str:
        known = drawable(job)
        now = self._drawn or first_drawn(job)
        return known[(known.index(now) + 1) % len(known)] if now in known else known[0]

    def _rank(self) -> int | None:
        """The rank under the cursor of the table of ranks."""
        row = self.table.current
        known = self.state is not None and self.state.page.id == RANKS.id and row is not None
        return int(str(row["rank"])) if known and row is not None else None

    def _known_job(self) -> Job | None:
        """The job, where the page in view was made of one."""
        return self._job() if self.state is not None and self.state.page.frame.height else None

    def _job(self) -> Job | None:
        """The job in its rich recording; None where most ranks were not read and no summaries of them are at hand."""
        run, scope = self.session.runs["a"], self.session.scope
        every = self.session.cached("jobs", lambda: jobs_of(run, scope, make=False))
        return every[0] if every else None

    def _zero(self, job: Job) -> int:
        """Returns where the recording in view begins, or that of the lowest rank; ns on the common clock."""
        run, scope = self.session.runs["a"], self.session.scope
        if run.summaries_in is None:
            info = self.session.trace().info
            begin = info.window[0] if info.window else 0
            return rank_pages.on_common_clock(job, info.rank, begin + (info.base_time or 0))
        known = ((one.rank, one.window[0]) for one in summaries_of(run, scope) if one.window is not None)
        return rank_pages.on_common_clock(job, *min(known, default=(None, 0)))

    def _table(self, job: Job) -> pl.DataFrame:
        """The table of ranks with what all of them say together."""
        run, scope = self.session.runs["a"], self.session.scope
        return judged(ranks_of(run, scope, make=False).drop(TOGETHER, strict=False), (job,))
