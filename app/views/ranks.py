"""The ranks of a job: what each does in a step, who waits for whom, what transfers take, stages of a pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from tracetui.analysis.ranks.files.at_hand import jobs_of, ranks_of
from tracetui.analysis.ranks.present import of_steps
from tracetui.analysis.ranks.rank_table import TOGETHER, judged
from tracetui.analysis.ranks.summarise import summarise
from tracetui.analysis.ranks.together.job import jobs
from tracetui.analysis.ranks.together.said import in_program
from tracetui.analysis.tables.runs import RANKS, STAGES, TRANSFERS, WAITING
from tracetui.app.charts.heat import heat
from tracetui.app.views.common.counted import filled
from tracetui.app.views.common.messages import ShowRank
from tracetui.app.views.common.page import Page
from tracetui.app.views.common.table_view import TableView

if TYPE_CHECKING:
    from tracetui.analysis.ranks.together.job import Job

ONE_RANK = (
    "This run has one rank.\n\nA folder with a trace of each rank opens as one run; "
    "`tracetui profile -- torchrun …` records them."
)
UNREAD = (
    "Most ranks of this job were not read.\n\n"
    "`tracetui ranks FOLDER` summarises them once; then this tab compares them."
)
NOTHING = "No collectives of these ranks could be matched."
NO_STAGES = "No pipeline: its ranks have no groups that pass on activations."
STEPS = 24
"""The most columns of the picture of a rank's steps."""


class RanksView(TableView):
    """A row per rank, its steps as a picture; beside it who waited for whom, transfers, and stages."""

    TAB = "ranks"
    TABLES = ("ranks", "waiting", "transfers", "stages")

    def root(self) -> Page:
        """One of the tables of the job."""
        if len(self.session.runs["a"].ranks) < 2:
            return Page.of(RANKS, pl.DataFrame(), empty=ONE_RANK, alone=True)
        job = self._job()
        if job is None:
            return Page.of(RANKS, pl.DataFrame(), empty=UNREAD, alone=True)
        if self.kind == "ranks":
            table = self.session.cached("table of ranks", lambda: self._table(job))
            return Page.of(RANKS, table, columns=filled(RANKS.columns, table), note=in_program(job))
        if self.kind == "stages":
            return Page.of(STAGES, job.pipeline, columns=filled(STAGES.columns, job.pipeline), empty=NO_STAGES)
        if self.kind == "transfers":
            return Page.of(TRANSFERS, job.kinds, columns=filled(TRANSFERS.columns, job.kinds), empty=NOTHING)
        per_step = pl.col("wait_ns") / max(job.step_count, 1)
        waits = job.waits.with_columns(wait_ns=per_step, pair=pl.format("{} for {}", "rank", "for_rank"))
        return Page.of(WAITING, waits, empty=NOTHING, note="chains are followed to their root")

    def action_drill(self) -> None:
        """Shows a rank: reads it first, if that has not been done."""
        row = self.table.current
        if self.state is None or self.state.page.id != RANKS.id or row is None:
            super().action_drill()
            return
        self.post_message(ShowRank(int(str(row["rank"]))))

    def _job(self) -> Job | None:
        """The job in its rich recording; None where most ranks were not read and no summaries of them are at hand."""
        run, scope = self.session.runs["a"], self.session.scope

        def found() -> tuple[Job, ...]:
            known = jobs_of(run, scope, make=False)
            if known or run.unread:
                return known
            here = [summarise(trace, manifest=run.manifest) for trace in run.traces if trace.info.rank is not None]
            return jobs(of_steps(here, scope))

        every = self.session.cached("jobs", found)
        return every[0] if every else None

    def _table(self, job: Job) -> pl.DataFrame:
        """The table of ranks with the picture of each one's steps."""
        run, scope = self.session.runs["a"], self.session.scope
        table = judged(ranks_of(run, scope, make=False).drop(TOGETHER, strict=False), (job,))
        steps = job.steps["step_ns"]
        least, most = (float(value or 0) for value in (steps.min(), steps.max()))  # type: ignore[arg-type]
        by_rank = {
            rank: heat(part["step_ns"].to_list(), least, most, STEPS, ascii=self.session.ascii)
            for (rank,), part in job.steps.sort("rank", "begin").group_by("rank", maintain_order=True)
        }
        drawn = [by_rank.get(rank, "") for rank in table["rank"].to_list()]
        return table.with_columns(steps_drawn=pl.Series(drawn, dtype=pl.String))
