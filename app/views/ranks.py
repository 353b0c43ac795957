"""The ranks of a job: what each does in a step, who waits for whom, what transfers take, stages of a pipeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from tracetui.analysis.base.number_format import format_count, format_ns
from tracetui.analysis.ranks.job import Job
from tracetui.analysis.ranks.of_run import TOGETHER, jobs_of, judged, ranks_of, summaries_of
from tracetui.analysis.ranks.one_rank import beside_median
from tracetui.analysis.ranks.sentences import SILENT, answer, in_title
from tracetui.analysis.ranks.summary import RankSummary
from tracetui.analysis.tables.ranks import ARRIVALS, ARRIVALS_OF_ONE, BESIDE_MEDIAN, RANKS, STAGES, TRANSFERS, WAITING
from tracetui.analysis.tables.table import Field
from tracetui.app.charts.heat import heat_map, span
from tracetui.app.keys import commands
from tracetui.app.reports.content.job import DRAWN, cells_to_draw, drawable, first_drawn
from tracetui.app.reports.content.pictures import job_heat
from tracetui.app.text.fitting import printable, wrapped
from tracetui.app.views.common.chart import ViewChart
from tracetui.app.views.common.counted import filled
from tracetui.app.views.common.messages import ShowRank
from tracetui.app.views.common.page import Page
from tracetui.app.views.common.table_view import WAITING as COMPUTING
from tracetui.app.views.common.table_view import TableView

WIDTH = 24
"""The most columns of a picture."""
IN_SIGHT = 16
"""So many ranks are seen at once at 80x24; of more, those that are late come first."""
NOTHING = "No collectives of these ranks could be matched."


def ranks_page(job: Job, table: pl.DataFrame, drawn: str, note: str, *, ascii: bool) -> Page:
    """The table of ranks with one number of each as a picture.

    Args:
        job: what the ranks say together.
        table: `of_run.judged`.
        drawn: one of `DRAWN`.
        note: the answer in a line.
        ascii: whether the terminal has no block characters.
    """
    cells, column = cells_to_draw(job, drawn)
    pictures = heat_map(cells, "rank", column, drawn, WIDTH, ascii=ascii, from_zero=drawn != "step_ns")
    last = job.answers.recording
    state = (
        pl.when(pl.col("straggler"))
        .then(pl.lit("late"))
        .when(pl.col("rank") == (-1 if last is None else last.rank))
        .then(pl.lit("last"))
        .otherwise(pl.lit(""))
    )
    texts = pl.Series([pictures.get(rank, "") for rank in table["rank"].to_list()], dtype=pl.String)
    table = table.with_columns(state=state, drawn=texts)
    if table.height > IN_SIGHT:
        table = table.sort(pl.col("state").replace_strict({"late": 0, "last": 1, "": 2}), "rank")
    what = DRAWN[drawn]
    columns = tuple(
        replace(
            field,
            title=what.title,
            width=max(len(what.title), min(_widest(pictures), WIDTH)),
            about=f"{what.about}: {field.about}",
        )
        if field.name == "drawn"
        else field
        for field in filled(RANKS.columns, table)
    )
    order = None if table.height > IN_SIGHT else ("rank", False)
    return Page.of(RANKS, table, columns=columns, note=note, sort=order)


def on_common_clock(job: Job, rank: int | None, moment: int) -> int:
    """Returns a moment of a rank's recording on the common clock; of a rank without calls, the first collective's.

    Args:
        job: what the ranks say together.
        rank: whose moment it is.
        moment: ns as the rank's summary has them.
    """
    known = job.calls.filter(pl.col("rank") == rank).sort("begin").head(1)
    for begin, recorded in known.select("begin", "recorded_begin").iter_rows():
        return int(begin) - int(recorded) + moment
    return int(job.collectives["begin"].min() or 0)  # type: ignore[arg-type]


def arrivals_page(job: Job, zero: int, *, ascii: bool) -> Page:
    """The matched collectives in the order of time, with how late each rank came to them.

    Args:
        job: what the ranks say together.
        zero: the moment that times count from, ns on the common clock.
        ascii: whether the terminal has no block characters.
    """
    frame = job.collectives
    if not frame.height:
        return Page.of(ARRIVALS, frame, empty=NOTHING)
    nodes = node_columns(job)
    calls = job.calls.with_columns(at="rank") if nodes is None else job.calls.join(nodes, on="rank")
    pictures = heat_map(calls, "instance", "at", "late_ns", WIDTH, ascii=ascii, from_zero=True)
    texts = pl.Series([pictures.get(number, "") for number in frame["instance"].to_list()], dtype=pl.String)
    frame = frame.with_columns(at_ns=pl.col("begin") - zero, drawn=texts)
    title = "Late by rank" if nodes is None else "Late by node"
    columns = tuple(
        replace(field, title=title, width=max(field.width, min(_widest(pictures), WIDTH)))
        if field.name == "drawn"
        else field
        for field in filled(ARRIVALS.columns, frame)
    )
    limit = "" if job.one_clock or job.residual_ns is None else f"arrivals are told to {format_ns(job.residual_ns)}"
    return Page.of(
        ARRIVALS, frame, key="at_ns", columns=columns, note=limit or "how late each rank came to each collective"
    )


def node_columns(job: Job) -> pl.DataFrame | None:
    """Where each rank stands in a picture of more ranks than it has columns: as many for each node, none for two.

    Returns:
        ``rank`` and ``at``; None where all ranks have a column, or their nodes are not known.
    """
    table = job.ranks.select("rank", "host")
    if table.height <= WIDTH or table["host"].null_count():
        return None
    first = pl.col("rank").min().over("host")
    table = table.with_columns(node=first.rank("dense") - 1)
    each = max(WIDTH // table["node"].n_unique(), 1)
    place = pl.int_range(pl.len()).over("node") * each // pl.len().over("node")
    return table.select("rank", at=pl.col("node") * each + place)


def arrivals_of_one(job: Job, row: Mapping[str, Any], *, ascii: bool) -> Page:
    """The ranks of one collective under one another, on the common clock."""
    calls = job.calls.filter(pl.col("instance") == row["instance"])
    # of many ranks the latest are what one looks for
    order = ("rank", False) if calls.height <= IN_SIGHT else ("arrived_ns", True)
    calls = calls.sort("rank") if order[0] == "rank" else calls.sort("begin", "rank", descending=[True, False])
    begin = int(calls["begin"].min())  # type: ignore[arg-type]
    whole = int(calls["end"].max()) - begin  # type: ignore[arg-type]
    frame = calls.with_columns(arrived_ns=pl.col("begin") - begin, duration_ns=pl.col("end") - pl.col("begin"))
    drawn = [
        span(at, at + wait, at + took, whole, WIDTH, ascii=ascii)
        for at, wait, took in frame.select("arrived_ns", "wait_ns", "duration_ns").iter_rows()
    ]
    frame = frame.with_columns(drawn=pl.Series(drawn, dtype=pl.String))
    title = " ".join(str(part) for part in (row["kind"] or "collective", _of_step(row)) if part)
    note = f"{format_ns(whole)} from first arrival to end"
    return Page.of(ARRIVALS_OF_ONE, frame, title=title, sort=order, note=note)


def rank_page(job: Job, summaries: Sequence[RankSummary], rank: int) -> Page:
    """A rank beside the median rank, what it has more of first."""
    frame = beside_median(job, summaries, rank)
    columns: tuple[Field, ...] = filled(BESIDE_MEDIAN.columns, frame)
    per = "per step" if job.step_count else "over the recording"
    return Page.of(BESIDE_MEDIAN, frame, columns=columns, title=f"rank {rank} beside the median rank", note=per)


def _of_step(row: Mapping[str, Any]) -> str:
    return "" if row["step"] is None or row["step"] < 0 else f"of step {row['step']}"


def _widest(pictures: Mapping[int, str]) -> int:
    return max(map(len, pictures.values()), default=0)


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
    ABOVE = True
    TABLES = ("ranks", "arrivals", "waiting", "transfers", "stages")
    BINDINGS = commands.bindings("ranks")

    def __init__(self) -> None:
        super().__init__()
        self._drawn = ""
        """What the table of ranks draws; empty for what the job suggests."""
        self._latest = 0
        """Which of the latest collectives was gone to."""

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
                lambda: ranks_page(job, self._table(job), drawn, in_title(job), ascii=ascii),
            )
        if self.kind == "arrivals":
            return self.session.cached("arrivals", lambda: arrivals_page(job, self._zero(job), ascii=ascii))
        if self.kind == "stages":
            return Page.of(STAGES, job.pipeline, columns=filled(STAGES.columns, job.pipeline), empty=NO_STAGES)
        if self.kind == "transfers":
            bounds = "ranks are missing: waiting and busbw at least, transfer at most" if job.bounded else ""
            columns = filled(TRANSFERS.columns, job.kinds)
            return Page.of(TRANSFERS, job.kinds, columns=columns, empty=NOTHING, note=bounds)
        per_step = pl.col("wait_ns") / job.called_steps
        waits = job.waits.with_columns(wait_ns=per_step, pair=pl.format("{} for {}", "rank", "for_rank"))
        less = job.pairs - waits.height
        of = f"{format_count(less)} more pairs, for ranks that were waited for less; " if less else ""
        return Page.of(WAITING, waits, empty=NOTHING, note=f"{of}chains are followed to their root")

    def above(self, width: int, height: int) -> list[str]:
        """What is said of the job, as far as the table of ranks leaves room; first what its words mean."""
        job, state = self._known_job(), self.state
        if job is None or state is None or state.page.id != RANKS.id or self.detail.display:
            return []
        said = self.session.cached("job in words", lambda: answer((job,)))
        room = height - min(state.page.frame.height, IN_SIGHT) - 3
        lines: list[str] = []
        for text in dict.fromkeys((*said[:1], SILENT, *said[1:])):
            part = wrapped(f"- {printable(text, ascii=self.session.ascii)}", width - 4)
            if len(lines) + len(part) > room:
                break
            lines += (f" {'' if line is part[0] else '  '}{line}" for line in part)
        return lines

    def inside(self, page: Page, row: Mapping[str, Any]) -> Callable[[], Page] | None:
        """The ranks of a collective."""
        job = self._job() if page.id == ARRIVALS.id else None
        return None if job is None else lambda: arrivals_of_one(job, row, ascii=self.session.ascii)

    def action_drill(self) -> None:
        """Shows a rank: reads it first, if that has not been done."""
        rank = self._rank()
        if rank is None:
            super().action_drill()
        else:
            self.post_message(ShowRank(rank))

    def action_timeline(self) -> None:
        """Shows a rank's call of a collective in that rank's timeline; a rank that was not read is read first."""
        row = self.table.current
        if self.state is None or row is None or self.state.page.id != ARRIVALS_OF_ONE.id:
            super().action_timeline()
        else:
            self.post_message(ShowRank(int(str(row["rank"])), int(str(row["recorded_begin"]))))

    def action_beside(self) -> None:
        """Shows the rank beside the median rank."""
        rank, job = self._rank(), self._job()
        if rank is None or job is None:
            self.host.say(self._no_median())
            return

        def work() -> Page:
            return rank_page(job, summaries_of(self.session.runs["a"], self.session.scope), rank)

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

    def action_latest(self) -> None:
        """Goes to the collective that a rank came latest to, from there to the next latest; where, in the messages."""
        job = self._job()
        late = None if job is None else job.collectives.filter(pl.col("last_rank").is_not_null())
        if job is None or late is None or not late.height:
            self.host.say("No rank came later to a collective than clocks can tell")
            return
        late = late.sort("late_ns", "instance", descending=[True, False])
        there = self.state is not None and self.state.page.id == ARRIVALS.id
        self._latest = (self._latest + 1) % late.height if there else 0
        one = late.row(self._latest, named=True)
        self.open_at("arrivals", str(one["begin"] - self._zero(job)))
        self.host.say(
            f"{self._latest + 1} of {late.height}: rank {one['last_rank']} came {format_ns(one['late_ns'])} after the"
            " median rank"
        )

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
        labels = super().footer_labels() | {"ranks.draw": "", "ranks.beside": "", "ranks.latest": ""}
        job = None if self.has_class("-blank") or self.state is None else self._known_job()
        if job is not None:
            labels["ranks.latest"] = "latest" if job.collectives["last_rank"].count() else ""
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
            return on_common_clock(job, info.rank, begin + (info.base_time or 0))
        known = ((one.rank, one.window[0]) for one in summaries_of(run, scope) if one.window is not None)
        return on_common_clock(job, *min(known, default=(None, 0)))

    def _table(self, job: Job) -> pl.DataFrame:
        """The table of ranks with what all of them say together."""
        run, scope = self.session.runs["a"], self.session.scope
        return judged(ranks_of(run, scope, make=False).drop(TOGETHER, strict=False), (job,))
