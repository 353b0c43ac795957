"""One rank as its job knows it: what it waits for, its matched collectives, itself beside the median of its peers.

Its recording's times on the clock that was fitted for the job are here, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from tracetui.analysis.base.number_format import format_ns, spans
from tracetui.analysis.collectives import MATCHED, all_collectives
from tracetui.analysis.dependencies.limit import Limit
from tracetui.analysis.ranks.job import Job
from tracetui.analysis.ranks.late import STEP_PERCENT
from tracetui.analysis.ranks.summary import RankSummary
from tracetui.analysis.ranks.tables import common_steps, step_counts
from tracetui.analysis.ranks.waiting import who_for_whom
from tracetui.analysis.ranks.work import Works, lower_median
from tracetui.analysis.timeline.ranks_timeline import RanksTimeline
from tracetui.parsers import Run, Trace
from tracetui.parsers.arrays import Ints

MOST = 0.5
"""Of its recorded step: what waits for a rank that comes last in this recording only must be the largest part of it."""


def in_its_job(found: Limit, job: Job | None, rank: int | None) -> Limit:
    """The verdict on one rank's recording, as far as the job knows better.

    A rank that waits for one that is late in the program waits for that rank, whatever its own recording looks like.
    One that waits most of its step for a rank that came last in this recording alone does so as recorded.

    Args:
        found: what the rank's own recording says.
        job: the job that it is a rank of.
        rank: which one it is.

    Returns:
        `found` itself where the job says nothing against it, and of the rank that the others wait for.
    """
    if job is None or rank is None or job.step_ns is None:
        return found
    program, last = [one.rank for one in job.answers.program], job.answers.recording
    base = f"the ranks' steps {spans(job.shared)}" if job.shared else "the ranks' whole recordings"
    own = dict(job.ranks.select("rank", "step_ns").iter_rows()).get(rank)
    if rank in program or not own:
        return found
    late, waits = _longest(job, rank, program)
    if late is not None and 100 * waits > STEP_PERCENT * own:
        text = f"Waits for rank {late}, which is late in the program: {_waited(job, own, waits)} for it"
        return replace(found, kind="ranks", sentence=f"{text} in collectives ({base}).", why=None)
    late, waits = _longest(job, rank, [last.rank] if last is not None else [])
    if late is None or late == rank or waits <= MOST * own:
        return found
    waited = f"{_waited(job, own, waits)} for rank {late} in collectives"
    if found.kind == "unknown":
        return replace(found, sentence=f"{found.sentence} In its job, {waited}.")
    text = f"Waits for rank {late}, which comes last in this recording: {waited}; whether it is so late without a"
    return replace(found, kind="ranks", sentence=f"{text} profiler can't be told ({base}).")


def _longest(job: Job, rank: int, late: list[int]) -> tuple[int | None, float]:
    """Of these ranks the one that a rank waits for longest, and how long per step, ns."""
    waits = job.waits if job.waits.height == job.pairs else who_for_whom(job.waiting, job.pairs)[0]
    rows = waits.filter((pl.col("rank") == rank) & pl.col("for_rank").is_in(late)).head(1)
    return (int(rows["for_rank"][0]), int(rows["wait_ns"][0]) / job.called_steps) if rows.height else (None, 0.0)


def _waited(job: Job, step_ns: float, waits_ns: float) -> str:
    """``of a step as recorded it waits 15.88 ms``: how long that step is the page says."""
    what = "a step" if job.step_count else "a recording"
    return f"of {what} as recorded it waits {format_ns(min(waits_ns, step_ns))}"


_TIMES = ("recorded_begin", "recorded_end")


def own_calls(found: Sequence[Job], trace: Trace) -> pl.DataFrame | None:
    """The matched calls of a recording (`collectives.MATCHED`), by the job of its pass.

    Args:
        found: the jobs of its run.
        trace: one of the run's recordings.

    Returns:
        None where the job of this recording is not known, or none of its calls was matched.
    """
    rank = trace.info.rank
    passes = {job.recorded_pass: job for job in reversed(found)}
    job = passes.get(trace.info.recorded_pass) or passes.get("rich") or passes.get(None)
    if job is None or rank is None:
        return None
    shift = trace.info.base_time or 0
    size = pl.col("group_size").fill_null(job.world_size)
    transfers = job.collectives.select("instance", "transfer_ns", whole=pl.col("ranks") >= size)
    calls = job.calls.filter(pl.col("rank") == rank).join(transfers, on="instance", how="inner")
    calls = calls.select(
        *(pl.col(name) - shift for name in _TIMES), "whole", waiting_ns="wait_ns", transfer_ns="transfer_ns"
    )
    # two calls of the same moments are several operations in one kernel, which no other rank's can be matched with
    calls = calls.unique(_TIMES, keep="none")
    timed = all_collectives(trace).filter(pl.col("part_of").is_null())
    rows = timed.select("row", recorded_begin="begin", recorded_end="end").join(calls, on=_TIMES, how="inner")
    return rows.select(pl.col(name).cast(dtype) for name, dtype in MATCHED.items()) if rows.height else None


def ranks_timeline(run: Run, traces: Sequence[Trace], job: Job | None = None) -> RanksTimeline | None:
    """The lanes of several ranks on one clock: that of their job, in which its collectives' times are.

    Args:
        run: what they are of.
        traces: a recording of each rank.
        job: the whole job, if its summaries are at hand; else the clock is fitted by these ranks alone.

    Returns:
        None where nothing in any of them has a place in time.
    """
    from tracetui.analysis.ranks.job import jobs
    from tracetui.analysis.ranks.summarise import summarise
    from tracetui.analysis.timeline.ranks_timeline import of_ranks
    from tracetui.analysis.timeline.timeline import build

    if job is None:
        job = jobs([summarise(trace, manifest=run.manifest) for trace in traces])[0]
    parts = []
    for trace in traces:
        built = build(on_common_clock(trace, job))
        if built is not None:
            parts.append((trace.info.rank or 0, built))
    return of_ranks(parts, job.calls, job.residual_ns) if parts else None


def on_common_clock(trace: Trace, job: Job) -> Trace:
    """A rank's recording with all its times on the job's clock, which counts from 1970 where the recordings say so."""
    fitted = job.clocks.filter(pl.col("rank") == (trace.info.rank or 0)).head(1)
    offset, drift, about = (
        (float(fitted["offset_ns"][0] or 0), float(fitted["drift_ppm"][0] or 0), int(fitted["about_ns"][0]))
        if fitted.height
        else (0.0, 0.0, 0)
    )
    base = trace.info.base_time or 0

    def moved(time: Ints) -> Ints:
        there: Ints = time + base
        # the difference to a moment of the recording is small enough for a float, a time since 1970 is not
        apart: Ints = np.rint(offset + drift * 1e-6 * (there - about)).astype(np.int64)
        return there - apart

    def shifted(frame: pl.DataFrame) -> pl.DataFrame:
        if not frame.height:
            return frame
        known = frame["start"].is_not_null()
        time = pl.Series("start", moved(frame["start"].fill_null(0).to_numpy()))
        return frame.with_columns(pl.when(known).then(time).alias("start"))

    window = trace.info.window
    if window is not None:
        begin, end = moved(np.array(window, np.int64)).tolist()
        window = begin, end
    info = replace(trace.info, window=window)
    return replace(trace, steps=shifted(trace.steps), host=shifted(trace.host), device=shifted(trace.device), info=info)


BESIDE: dict[str, pl.DataType] = {
    "kind": pl.String(),
    "name": pl.String(),
    "own_ns": pl.Float64(),  # of this rank, per step; null where its summary does not list the name and has a rest
    "median_ns": pl.Float64(),  # of its peers; null where their summaries do not list the name and have a rest
    "over_ns": pl.Float64(),  # at least so much where the median is null
    "own_count": pl.Float64(),
    "median_count": pl.Float64(),
    "longer": pl.Float64(),  # a launch on this rank by one on the median rank; null where either has none
}
NUMBERS = {
    "step_ns": "a step",
    "clean_step_ns": "a step without a profiler",
    "own_gpu_ns": "own GPU work",
    "silent_ns": "silent host time",
    "loader_ns": "waiting for its data loader",
    "wait_ns": "waiting for other ranks",
    "transfer_ns": "transfer",
    "late_ns": "others wait for it",
    "compute_ns": "computing kernels run",
    "communication_ns": "collectives run",
    "exposed_ns": "exposed collectives",
    "idle_ns": "idle GPU",
}
"""The numbers of a rank (`tables.RANKS`) and what they are called."""
STEP = "step"
"""The kind of a row that is one of `NUMBERS`."""
KINDS = {
    "gpu_range": "range, GPU",
    "gpu_module": "module, GPU",
    "kernel": "kernel",
    "copy": "copy",
    "silent": "silent host",
    "loader": "loader",
    "collection": "garbage collection",
}
"""The kinds of `summary.WORK` and what they are called."""
REST = "(the rest)"


def beside_median(job: Job, summaries: Sequence[RankSummary], rank: int) -> pl.DataFrame:
    """A rank beside the median of the ranks that do the same work (`BESIDE`).

    The median is that of each number for itself, the lower of the two in the middle of an even number of ranks: no one
    rank has all of them. Numbers of the step come first, then work, what it has more of before what it has less of.

    Args:
        job: what the ranks say together.
        summaries: those that the job was made of.
        rank: one that the job has.
    """
    chosen = {one.rank: one for one in reversed(summaries) if one.recorded_pass == job.recorded_pass}
    present, _ = common_steps([chosen[number] for number in job.ranks["rank"].to_list()])
    table = job.ranks
    place = table["rank"].to_list().index(rank)
    peers = np.flatnonzero((table["peers"] == table["peers"][place]).to_numpy())
    work = _work(Works.of(present, step_counts(present)), place, peers)
    return pl.concat([_numbers(table, place, peers), work])


def _numbers(table: pl.DataFrame, place: int, peers: np.ndarray) -> pl.DataFrame:
    rows = []
    for column, words in NUMBERS.items():
        values = table[column].cast(pl.Float64).fill_null(float("nan")).to_numpy()
        own, middle = float(values[place]), lower_median(values[peers])
        if not np.isnan(own):
            known = None if np.isnan(middle) else middle
            rows.append((STEP, words, own, known, None if known is None else own - known, None, None, None))
    return pl.DataFrame(rows, schema=BESIDE, orient="row")


def _work(works: Works, place: int, peers: np.ndarray) -> pl.DataFrame:
    """Work by kind and name, what this rank has more of first."""
    frame = works.frame.filter(pl.col("place").is_in(peers.tolist()))
    steps = np.maximum(np.array(works.steps), 1)
    summed = frame.group_by("kind", "name", "place").agg(pl.col("ns").sum(), pl.col("count").sum())
    rows = []
    for (kind,), part in summed.group_by("kind"):
        names = part["name"].unique().sort()
        at = names.search_sorted(part["name"]).to_numpy(), np.searchsorted(peers, part["place"].to_numpy())
        per = steps[part["place"].to_numpy()]
        ns, count = np.zeros((names.len(), peers.size)), np.zeros((names.len(), peers.size))
        listed = np.zeros(ns.shape, np.bool_)
        ns[at], count[at], listed[at] = part["ns"].to_numpy() / per, part["count"].to_numpy() / per, True
        # a name that a rank with a rest does not list takes at most what the smallest one takes that it lists
        named = (names != "").to_numpy()
        smallest = np.min(np.where(listed & named[:, None], ns, np.inf), axis=0, initial=np.inf)
        rest = listed[~named].any(axis=0) & np.isfinite(smallest)
        bound = np.where(rest, smallest, 0.0)
        most = np.where(listed, ns, bound)
        chosen = np.argsort(most, axis=1, kind="stable")[:, (peers.size - 1) // 2]
        me = int(np.searchsorted(peers, place))
        for row, name in enumerate(names.to_list()):
            it = chosen[row]
            if not max(ns[row, me], most[row, it]) or not (listed[row, me] or listed[row, it]):
                continue
            mine, theirs = bool(listed[row, me] or not rest[me]), bool(listed[row, it] or not rest[it])
            over = float(ns[row, me] - most[row, it])
            calls = (count[row, me], count[row, it])
            longer = ns[row, me] / calls[0] / (ns[row, it] / calls[1]) if name and all(calls) and ns[row, it] else None
            rows.append(
                (
                    KINDS.get(str(kind), str(kind)), name or REST, ns[row, me] if mine else None,
                    ns[row, it] if theirs else None, over if mine and (theirs or over > 0) else None,
                    calls[0] if mine else None, calls[1] if theirs else None, longer,
                )
            )  # fmt: skip
    found = pl.DataFrame(rows, schema=BESIDE, orient="row")
    return found.sort("over_ns", "kind", "name", descending=[True, False, False], nulls_last=True)
